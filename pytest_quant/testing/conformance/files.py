"""Broken ONNX files, for backends that read files."""

# ruff: noqa: S101

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pytest_quant.backends.base import Backend
from pytest_quant.errors import BuildError, ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import dense, unknown_operator
from pytest_quant.testing.conformance.workbench import Workbench, float_spec, opened


class FileTests(Workbench):
    """A file that is not a whole model is an error that names it."""

    def test_missing_file(self, backend: Backend, tmp_path: Path) -> None:
        """A model file that is not there is a ModelError that names it."""
        with pytest.raises(ModelError, match=r"nowhere\.onnx"):
            backend.signature(Model.from_onnx(tmp_path / "nowhere.onnx"))

    @pytest.mark.parametrize("content", [b"", b"not a model at all", b"PK\x03\x04 a zip file"])
    def test_not_a_model(self, backend: Backend, tmp_path: Path, content: bytes) -> None:
        """A file that holds something else is a ModelError, in `signature` and in `ingredients`."""
        path = tmp_path / "broken.onnx"
        path.write_bytes(content)
        for call in (backend.signature, lambda model: backend.ingredients(float_spec(backend, model))):
            with pytest.raises(ModelError, match=r"broken\.onnx"):
                call(Model.from_onnx(path))

    def test_truncated_model(self, backend: Backend, tmp_path: Path) -> None:
        """A model cut off in the middle is a ModelError."""
        model = dense().write(tmp_path)
        assert model.path is not None
        model.path.write_bytes(model.path.read_bytes()[:-1000])
        with pytest.raises(ModelError):
            backend.signature(model)

    def test_unknown_operator(self, backend: Backend, tmp_path: Path) -> None:
        """An operator that the runtime does not have is an error that names it."""
        path = tmp_path / "strange.onnx"
        onnx.save_model(unknown_operator(), path)
        example = dense()
        with (
            pytest.raises((BuildError, ModelError)) as caught,
            opened(backend, float_spec(backend, Model.from_onnx(path)), example),
        ):
            pass
        assert "NoSuchOperator" in str(caught.value)

    def test_torch_module(self, backend: Backend) -> None:
        """A model without a file is a UsageError that says how to write one, for this backend takes files."""
        model = Model.from_torch(object(), ())
        with pytest.raises((UsageError, ModelError)):
            backend.signature(model)
