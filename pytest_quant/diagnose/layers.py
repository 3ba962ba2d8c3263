"""Layers of two engines side by side: those that were made from the same nodes of the model belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_quant.backends.readback import LayerTime


@dataclass(frozen=True, slots=True)
class LayerRow:
    """Layers of both engines that do the same work.

    Attributes
    ----------
    nodes : of the model, all that any of the layers stands for; empty for layers that stand for none.
    reference, candidate : the layers, in the order they run; empty where this engine has none.
    """

    nodes: tuple[str, ...]
    reference: tuple[LayerTime, ...]
    candidate: tuple[LayerTime, ...]

    @property
    def reference_ms(self) -> float | None:
        """Milliseconds of the reference's layers; ``None`` without layers, or if not all were measured."""
        return total_ms(self.reference)

    @property
    def candidate_ms(self) -> float | None:
        """Milliseconds of the candidate's layers; ``None`` without layers, or if not all were measured."""
        return total_ms(self.candidate)

    @property
    def speedup(self) -> float | None:
        """Time of the reference / time of the candidate, above 1 is faster; ``None`` if either is not known."""
        reference, candidate = self.reference_ms, self.candidate_ms
        return None if reference is None or not candidate else reference / candidate

    @property
    def added_ms(self) -> float | None:
        """Milliseconds that the candidate takes more, negative if it takes less; a side without layers has 0.

        ``None`` where a layer was not measured.
        """
        reference, candidate = (0.0 if not side else total_ms(side) for side in (self.reference, self.candidate))
        return None if reference is None or candidate is None else candidate - reference


@dataclass(frozen=True, slots=True)
class Alignment:
    """All layers of two engines, each once.

    Attributes
    ----------
    rows : work on the model, and layers that cannot be traced to a node, each of those in a row of its own; the slowest
        first, by the candidate's time or else the reference's, or in the order of the model where there are no times.
    moves : reformats and copies, one row for each operator, the slowest first.
    """

    rows: tuple[LayerRow, ...]
    moves: tuple[LayerRow, ...]


def total_ms(layers: Sequence[LayerTime]) -> float | None:
    """Return the milliseconds of `layers` together; ``None`` without layers, or if any was not measured."""
    times = [layer.ms for layer in layers if layer.ms is not None]
    return sum(times) if layers and len(times) == len(layers) else None


_MOVES = ("reformat", "copy")


def align(reference: Iterable[LayerTime], candidate: Iterable[LayerTime]) -> Alignment:
    """Return the layers of both engines, those in one row that share nodes, directly or through each other.

    So a fused layer stands beside all layers that do its work in the other engine.
    """
    sides = (tuple(reference), tuple(candidate))
    works: list[set[str]] = []
    for layer in (*sides[0], *sides[1]):
        if layer.role not in _MOVES and layer.nodes:
            same = [work for work in works if not work.isdisjoint(layer.nodes)]
            works = [work for work in works if work not in same] + [set(layer.nodes).union(*same)]
    work_of = {node: number for number, work in enumerate(works) for node in work}
    moves: dict[object, tuple[list[LayerTime], list[LayerTime]]] = {}
    others: dict[object, tuple[list[LayerTime], list[LayerTime]]] = {}
    for side, layers in enumerate(sides):
        for place, layer in enumerate(layers):
            if layer.role in _MOVES:
                moves.setdefault(layer.op, ([], []))[side].append(layer)
            else:
                key = work_of[layer.nodes[0]] if layer.nodes else (side, place)
                others.setdefault(key, ([], []))[side].append(layer)
    return Alignment(_rows(others.values()), _rows(moves.values()))


def _rows(groups: Iterable[tuple[list[LayerTime], list[LayerTime]]]) -> tuple[LayerRow, ...]:
    """Return a row for each group, the slowest first; those without a time keep their order."""
    rows = []
    for reference, candidate in groups:
        layers = (layer for layer in (*reference, *candidate) if layer.role not in _MOVES)
        nodes = dict.fromkeys(node for layer in layers for node in layer.nodes)
        rows.append(LayerRow(tuple(nodes), tuple(reference), tuple(candidate)))
    return tuple(sorted(rows, key=lambda row: -((row.candidate_ms if row.candidate else row.reference_ms) or 0.0)))
