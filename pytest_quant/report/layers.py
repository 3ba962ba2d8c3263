"""The layers of two engines side by side, as text and as a document: which of them makes the candidate slower."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from pytest_quant.backends.readback import MIN_RUNS, LayerTime
from pytest_quant.diagnose.layers import Alignment, LayerRow, total_ms
from pytest_quant.measure.layers import LayerProfile, SideLayers
from pytest_quant.printable import clean
from pytest_quant.record import Json
from pytest_quant.report.text import GAP, NOT_MEASURED, aligned, count, figure, fixed, shorten

_ARROW = " -> "
_NODES = "nodes of the model"
_LEAST_NODES, _LEAST_OPS = len(_NODES), 12
_WIDE = 100
"""Fewest characters of a terminal in which a table shows the operators of both engines, and every figure."""

_CAUSES, _CAUSE_PCT = 3, 5.0
_MOST_DECIMALS = 4
_EQUAL = 1e-9
_CALLED = 48
_STRETCHED = 1.25
_ALL_PCT = 100.0


def layers_text(profile: LayerProfile, alignment: Alignment, width: int, top: int) -> str:
    """Return the layers, slowest first, then reformats and copies, then sums beside the time of a whole run.

    Parameters
    ----------
    profile : both engines.
    alignment : their layers side by side.
    width : of the terminal, in characters.
    top : rows of layers to show; a line says how many more there are.
    """
    reference, candidate = profile.reference, profile.candidate
    parts = [
        _wrapped(
            f"{clean(profile.nodeid)}: layers of {candidate.engine} beside {reference.engine}, model "
            f"{clean(profile.model)}, batch of {profile.batch_size}, times in ms",
            width,
        ),
        "\n".join(_work(alignment.rows, width, top)),
        "\n".join(_moves(alignment.moves, reference, candidate)),
        "\n".join(_sums(profile)),
        "\n".join(_wrapped(remark, width) for remark in _remarks(alignment, profile)),
    ]
    return "\n\n".join(part for part in parts if part)


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def _work(rows: Sequence[LayerRow], width: int, top: int) -> list[str]:
    shown = rows[:top]
    digits = _digits(ms for row in rows for ms in (row.reference_ms, row.candidate_ms))
    columns = {
        "reference": [fixed(row.reference_ms, digits) for row in shown],
        "candidate": [fixed(row.candidate_ms, digits) for row in shown],
        "added": [_added(row.added_ms, digits) for row in shown],
        "speedup x": [figure(row.speedup, 3) for row in shown],
    }
    narrow = width < _WIDE
    if all(layer.ms is None for row in rows for layer in (*row.reference, *row.candidate)):
        columns = {}
    elif narrow:
        del columns["speedup x"]
    figures = [[head, *cells] for head, cells in columns.items()]
    precisions = ["precision", *(_changed(_precision(row.reference), _precision(row.candidate)) for row in shown)]
    ops = ["op", *(_main_op(row.candidate or row.reference) if narrow else _changed_ops(row) for row in shown)]
    room = width - sum(len(GAP) + max(map(len, cells)) for cells in (*figures, precisions)) - len(GAP)
    ops_room = max(_LEAST_OPS, min(max(map(len, ops)), room * 2 // 5))
    nodes = [_NODES, *(_nodes(row, max(_LEAST_NODES, room - ops_room)) for row in shown)]
    ops_room = max(ops_room, room - max(map(len, nodes)))
    table = [nodes, [shorten(op, ops_room) for op in ops], *figures, precisions]
    left = len(rows) - len(shown)
    more = [f"... and {count(left, 'row')} more (--top)"] if left else []
    return [*aligned(list(zip(*table, strict=True)), right=range(2, 2 + len(figures))), *more]


def _added(value: float | None, digits: int) -> str:
    text = fixed(value, digits)
    return f"+{text}" if value is not None and value > 0.0 else text


def _nodes(row: LayerRow, room: int) -> str:
    """Return the names of the nodes, or the end of the first and how many more, which is what tells long names apart.

    A layer without nodes is called by its own name, in brackets.
    """
    names = [clean(name) for name in row.nodes]
    if not names:
        return _end_of(f"({clean((row.candidate or row.reference)[0].name)})", room)
    whole = ", ".join(names)
    if len(whole) <= room:
        return whole
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return _end_of(names[0], room - len(more)) + more


def _end_of(text: str, room: int) -> str:
    return text if len(text) <= room else f"...{text[len(text) - room + 3 :]}"


def _changed(reference: str, candidate: str) -> str:
    """Return what both have, or what it was and what it is; a side without layers is a dash."""
    if reference == candidate:
        return reference or NOT_MEASURED
    return f"{reference or NOT_MEASURED}{_ARROW}{candidate or NOT_MEASURED}"


def _ops(layers: Sequence[LayerTime]) -> str:
    return "+".join(
        clean(op) if number == 1 else f"{number} {clean(op)}"
        for op, number in Counter(layer.op for layer in layers).items()
    )


def _main_op(layers: Sequence[LayerTime]) -> str:
    slowest = _slowest(layers)
    return "" if slowest is None else clean(slowest.op) + (f" +{len(layers) - 1}" if len(layers) > 1 else "")


def _changed_ops(row: LayerRow) -> str:
    return _changed(_ops(row.reference), _ops(row.candidate))


def _precision(layers: Sequence[LayerTime]) -> str:
    """Return the precision of the slowest layer: the others scale or convert what it computes."""
    slowest = _slowest([layer for layer in layers if layer.precision])
    return "" if slowest is None else clean(slowest.precision)


def _slowest(layers: Sequence[LayerTime]) -> LayerTime | None:
    return max(layers, key=lambda layer: layer.ms or 0.0, default=None)


def _moves(moves: Sequence[LayerRow], reference: SideLayers, candidate: SideLayers) -> list[str]:
    if not moves:
        return []
    digits = _digits(ms for row in moves for ms in (row.reference_ms, row.candidate_ms))
    totals = [total_ms(side.layers) for side in (reference, candidate)]
    rows = [["reformats and copies", "reference", "", "share %", "candidate", "", "share %"]]
    for row in moves:
        cells = [clean((row.candidate or row.reference)[0].op)]
        for layers, whole in zip((row.reference, row.candidate), totals, strict=True):
            spent = total_ms(layers)
            cells += [fixed(spent, digits), f"{len(layers)} x" if layers else "", _share(spent, whole)]
        rows.append(cells)
    return aligned(rows, right=range(1, 7))


def _share(part: float | None, whole: float | None) -> str:
    return NOT_MEASURED if part is None or not whole else f"{_ALL_PCT * part / whole:.1f}"


def _sums(profile: LayerProfile) -> list[str]:
    """Return a table of what the layers sum up to, by what they do, beside the time of a whole run."""
    sides = (profile.reference, profile.candidate)
    kinds = (
        ("work on the model", ("compute",)),
        ("reformats", ("reformat",)),
        ("copies", ("copy",)),
        ("other layers", ("other",)),
    )
    sums = [
        (name, [total_ms([layer for layer in side.layers if layer.role in roles]) for side in sides])
        for name, roles in kinds
        if any(layer.role in roles for side in sides for layer in side.layers)
    ]
    sums += [
        ("sum of layers", [total_ms(side.layers) for side in sides]),
        ("whole run as timed", [side.run_ms for side in sides]),
    ]
    if all(value is None for _, values in sums for value in values):
        return []
    digits = _digits(value for _, values in sums for value in values)
    rows = [["", "reference", "candidate"], *([name, *(fixed(ms, digits) for ms in two)] for name, two in sums)]
    return aligned(rows, right=(1, 2))


def _remarks(alignment: Alignment, profile: LayerProfile) -> Iterator[str]:
    sides = (profile.reference, profile.candidate)
    silent = [side.engine for side in sides if not side.layers]
    if silent:
        yield f"{' and '.join(silent)}: this backend does not tell its layers"
    if any(layer.ms is not None for side in sides for layer in side.layers):
        yield (
            f"times of layers are medians of {MIN_RUNS} warm runs or more with a profiler, which makes short layers "
            "longer; what a runtime does between layers is in the whole run alone"
        )
    elif not silent:
        providers = " and ".join(dict.fromkeys(clean(side.provider) for side in sides))
        yield f"layers and precisions are those of the build ({providers}); nothing here can time them"
    if profile.untimed:
        yield f"no whole run was timed: {clean(profile.untimed)}"
    stretched = max(map(_stretch, sides))
    if stretched > _STRETCHED:
        yield (
            f"the layers sum up to {figure(stretched, 2)} times the whole run: they are so short that the profiler "
            "takes a good part of their times; a larger batch_size in the mark makes them longer"
        )
    causes = _causes(alignment)
    if causes and _same_way(profile):
        yield causes


def _stretch(side: SideLayers) -> float:
    total = total_ms(side.layers)
    return 0.0 if total is None or not side.run_ms else total / side.run_ms


def _same_way(profile: LayerProfile) -> bool:
    """Tell whether layers and whole runs agree on which engine is slower; so they do where no whole run was timed."""
    reference, candidate = profile.reference, profile.candidate
    sums = total_ms(reference.layers), total_ms(candidate.layers)
    if reference.run_ms is None or candidate.run_ms is None or None in sums:
        return True
    return (candidate.run_ms - reference.run_ms) * ((sums[1] or 0.0) - (sums[0] or 0.0)) > 0.0


def _causes(alignment: Alignment) -> str:
    """Name the rows that make most of the difference, in the direction of it; empty where there are no times."""
    rows = (*alignment.rows, *alignment.moves)
    added = [(row.added_ms, row) for row in rows if row.added_ms is not None]
    total = sum(ms for ms, _ in added)
    if len(added) < len(rows) or not total:
        return ""
    enough = abs(total) * _CAUSE_PCT / _ALL_PCT
    causes = sorted((pair for pair in added if pair[0] * total > 0.0), key=lambda pair: -abs(pair[0]))[:_CAUSES]
    digits = _digits([total, *(ms for ms, _ in causes)])
    named = "; ".join(f"{_called(row)} {_added(ms, digits)}" for ms, row in causes if abs(ms) >= enough)
    more = "more" if total > 0.0 else "less"
    return f"the layers of the candidate take {fixed(abs(total), digits)} ms {more} in all" + (
        f": {named}" if named else ""
    )


def _called(row: LayerRow) -> str:
    return f"{_nodes(row, _CALLED)} ({_changed_ops(row)})" if row.nodes else _ops(row.candidate or row.reference)


def _digits(values: Iterable[float | None]) -> int:
    """Return the fewest decimals that say all `values`, a thousandth of a millisecond at the least."""
    numbers = [value for value in values if value is not None]
    exact = (
        digits for digits in (3, _MOST_DECIMALS) if all(abs(round(value, digits) - value) < _EQUAL for value in numbers)
    )
    return next(exact, _MOST_DECIMALS)


def layers_document(profile: LayerProfile, alignment: Alignment) -> Json:
    """Return all of it as plain JSON: times in milliseconds, ``null`` where one was not measured."""
    sides: dict[str, Json] = {
        name: {
            "engine": side.engine,
            "provider": side.provider,
            "run_ms": side.run_ms,
            "layers_ms": total_ms(side.layers),
        }
        for name, side in (("reference", profile.reference), ("candidate", profile.candidate))
    }
    return {
        "nodeid": profile.nodeid,
        "model": profile.model,
        "batch_size": profile.batch_size,
        "untimed": profile.untimed,
        **sides,
        "rows": [_row_document(row) for row in alignment.rows],
        "reformats_and_copies": [_row_document(row) for row in alignment.moves],
    }


def _row_document(row: LayerRow) -> Json:
    return {
        "nodes": list(row.nodes),
        "reference_ms": row.reference_ms,
        "candidate_ms": row.candidate_ms,
        "speedup": row.speedup,
        "reference": [_layer_document(layer) for layer in row.reference],
        "candidate": [_layer_document(layer) for layer in row.candidate],
    }


def _layer_document(layer: LayerTime) -> Json:
    return {**asdict(layer), "nodes": list(layer.nodes)}
