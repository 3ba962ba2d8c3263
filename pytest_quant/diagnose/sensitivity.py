"""Which nodes the error comes from: a few nodes are quantized at a time, all others stay in float.

The worst group is split and measured again until single nodes are left, so that a large graph with one bad node takes
a few dozen trials and not one for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

_PARTS = 4
_ENOUGH = 8
"""So many of the worst groups are taken apart; a longer list of nodes is none that anyone pastes."""

_SMALL = 0.01
"""A group whose error is below this share of the largest is not taken apart."""


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring nodes and their error: noise / signal in power when they alone are quantized."""

    nodes: tuple[str, ...]
    noise: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Groups of nodes by their error, the largest first; those that add none are left out.

    Attributes
    ----------
    groups : single nodes; several nodes where the time was over, or the error too small, to take them apart.
    mixed : nodes whose errors were not told apart because there was no more time.
    """

    groups: tuple[Group, ...]
    mixed: int


def rank_nodes(
    nodes: tuple[str, ...], noise: Callable[[tuple[str, ...]], float | None], may_go_on: Callable[[], bool]
) -> Ranking:
    """Measure `nodes`, in the graph's order, as long as `may_go_on`.

    `noise` quantizes these nodes only and returns noise / signal in power, infinite for outputs that cannot be
    compared; ``None`` when that engine cannot be built: such nodes are left out.
    """
    groups: list[Group] = []
    late: list[str] = []
    whole = Group(nodes, 0.0) if nodes else None
    while whole is not None and not late:
        parts = []
        for part in _split(whole.nodes):
            if late or not may_go_on():
                late += part
                continue
            found = noise(part)
            if found is not None:
                parts.append(Group(part, found))
        # Nodes that there was no time for are known by the error of the group that they are from.
        parts += [Group(tuple(late), whole.noise)] if late else []
        groups = sorted((one for one in (*groups, *parts) if one is not whole), key=lambda one: -one.noise)
        whole = _next_to_split(groups)
    bad = tuple(one for one in groups if one.noise > 0.0)
    untold = {name for one in bad if len(one.nodes) > 1 for name in one.nodes} | set(late)
    return Ranking(bad, len(untold) if late else 0)


def _next_to_split(groups: list[Group]) -> Group | None:
    """Return the worst group of several nodes that matters; `groups` are sorted."""
    for group in groups[:_ENOUGH]:
        if len(group.nodes) > 1 and group.noise >= _SMALL * groups[0].noise:
            return group
    return None


def _split(nodes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return up to `_PARTS` runs of neighbours of nearly equal length."""
    parts = min(_PARTS, len(nodes))
    ends = [round(len(nodes) * part / parts) for part in range(parts + 1)]
    return [nodes[begin:end] for begin, end in pairwise(ends)]
