"""The layers of two engines side by side, as text and as a document: which layers make the candidate slower."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from pytest_quant.backends.readback import MIN_RUNS, LayerTime
from pytest_quant.diagnose.layers import Alignment, LayerRow, total_ms
from pytest_quant.measure.engine_trio import LayerProfile, SideLayers
from pytest_quant.printable import clean
from pytest_quant.report.text import GAP, NOT_MEASURED, align, count, figure, format_fixed, shorten

_NODES = "nodes of the model"
_WIDE = 100
"""Fewest characters of a terminal in which a table shows the operators of both engines, and the speedup."""

_CAUSES, _CAUSE_SHARE = 3, 0.05
_DIGITS = 3
_KINDS = (("work on the model", "compute"), ("reformats", "reformat"), ("copies", "copy"), ("other layers", "other"))


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
    about = (
        f"{clean(profile.nodeid)}: layers of {candidate.engine} beside {reference.engine}, model "
        f"{clean(profile.model)}, batch of {profile.batch_size}, times in ms"
    )
    parts = [
        [_wrap(about, width)],
        _work(alignment.rows, width, top),
        _moves(alignment.moves, (reference, candidate)),
        _sums((reference, candidate)),
        [_wrap(remark, width) for remark in _remarks(alignment, profile)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _wrap(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def _work(rows: Sequence[LayerRow], width: int, top: int) -> list[str]:
    shown = rows[:top]
    narrow = width < _WIDE
    figures = [
        ["reference", *(format_fixed(row.reference_ms, _DIGITS) for row in shown)],
        ["candidate", *(format_fixed(row.candidate_ms, _DIGITS) for row in shown)],
        ["added", *(_format_added(row.added_ms) for row in shown)],
        *([] if narrow else [["speedup x", *(figure(row.speedup, 3) for row in shown)]]),
    ]
    if all(layer.ms is None for row in rows for layer in (*row.reference, *row.candidate)):
        figures = []
    precisions = ["precision", *(_show_change(_precision(row.reference), _precision(row.candidate)) for row in shown)]
    ops = ["op", *(_main_op(row.candidate or row.reference) if narrow else _show_op_change(row) for row in shown)]
    room = width - sum(len(GAP) + max(map(len, cells)) for cells in (*figures, precisions)) - len(GAP)
    ops_room = max(12, min(max(map(len, ops)), room * 2 // 5))
    nodes = [_NODES, *(_nodes(row, max(len(_NODES), room - ops_room)) for row in shown)]
    ops_room = max(ops_room, room - max(map(len, nodes)))
    table = [nodes, [shorten(op, ops_room) for op in ops], *figures, precisions]
    left = len(rows) - len(shown)
    more = [f"... and {count(left, 'row')} more (--top)"] if left else []
    return [*align(list(zip(*table, strict=True)), right=range(2, 2 + len(figures))), *more]


def _format_added(value: float | None) -> str:
    return f"+{format_fixed(value, _DIGITS)}" if value is not None and value > 0.0 else format_fixed(value, _DIGITS)


def _nodes(row: LayerRow, room: int) -> str:
    """Return the names of the nodes, or the end of the first and how many more; long names differ at their ends.

    A layer without nodes is called by its own name, in brackets.
    """
    names = [clean(name) for name in row.nodes] or [f"({clean((row.candidate or row.reference)[0].name)})"]
    whole = ", ".join(names)
    if len(whole) <= room:
        return whole
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    left = room - len(more)
    return (names[0] if len(names[0]) <= left else f"...{names[0][len(names[0]) - left + 3 :]}") + more


def _show_change(reference: str, candidate: str) -> str:
    """Return what both have, or what it was and what it is; a side without layers is a dash."""
    if reference == candidate:
        return reference or NOT_MEASURED
    return f"{reference or NOT_MEASURED} -> {candidate or NOT_MEASURED}"


def _ops(layers: Sequence[LayerTime]) -> str:
    numbers = Counter(clean(layer.op) for layer in layers)
    return "+".join(op if number == 1 else f"{number} {op}" for op, number in numbers.items())


def _main_op(layers: Sequence[LayerTime]) -> str:
    more = f" +{len(layers) - 1}" if len(layers) > 1 else ""
    return clean(max(layers, key=lambda layer: layer.ms or 0.0).op) + more


def _show_op_change(row: LayerRow) -> str:
    return _show_change(_ops(row.reference), _ops(row.candidate))


def _precision(layers: Sequence[LayerTime]) -> str:
    """Return the precision of the slowest layer: the others scale or convert what it computes."""
    named = [layer for layer in layers if layer.precision]
    return clean(max(named, key=lambda layer: layer.ms or 0.0).precision) if named else ""


def _moves(moves: Sequence[LayerRow], sides: Sequence[SideLayers]) -> list[str]:
    rows = [["reformats and copies", "reference", "", "share %", "candidate", "", "share %"]]
    for row in moves:
        cells = [clean((row.candidate or row.reference)[0].op)]
        for layers, side in zip((row.reference, row.candidate), sides, strict=True):
            spent, whole = total_ms(layers), total_ms(side.layers)
            share = NOT_MEASURED if spent is None or not whole else f"{100.0 * spent / whole:.1f}"
            cells += [format_fixed(spent, _DIGITS), f"{len(layers)} x" if layers else "", share]
        rows.append(cells)
    return align(rows, right=range(1, 7)) if moves else []


def _sums(sides: Sequence[SideLayers]) -> list[str]:
    """Return a table of what the layers sum up to, by what they do, beside the time of a whole run."""
    sums = [(name, [[layer for layer in side.layers if layer.role == role] for side in sides]) for name, role in _KINDS]
    rows = [(name, [total_ms(layers) for layers in of_sides]) for name, of_sides in sums if any(of_sides)]
    rows.append(("sum of layers", [total_ms(side.layers) for side in sides]))
    rows.append(("whole run as timed", [side.run_ms for side in sides]))
    if all(value is None for _, values in rows for value in values):
        return []
    cells = ([name, *(format_fixed(ms, _DIGITS) for ms in two)] for name, two in rows)
    return align([["", "reference", "candidate"], *cells], right=(1, 2))


def _remarks(alignment: Alignment, profile: LayerProfile) -> Iterator[str]:
    sides = (profile.reference, profile.candidate)
    silent = [side.engine for side in sides if not side.layers]
    if silent:
        yield f"{' and '.join(silent)}: this backend does not report its layers"
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
    yield from _causes(alignment, profile)


def _causes(alignment: Alignment, profile: LayerProfile) -> Iterator[str]:
    """Name the rows that make most of the difference, unless it is not that of whole runs, or a time is missing."""
    rows = (*alignment.rows, *alignment.moves)
    added = [(row.added_ms, row) for row in rows if row.added_ms is not None]
    total = sum(ms for ms, _ in added)
    reference_ms, candidate_ms = profile.reference.run_ms, profile.candidate.run_ms
    of_runs = total if reference_ms is None or candidate_ms is None else candidate_ms - reference_ms
    if len(added) < len(rows) or total * of_runs <= 0.0:
        return
    causes = sorted((pair for pair in added if pair[0] * total > 0.0), key=lambda pair: -abs(pair[0]))[:_CAUSES]
    named = [f"{_name_row(row)} {_format_added(ms)}" for ms, row in causes if abs(ms) >= _CAUSE_SHARE * abs(total)]
    by = f": {'; '.join(named)}" if named else ""
    more = "more" if total > 0.0 else "less"
    yield f"the layers of the candidate take {format_fixed(abs(total), _DIGITS)} ms {more} in all{by}"


def _name_row(row: LayerRow) -> str:
    return f"{_nodes(row, 48)} ({_show_op_change(row)})" if row.nodes else _ops(row.candidate or row.reference)


def layers_document(profile: LayerProfile, alignment: Alignment) -> dict[str, object]:
    """Return all of it for JSON: times in milliseconds, ``null`` for a time that was not measured."""
    return {
        **_fields(profile, "nodeid", "model", "batch_size", "untimed"),
        **{
            name: {**_fields(side, "engine", "provider", "run_ms"), "layers_ms": total_ms(side.layers)}
            for name, side in (("reference", profile.reference), ("candidate", profile.candidate))
        },
        "rows": [_row_document(row) for row in alignment.rows],
        "reformats_and_copies": [_row_document(row) for row in alignment.moves],
    }


def _fields(value: object, *names: str) -> dict[str, object]:
    return {name: getattr(value, name) for name in names}


def _row_document(row: LayerRow) -> dict[str, object]:
    return asdict(row) | _fields(row, "reference_ms", "candidate_ms", "speedup")
