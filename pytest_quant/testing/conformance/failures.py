"""Bad input, a broken file or module among it, is a clear error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_quant.backends import Backend, Feeds
from pytest_quant.errors import BuildError, DataError, ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import dense, unknown_operator
from pytest_quant.testing.conformance.workbench import SEVERAL, Workbench, float_spec, model_for, opened, shared, specs

# ruff: noqa: S101


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


_BAD_FEEDS: dict[str, tuple[Callable[[Feeds], Feeds], str]] = {
    "name": (lambda feeds: {"z": feeds["x"]}, "input 'z'"),
    "missing": (lambda _: {}, "input 'x' is missing"),
    "rank": (lambda feeds: {"x": feeds["x"][0]}, "wrong rank"),
    "size": (lambda feeds: {"x": feeds["x"][:, :-1]}, "wrong shape"),
    "dtype": (lambda feeds: {"x": feeds["x"].astype(np.float64)}, "wrong dtype"),
}


class FailureTests(Workbench):
    """Each error is ours, names what is wrong, and comes before a wrong number does."""

    @pytest.mark.parametrize("kind", _BAD_FEEDS)
    def test_wrong_inputs(self, backend: Backend, tmp_path: Path, kind: str) -> None:
        """A wrong name, rank, size or dtype is a DataError in `run` and in `prepare`; the engine stays usable."""
        spoil, message = _BAD_FEEDS[kind]
        example = dense()
        feeds = example.feeds(SEVERAL, 80)
        engine = shared(backend, float_spec(backend, model_for(backend, example, tmp_path)), example)
        for call in (engine.run, engine.prepare):
            with pytest.raises(DataError, match=message):
                call(spoil(feeds))
        np.testing.assert_allclose(engine.run(feeds)["y"], example.compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_unknown_option(self, backend: Backend, tmp_path: Path) -> None:
        """An option that the backend does not know is a UsageError that names it."""
        spec = replace(float_spec(backend, model_for(backend, dense(), tmp_path)), options=(("no_such_option", 1),))
        with pytest.raises(UsageError, match="no_such_option"):
            backend.check(spec)

    def test_unknown_scheme(self, backend: Backend, tmp_path: Path) -> None:
        """A scheme that the backend does not offer is a UsageError."""
        with pytest.raises(UsageError):
            backend.check(
                replace(
                    float_spec(backend, model_for(backend, dense(), tmp_path)), precision="int8", scheme="astrology"
                )
            )

    def test_no_calibration_batch(self, backend: Backend, tmp_path: Path) -> None:
        """A scheme that calibrates and gets no batch is a DataError, not an engine with invented ranges."""
        for spec in specs(backend, model_for(backend, dense(), tmp_path)):
            if backend.calibration_ingredients(spec) is not None:
                with pytest.raises(DataError, match="no batch"):
                    backend.calibrate(spec, lambda: iter(()), tmp_path)


# ruff: noqa: S101


class ModuleTests(Workbench):
    """What is not a module with inputs for it is an error that says what was given."""

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

    def test_no_example_inputs(self, backend: Backend) -> None:
        """A module without a tuple of tensors cannot be traced."""
        import torch

        examples: tuple[Any, ...] = ((), torch.zeros(2, 4), ([1.0],))
        for example_inputs in examples:
            with pytest.raises(ModelError, match="tuple of tensors"):
                backend.signature(Model.from_torch(torch.nn.Linear(4, 2), example_inputs))

    def test_inputs_that_do_not_fit(self, backend: Backend) -> None:
        """A module that raises on its own example inputs is a ModelError with what it raised."""
        import torch

        with pytest.raises(ModelError, match="shapes cannot be multiplied"):
            backend.signature(Model.from_torch(torch.nn.Linear(4, 2), (torch.zeros(2, 5),)))

    def test_outputs_that_are_not_tensors(self, backend: Backend) -> None:
        """Something that cannot be compared is a ModelError."""
        import torch

        class Sizes(torch.nn.Module):
            def forward(self, x: Any) -> object:
                """Return a number."""
                return x.shape[0]

        with pytest.raises(ModelError, match="not tensors"):
            backend.signature(Model.from_torch(Sizes(), (torch.zeros(2, 4),)))

    def test_the_users_module_is_left_alone(self, backend: Backend) -> None:
        """It stays in training mode, and its statistics as they were."""
        import torch

        statistics = torch.nn.BatchNorm1d(4)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), statistics, torch.nn.Dropout())
        before = statistics.state_dict()["running_mean"].clone()
        signature = backend.signature(Model.from_torch(module, (torch.ones(3, 4),)))
        assert signature.inputs[0].shape == (None, 4)
        assert module.training
        assert torch.equal(statistics.state_dict()["running_mean"], before)
