"""Follow the advice on checks that fail: ``python -m tests.zoo.advice [NAME ...] [--write]``.

Each check has a limit that its engine breaks. It runs with the time for advice that is the default; the first hint that
can be pasted is put into the mark, and it runs again. The table has the limit's figure before, as the hint promised it,
and after. ``--write`` puts it into README.md beside this file.
"""

from __future__ import annotations

import ast
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.zoo.architectures import write_modules_project
from tests.zoo.catalogue import SMALL
from tests.zoo.catalogue_large import LARGE
from tests.zoo.compare import Subject, compare
from tests.zoo.project import Combination, Run, run_project, write_project
from tests.zoo.table import differing, markdown, read_rows

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- advice -->\n", "<!-- end of advice -->\n"
HEAD = ("model", "check", "limit", "hint pasted", "before", "promised", "after", "status", "largest difference")

ENTRIES = {entry.name: entry for entry in SMALL + LARGE}
FAILING = (
    Combination("pitch", "ort", keys={"max_drop": 0.5}),
    Combination("notes", "ort", keys={"min_sqnr_db": 20}),
    Combination("voice", "openvino", keys={"min_sqnr_db": 15}),
    Combination("captcha", "ort", keys={"min_sqnr_db": 40}),
    Combination("morphemes", "openvino", keys={"min_sqnr_db": 35}),
    Combination("faces_free", "ort", keys={"min_cosine": 0.99}),
    Combination("sentence", "ort", keys={"min_sqnr_db": 20}),
    Combination("orientation", "openvino", keys={"min_sqnr_db": 60}),
    Combination("components", "ort", keys={"min_sqnr_db": 35}),
    Combination("two_heads", "ort", keys={"min_sqnr_db": 30}),
    Combination("attentive", "ort", keys={"min_cosine": 0.9995}),
    Combination("mobilenet", "ort", keys={"min_sqnr_db": 45}),
    Combination("unet", "openvino", keys={"min_sqnr_db": 42}),
    Combination("recurrent", "ort"),
)
"""Checks that break a limit; the last breaks the default one on coverage."""


def pasted(hint: str) -> dict[str, Any]:
    """Return the keys of the mark that a hint writes out.

    >>> pasted("scheme='dynamic'")
    {'scheme': 'dynamic'}
    """
    call = ast.parse(f"mark({hint})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}


def run(one: Combination, folder: Path, *arguments: str) -> Run:
    """Run one check in a project of its own."""
    folder.mkdir()
    if one.model in ENTRIES:
        write_project(folder, [ENTRIES[one.model]], [one])
    else:
        write_modules_project(folder, [one])
    return run_project(folder, *arguments)


def first_hint(check: Mapping[str, Any], output: str) -> Mapping[str, Any] | None:
    """Return the first hint that goes into the mark, if one was found; it is printed with the failure."""
    for hint in check["hints"] or ():
        if hint["paste"] and not hint["paste"].startswith("--"):
            assert "".join(hint["paste"].split()) in "".join(output.split()), output
            return dict(hint)
    return None


def figure(check: Mapping[str, Any], limit: str) -> float | None:
    """Return what was observed of one limit."""
    return next((one["observed"] for one in check["verdicts"] or () if one["limit"] == limit), None)


def follow(one: Combination, folder: Path) -> tuple[str, ...]:
    """Run one check, paste its first hint, run it again; return the cells of the table."""
    what = f"{one.backend} {one.precision} {one.scheme}"
    limit = ", ".join(f"{key}={value!r}" for key, value in one.keys.items()) or "min_coverage=50 (default)"
    first = run(one, folder / "before")
    check = first.checks[one.identity]
    hint = first_hint(check, first.output)
    if hint is None:
        told = "; ".join(hint["text"] for hint in check["hints"] or ())
        return (one.model, what, limit, f"none: {told}", "", "", "", str(check["status"]), "")
    changed = replace(one, keys={**one.keys, **pasted(hint["paste"])})
    second = run(changed, folder / "after", "--quant-diagnose-time=0")
    again = second.checks[one.identity]
    entry = ENTRIES.get(one.model)
    subject = Subject(one.model) if entry is None else Subject.of(entry, second.folder)
    found = compare([subject], [changed], second)
    assert differing(found) == []
    numbers = (figure(check, hint["limit"]), hint["after"], figure(again, hint["limit"]))
    # What is promised is nearer to the limit, so a figure that keeps it is no worse.
    assert math.isclose(float(numbers[2] or 0.0), hint["after"], rel_tol=1e-6), numbers
    return (
        *(one.model, what, limit, f"`{hint['paste']}`".replace("|", "\\|")),
        *("" if value is None else f"{value:.6g}" for value in numbers),
        f"{check['status']} → {again['status']}",
        f"{max(one.difference for one in found[one.identity]):.1e}",
    )


def renew(lines: Sequence[tuple[str, ...]]) -> None:
    """Put rows into README.md in place of those of the same models; the others stay."""
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    kept = {cells[0]: cells for cells in (*read_rows(old, HEAD), *lines)}
    table = [kept[one.model] for one in FAILING if one.model in kept]
    README.write_text(f"{before}{BEGIN}{markdown(HEAD, table)}{END}{after}", "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Follow the advice on the models named, or on all; a figure that is not the one promised ends it."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    lines = []
    with tempfile.TemporaryDirectory(prefix="zoo-advice-") as parent:
        for one in FAILING:
            if (names and one.model not in names) or (one.model in ENTRIES and ENTRIES[one.model].missing()):
                continue
            folder = Path(parent) / one.identity
            folder.mkdir()
            started = time.monotonic()
            lines.append(follow(one, folder))
            sys.stdout.write(f"{' | '.join(lines[-1])} ({time.monotonic() - started:.0f} s)\n")
            sys.stdout.flush()
    if "--write" in arguments:
        renew(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
