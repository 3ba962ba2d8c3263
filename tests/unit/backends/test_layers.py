"""What an engine must have to tell the time of its layers, and what a node without a name is called."""

from __future__ import annotations

import pytest

from pytest_quant.backends.layers import MIN_RUNS, LayerTimed, medians, node_name, warm_runs
from pytest_quant.backends.openvino.engine import OpenVinoEngine
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
from pytest_quant.backends.trt.gpu.engine import GpuEngine
from pytest_quant.backends.trt.simulated import SimulatedEngine
from pytest_quant.testing.numpy_engine import NumpyEngine


@pytest.mark.parametrize("kind", [OrtEngine, OrtGpuEngine, OpenVinoEngine, GpuEngine, SimulatedEngine])
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


def test_the_first_runs_do_not_count() -> None:
    """They fill caches, compile or load; ten and more come after them."""
    runs = iter(range(10_000))
    found = warm_runs(lambda: next(runs))
    assert len(found) >= MIN_RUNS
    assert found == list(range(found[0], found[0] + len(found)))
    assert found[0] >= 3


def test_the_median_over_all_runs() -> None:
    """A layer that is not told in a run took no time in it; the order is that of a run that has all."""
    runs = [{"a": 1.0, "c": 5.0}, {"a": 3.0, "b": 2.0, "c": 7.0}, {"a": 2.0, "b": 4.0, "c": 6.0}]
    assert list(medians(runs).items()) == [("a", 2.0), ("b", 2.0), ("c", 6.0)]
