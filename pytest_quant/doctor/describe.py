"""An examination of the machine as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_quant.doctor.examine import Examination, Library
from pytest_quant.doctor.probe import OK, BackendState
from pytest_quant.printable import clean
from pytest_quant.report.text import aligned

_MARKS = {"ok": "ok", "missing": "missing", "broken": "BROKEN"}
_MACHINE = ("cpu", "isa", "cores", "gpus", "python", "os", "arch")


def describe(examination: Examination) -> str:
    """Return an examination as text: machine, backends with their remedies, libraries, then problems."""
    return "\n".join(
        [
            *_machine(examination),
            *_cards(examination.cards),
            "",
            *_backends(examination.backends),
            "",
            *_libraries(examination.libraries),
            *_ends(examination),
        ]
    )


def _machine(examination: Examination) -> Iterator[str]:
    yield f"pytest-quant {examination.machine['pytest-quant']}"
    rows = [(name, clean(examination.machine[name])) for name in _MACHINE]
    if examination.runner:
        rows.append(("runner", clean(examination.runner)))
    for line in aligned(rows):
        yield f"  {line}"


def _cards(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of the cards, where there are any."""
    if not cards:
        return []
    rows = [("device", "card", "sm", "memory", "uuid")]
    for card in cards:
        memory = "-" if card["memory_mb"] is None else f"{card['memory_mb'] / 1000:.1f} GB"
        rows.append((card["cuda"] or "hidden", clean(card["name"]), card["sm"] or "-", memory, clean(card["uuid"])))
    return ["", *aligned(rows)]


def _backends(states: Sequence[BackendState]) -> Iterator[str]:
    rows = [("backend", "state", "version", "device")]
    rows += [
        (state.name, _MARKS[state.state], clean(state.version or "-"), clean(state.device or "-")) for state in states
    ]
    lines = aligned(rows)
    yield lines[0]
    for state, line in zip(states, lines[1:], strict=True):
        yield line
        if state.state == OK:
            yield f"    offers {clean(', '.join(state.precisions))}"
        if state.reason:
            yield f"    {clean(state.reason)}"
        if state.fix:
            yield f"    fix: {clean(state.fix)}"


def _libraries(libraries: Sequence[Library]) -> list[str]:
    rows = [("library", "wanted", "found", "for")]
    for library in libraries:
        verdict = clean(library.found or "not installed")
        if library.found and not library.fits:
            verdict += " (does not fit)"
        rows.append(
            (library.name, library.wanted or "any", verdict, ", ".join(library.extras) or "pytest-quant itself")
        )
    return aligned(rows)


def _ends(examination: Examination) -> Iterator[str]:
    for problem in examination.problems:
        yield ""
        yield f"! {clean(problem.what)}"
        if problem.fix:
            yield f"    fix: {clean(problem.fix)}"
    yield ""
    working = sum(state.state == OK for state in examination.backends)
    yield f"{working} of {len(examination.backends)} backends can run here"
