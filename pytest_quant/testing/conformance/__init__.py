"""What every backend must do, as classes of tests to inherit from.

Override the fixture ``backend``. A scheme that needs a model of its own (``given``, ``qat``) is not tried here.
"""

# ruff: noqa: S101

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from pytest_quant.backends import Backend
from pytest_quant.errors import BuildError, ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.contract import ContractTests
from pytest_quant.testing.conformance.examples import dense, unknown_operator
from pytest_quant.testing.conformance.results import ResultTests
from pytest_quant.testing.conformance.workbench import float_spec, opened

__all__ = ["BackendConformance", "ModuleBackendConformance"]


class BackendConformance(ResultTests, ContractTests):
    """For a backend that reads ONNX files: results, the engine's contract, proof of what ran, errors."""

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
        spec = float_spec(backend, Model.from_onnx(path))
        with pytest.raises((BuildError, ModelError), match="NoSuchOperator"), opened(backend, spec, dense()):
            pass

    def test_torch_module(self, backend: Backend) -> None:
        """A model without a file is an error that says how to write one, for this backend takes files."""
        with pytest.raises((UsageError, ModelError)):
            backend.signature(Model.from_torch(object(), ()))


class ModuleBackendConformance(ResultTests, ContractTests):
    """The same for a backend that reads torch modules."""

    def test_a_file(self, backend: Backend, tmp_path: Path) -> None:
        """A model file is a UsageError that says how to hand over a module."""
        with pytest.raises(UsageError, match="from_torch"):
            backend.signature(dense().write(tmp_path))

    @pytest.mark.parametrize("thing", [object(), "resnet18", None])
    def test_not_a_module(self, backend: Backend, thing: object) -> None:
        """Something else is an error, in `signature` and in `ingredients`."""
        model = Model.from_torch(thing, ())
        for call in (backend.signature, lambda model: backend.ingredients(float_spec(backend, model))):
            with pytest.raises((ModelError, UsageError)):
                call(model)
