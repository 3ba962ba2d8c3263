"""The user's module: names, free axes, and a digest of everything it is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_structure

from pytest_quant.backends.torch.module import free_axes, input_names, largest_tensor, module_of, signature_of
from pytest_quant.backends.torch.program import module_digest
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


def test_a_file_is_for_another_backend() -> None:
    """The error names it, beside the form that this one takes."""
    with pytest.raises(UsageError, match=r"Model.from_torch\(module, .*, or backend='ort' for an ONNX file"):
        signature_of(Model.from_onnx("net.onnx"))


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


class Configured(Scaled):
    """The same with settings in an object, a set and a state of its own."""

    def __init__(self, width: int, words: set[str], step: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(width=width)
        self.words = words
        self.step = step

    def get_extra_state(self) -> object:
        """Return any object."""
        return SimpleNamespace(step=self.step)

    def set_extra_state(self, state: object) -> None:
        """Take it."""


def test_settings_and_states_of_any_type_are_in_the_digest() -> None:
    """A field of an object, a word of a set, what ``get_extra_state`` returned."""
    digests = [
        module_digest(model(Configured(*settings)))
        for settings in ((1, {"a"}, 1), (2, {"a"}, 1), (1, {"b"}, 1), (1, {"a"}, 2))
    ]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("config", ["Int8WeightOnlyConfig", "IntxWeightOnlyConfig", "Float8WeightOnlyConfig"])
def test_packed_weights_are_in_the_digest(config: str) -> None:
    """Modules that torchao quantized from other weights differ; from the same ones they do not."""
    import torchao.quantization as ao

    digests = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        layer = nn.Sequential(nn.Linear(64, 8))
        ao.quantize_(layer, getattr(ao, config)())
        digests.append(module_digest(Model.from_torch(layer, (torch.zeros(2, 64),))))
    assert digests[0] == digests[1] != digests[2]


def test_constants_among_the_inputs_are_in_the_digest() -> None:
    """A flag decides what is computed, as a weight does."""
    flags = [Model.from_torch(nn.ReLU(), ({"x": torch.ones(2, 4), "flag": flag},)) for flag in (True, False)]
    assert module_digest(flags[0]) != module_digest(flags[1])


@given(
    st.recursive(
        st.sampled_from([torch.ones(2, 3), None, 1, True, "text"]),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from("abc"), each, max_size=3),
        max_leaves=8,
    )
)
def test_nested_inputs_reach_the_module_as_they_are(given_inputs: object) -> None:
    """Whatever holds the tensors, the module gets it with others in their place and all constants kept."""
    tensors = [each for each in tree_leaves(given_inputs) if isinstance(each, Tensor)]
    assume(tensors)
    received = []

    class Receives(nn.Module):
        """Keeps what it was given."""

        def forward(self, values: Any) -> Tensor:
            """Return a tensor of it."""
            received.append(values)
            return torch.ones(2)

    taken = Model.from_torch(Receives(), ([given_inputs],))
    assert len(input_names(taken)) == len(set(input_names(taken))) == len(tensors)
    module_of(taken)(*(torch.full((2, 3), float(index)) for index in range(len(tensors))))
    leaves, wanted = tree_leaves(received[0]), tree_leaves([given_inputs])
    assert tree_structure(received[0]) == tree_structure([given_inputs])
    numbers = [float(each[0, 0]) for each in leaves if isinstance(each, Tensor)]
    assert numbers == [float(index) for index in range(len(tensors))]
    assert [each for each in leaves if not isinstance(each, Tensor)] == [e for e in wanted if not isinstance(e, Tensor)]


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


def test_a_module_that_does_not_run_on_them() -> None:
    """The error has what it raised."""
    with pytest.raises(ModelError, match="shapes cannot be multiplied"):
        signature_of(Model.from_torch(nn.Linear(4, 2), (torch.zeros(2, 5),)))


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
