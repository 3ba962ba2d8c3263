"""The user's module: names, free axes, and a digest of everything it is made of."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends.torch.module import free_axes, input_names, largest_tensor, module_digest, signature_of
from pytest_quant.data import fixed_batch_size
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model


class Scaled(nn.Module):
    """A layer and a plain number."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.scale = scale

    def forward(self, values: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        """Map (n, 4) and (n, 3) to two (n, 3)."""
        return self.layer(values) * self.scale, offset


INPUTS = (torch.ones(2, 4), torch.ones(2, 3))


def model(module: nn.Module | None = None) -> Model:
    """The module with its two inputs."""
    return Model.from_torch(module or Scaled(), INPUTS)


def test_names_and_sizes() -> None:
    """Inputs are named as the forward's parameters, outputs by number, and the leading axis is free."""
    result = signature_of(model())
    assert [(each.name, each.dtype, each.shape) for each in result.inputs] == [
        ("values", "float32", (None, 4)),
        ("offset", "float32", (None, 3)),
    ]
    assert [(output.name, output.shape) for output in result.outputs] == [
        ("output_0", (None, 3)),
        ("output_1", (None, 3)),
    ]


def test_fixed_and_named_axes() -> None:
    """``dynamic=False`` frees nothing; by name, only what is named; a wrong name is an error."""
    fixed = Model.from_torch(Scaled(), INPUTS, dynamic=False)
    assert fixed_batch_size(signature_of(fixed), dict.fromkeys(input_names(fixed), 0)) == 2
    both = {"values": (0,), "offset": (0,)}
    assert free_axes(Model.from_torch(Scaled(), INPUTS, dynamic=both)) == both
    with pytest.raises(UsageError, match="'value'"):
        signature_of(Model.from_torch(Scaled(), INPUTS, dynamic={"value": (0,)}))


def test_an_axis_that_is_not_free() -> None:
    """A module that only takes the size of its example says so, at the first look."""
    with pytest.raises(ModelError, match="longer inputs"):
        signature_of(Model.from_torch(nn.Linear(4, 3), (torch.ones(2, 4),), dynamic={"input": (0, 1)}))


def test_the_same_module_has_the_same_digest() -> None:
    """Built twice alike, in training mode or not."""
    assert module_digest(model()) == module_digest(model(Scaled().train()))


def test_everything_that_computes_is_in_the_digest() -> None:
    """A weight, a plain number, the class's own code, the free axes: each alone changes it."""
    other_weight = Scaled()
    with torch.no_grad():
        other_weight.layer.weight[0, 0] += 1e-6

    class Negated(Scaled):
        """The same with another forward."""

        def forward(self, values: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
            """Negate."""
            return -self.layer(values) * self.scale, offset

    digests = [
        module_digest(model()),
        module_digest(model(other_weight)),
        module_digest(model(Scaled(scale=3.0))),
        module_digest(model(Negated())),
        module_digest(Model.from_torch(Scaled(), INPUTS, dynamic=False)),
    ]
    assert len(set(digests)) == len(digests)


def test_a_traced_graph_is_told_by_its_code() -> None:
    """Two traced modules without weights differ by what they compute."""

    class Sum(nn.Module):
        """Add."""

        def forward(self, x: Tensor) -> Tensor:
            """Add one."""
            return x + 1

    class Product(nn.Module):
        """Multiply."""

        def forward(self, x: Tensor) -> Tensor:
            """Double."""
            return x * 2

    example = (torch.ones(2, 3),)
    graphs = [torch.export.export(kind(), example).module() for kind in (Sum, Product)]
    first, second = (Model.from_torch(graph, example, dynamic=False) for graph in graphs)
    assert module_digest(first) != module_digest(second)
    assert input_names(first) == ("x",)


@pytest.mark.parametrize("inputs", [(), torch.zeros(2, 4), ([1.0],)])
def test_a_module_is_traced_on_a_tuple_of_tensors(inputs: object) -> None:
    """Anything else is an error."""
    with pytest.raises(ModelError, match="tuple of tensors"):
        signature_of(Model.from_torch(nn.Linear(4, 2), inputs))


@pytest.mark.parametrize(
    ("module", "width", "said"),
    [(nn.Linear(4, 2), 5, "shapes cannot be multiplied"), (nn.LSTM(4, 2), 4, "not tensors")],
)
def test_a_module_that_does_not_run_on_them(module: nn.Module, width: int, said: str) -> None:
    """What it raised, or that its outputs, such as the states of an LSTM in a tuple, cannot be compared."""
    with pytest.raises(ModelError, match=said):
        signature_of(Model.from_torch(module, (torch.zeros(2, width),)))


def test_the_users_module_is_left_alone() -> None:
    """It stays in training mode, and its statistics as they were."""
    statistics = nn.BatchNorm1d(4)
    module = nn.Sequential(nn.Linear(4, 4), statistics, nn.Dropout())
    before = statistics.state_dict()["running_mean"].clone()
    assert signature_of(Model.from_torch(module, (torch.ones(3, 4),))).inputs[0].shape == (None, 4)
    assert module.training
    assert torch.equal(statistics.state_dict()["running_mean"], before)


class Widening(nn.Module):
    """Multiplies each value with each other one, which no layer of its own does."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, t) to (n, 1)."""
        return (x[:, :, None] * x[:, None, :]).sum(dim=(1, 2), keepdim=False)[:, None]


def test_the_largest_tensor_of_a_module_is_found() -> None:
    """Two samples of 30 values are examples, each of which is 30 x 30 inside; of one sample it is half of both."""
    wide = Model.from_torch(Widening(), (torch.ones(2, 30),))
    assert largest_tensor(wide, {"x": (1, 30)}) == 4 * 30 * 30
    assert largest_tensor(model(), {"values": (1, 4), "offset": (1, 3)}) == 4 * 3
