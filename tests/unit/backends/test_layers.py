"""What an engine must have to tell the time of its layers, and what a node without a name is called."""

from __future__ import annotations

import pytest

from pytest_quant.backends.layers import LayerTimed, node_name
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
from pytest_quant.testing.numpy_engine import NumpyEngine


@pytest.mark.parametrize("kind", [OrtEngine, OrtGpuEngine])
def test_engines_that_tell_the_time_of_layers(kind: type) -> None:
    """The protocol is its one method, so an engine of a third party has it by writing that."""
    assert issubclass(kind, LayerTimed)


def test_an_engine_may_do_without() -> None:
    """Such as one that is a function, and has no layers."""
    assert not issubclass(NumpyEngine, LayerTimed)


def test_a_node_without_a_name_is_called_by_its_first_output() -> None:
    """As TensorRT's parser does."""
    assert node_name("conv", ("y", "z")) == "conv"
    assert node_name("", ("y", "z")) == "node_of_y"
