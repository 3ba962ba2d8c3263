"""What is no module, for backends that read torch modules."""

# ruff: noqa: S101

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends.base import Backend
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import Workbench, float_spec


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
        found = backend.signature(Model.from_torch(module, (torch.ones(3, 4),)))
        assert found.inputs[0].shape == (None, 4)
        assert module.training
        assert torch.equal(statistics.state_dict()["running_mean"], before)
