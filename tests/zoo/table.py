"""The table of the zoo: one line for each check, ours beside the independent figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.zoo.compare import SCORES, Figure
from tests.zoo.entry import Entry
from tests.zoo.project import Combination, Run

HEAD = (
    "model",
    "check",
    "status",
    "score FP32 → candidate",
    "independent",
    "lowest SQNR, dB",
    "independent",
    "largest difference",
    "why",
)
LONGEST_TEXT = 230


def rows(combinations: Sequence[Combination], run: Run, found: Mapping[str, Sequence[Figure]]) -> list[tuple[str, ...]]:
    """Return the cells of every check, in the order of the combinations."""
    return [_row(combination, run, found.get(combination.identity, ())) for combination in combinations]


def _row(one: Combination, run: Run, figures: Sequence[Figure]) -> tuple[str, ...]:
    check = run.checks.get(one.identity)
    if check is None:
        return (one.model, one.what, "no check", *[""] * 5, "")
    by_name = {figure.name: figure for figure in figures}
    scores = [by_name.get(side) for side in ("reference", "candidate")]
    sqnr = min(
        (figure for figure in figures if figure.name.startswith("sqnr_db") and figure.independent is not None),
        key=lambda figure: figure.independent or 0.0,
        default=None,
    )
    return (
        one.model,
        one.what,
        str(check["status"]),
        " → ".join(_number(score.ours) for score in scores if score),
        " → ".join(_number(score.independent) for score in scores if score),
        _number(sqnr.ours) if sqnr else "",
        _number(sqnr.independent) if sqnr else "",
        f"{max(figure.difference for figure in figures):.1e}" if figures else "",
        _reason(check, run.output, one.identity),
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _reason(check: Mapping[str, Any], output: str, identity: str) -> str:
    """Return the broken limits, or the first lines of the error."""
    broken = [str(verdict["reason"]) for verdict in check["verdicts"] or () if verdict["status"] not in ("PASS",)]
    if check["status"] != "ERROR":
        return _short("; ".join(broken))
    found = re.search(rf"^_+ ERROR at setup of test_{identity} _+\n(.*?)(?=^[_=-]{{5,}}|\Z)", output, re.M | re.S)
    return _short(" / ".join(line.strip() for line in found[1].splitlines()) if found else "")


def _short(text: str) -> str:
    plain = re.sub(r"/\S*/", "", text.replace("|", "\\|")).replace("\n", " ")
    return plain if len(plain) <= LONGEST_TEXT else plain[: LONGEST_TEXT - 1] + "…"


def differing(found: Mapping[str, Sequence[Figure]], tolerance: float = 1e-6) -> list[str]:
    """Return a line for every figure that is not the independent one: scores exactly, others within `tolerance`."""
    return [
        f"{identity}: {figure.name} {figure.ours} and not {figure.independent}"
        for identity, figures in found.items()
        for figure in figures
        if not figure.difference <= (0.0 if figure.name in SCORES else tolerance)
    ]


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)) + "\n"


def read_rows(text: str, head: Sequence[str] = HEAD) -> list[tuple[str, ...]]:
    """Return the cells of the table below `head` in `text`; without another, the table of checks."""
    table = text.partition("| " + " | ".join(head) + " |\n")[2]
    lines = [line for line in table.splitlines()[1:] if line.startswith("| ")]
    return [tuple(re.split(r"(?<!\\) ?\| ?", line.strip())[1:-1]) for line in lines]


def inhabitants(entries: Sequence[Entry]) -> str:
    """Return the table of models: where each is from, and what for."""
    return markdown(
        ("model", "file", "package", "licence", "roles"),
        [
            (entry.name, entry.file.rpartition("/")[2], entry.requirement, entry.licence, "; ".join(entry.roles))
            for entry in entries
        ],
    )
