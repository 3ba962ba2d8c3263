"""Which runs times of layers are the median of, and what a node without a name is called."""

from __future__ import annotations

from pytest_quant.backends.layers import MIN_RUNS, medians, node_name, warm_runs


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
