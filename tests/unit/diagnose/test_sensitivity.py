"""Nodes are ranked by the error that each adds, in far fewer trials than there are nodes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.diagnose.advise import rank_nodes


def _names(n: int) -> tuple[str, ...]:
    return tuple(f"node{i}" for i in range(n))


class _Noise:
    """Independent errors add up in power; `by_node` holds those that are not 0. Counts the trials."""

    def __init__(self, by_node: dict[str, float]) -> None:
        self.by_node = by_node
        self.trials = 0

    def __call__(self, nodes: tuple[str, ...]) -> float:
        self.trials += 1
        return sum(self.by_node.get(name, 0.0) for name in nodes)


def _for(trials: int) -> Callable[[], bool]:
    """Allow so many trials."""
    left = iter([True] * trials)
    return lambda: next(left, False)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_one_bad_node_is_found_in_a_logarithmic_number_of_trials(case: tuple[int, int]) -> None:
    """Each step tries four parts and takes one of them apart: at most 4 (1 + log4 n) trials, rounded up."""
    n, bad = case
    noise = _Noise({f"node{bad}": 0.5})
    found = rank_nodes(_names(n), noise, lambda: True)
    assert [group.nodes for group in found.groups] == [(f"node{bad}",)]
    steps = 1
    while 4**steps < n:
        steps += 1
    assert noise.trials <= 4 * (steps + 1)
    assert found.mixed == 0


@given(st.dictionaries(st.integers(0, 39), st.floats(0.1, 1.0), min_size=1, max_size=5))
def test_bad_nodes_are_ranked_by_their_error(errors: dict[int, float]) -> None:
    """The largest error first, whatever their places in the graph."""
    by_node = {f"node{place}": error for place, error in errors.items()}
    found = rank_nodes(_names(40), _Noise(by_node), lambda: True)
    single = {group.nodes[0]: group.noise for group in found.groups if len(group.nodes) == 1}
    assert single == by_node
    assert [group.noise for group in found.groups] == sorted((group.noise for group in found.groups), reverse=True)


def test_outputs_that_cannot_be_compared_are_the_worst_error() -> None:
    """A node that gives NaN comes before one that is merely coarse."""
    found = rank_nodes(_names(16), _Noise({"node3": 0.5, "node12": float("inf")}), lambda: True)
    assert found.groups[0].nodes == ("node12",)


def test_when_the_time_is_over_the_rest_is_told_as_mixed() -> None:
    """Four trials of 64 nodes tell which sixteen hold the bad one, and no more."""
    found = rank_nodes(_names(64), _Noise({"node20": 0.5}), _for(4))
    assert [group.nodes for group in found.groups] == [_names(64)[16:32]]
    assert found.mixed == 16


def test_parts_without_a_trial_keep_the_error_of_their_group() -> None:
    """The fifth trial tries the first quarter of the bad group; the bad node is still in what is left of it."""
    found = rank_nodes(_names(64), _Noise({"node30": 0.5}), _for(5))
    assert [group.nodes for group in found.groups] == [_names(64)[20:32]]
    assert found.mixed == 12


def test_without_any_time_nothing_is_ranked() -> None:
    """All nodes are untold."""
    found = rank_nodes(_names(8), _Noise({"node1": 0.5}), lambda: False)
    assert (found.groups, found.mixed) == ((), 8)


def test_nodes_that_cannot_be_built_alone_are_left_out() -> None:
    """The others are ranked as ever."""

    def noise(nodes: tuple[str, ...]) -> float | None:
        return None if "node0" in nodes else float("node3" in nodes)

    assert [group.nodes for group in rank_nodes(_names(4), noise, lambda: True).groups] == [("node3",)]
