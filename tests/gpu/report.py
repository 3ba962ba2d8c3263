"""What a machine with a GPU showed: one part after the other, kept as each ends, and the page that sums them up."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "FAILED", "lacking"]
RESULT = ".result.json"


@dataclass(frozen=True, slots=True)
class Found:
    """What one part showed.

    Attributes
    ----------
    state : ``lacking`` where the machine has not what the part needs.
    figure : what was measured, or why it failed, or what is lacking; one line.
    """

    state: State
    figure: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part by its name and title, what it showed, and how long it took in seconds."""

    name: str
    title: str
    result: Found
    seconds: float


def keep(part: Part, folder: Path) -> None:
    """Write the result of a part into `folder`, in place of an earlier one."""
    written = folder / f"{part.name}.new"
    written.write_text(json.dumps(asdict(part), indent=1) + "\n", encoding="utf-8")
    written.replace(folder / f"{part.name}{RESULT}")


def parts_in(folder: Path, order: Sequence[str]) -> list[Part]:
    """Return the parts whose results lie in `folder`, those of `order` only and in that order."""
    files = (folder / f"{name}{RESULT}" for name in order)
    result = (json.loads(file.read_text("utf-8")) for file in files if file.exists())
    return [Part(**{**each, "result": Found(**each["result"])}) for each in result]


def summary(parts: Sequence[Part]) -> str:
    """Return how many parts there are of each state, and the time of all."""
    count = {state: sum(part.result.state == state for part in parts) for state in ("ok", "FAILED", "lacking")}
    states = ", ".join(f"{number} {state}" for state, number in count.items() if number)
    return f"{len(parts)} parts in {sum(part.seconds for part in parts):.0f} s: {states}"


def line(part: Part) -> str:
    """Return one part as the terminal shows it."""
    return f"{part.result.state:7} {part.name}: {part.title} ({part.seconds:.0f} s)\n        {part.result.figure}"


def page(machine: Mapping[str, str], date: str, parts: Sequence[Part]) -> str:
    """Return the report in Markdown.

    Parameters
    ----------
    machine : devices, driver, versions, by name.
    date : of the run.
    parts : in their order.
    """
    return "\n".join(_lines(machine, date, parts)) + "\n"


def _lines(machine: Mapping[str, str], date: str, parts: Sequence[Part]) -> Iterator[str]:
    yield f"# What ran on a GPU, {date}"
    yield ""
    yield f"Written by `python -m tests.gpu`. {summary(parts)}."
    yield ""
    yield "| machine | |"
    yield "| --- | --- |"
    yield from (f"| {name} | {_cell(value)} |" for name, value in {**machine, "python": sys.version.split()[0]}.items())
    yield ""
    yield "| part | state | figure | seconds |"
    yield "| --- | --- | --- | --- |"
    for part in parts:
        what = f"{part.name}: {part.title}"
        yield f"| {what} | {part.result.state} | {_cell(part.result.figure)} | {part.seconds:.0f} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
