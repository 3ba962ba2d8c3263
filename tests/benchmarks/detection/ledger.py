"""What was found so far, one line of JSON for each trial, so that a run that was cut goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

Found: TypeAlias = Mapping[str, object]
"""What one trial found, of things that JSON has."""


class Ledger:
    """The trials in a file, by their arm; each is written before the next one begins.

    Parameters
    ----------
    path : of the file, which need not exist; ``None`` keeps trials in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._trials: dict[str, dict[int, Found]] = {}
        for line in _whole_lines(path):
            self._keep(str(line["arm"]), int(str(line["number"])), line)

    def add(self, arm: str, number: int, trial: Found) -> None:
        """Keep what trial `number` of an arm found."""
        line = {"arm": arm, "number": number} | dict(trial)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        self._keep(arm, number, line)

    def trials(self, arm: str) -> list[Found]:
        """Return what the trials of an arm found, in their order."""
        result = self._trials.get(arm, {})
        return [result[number] for number in sorted(result)]

    def next_number(self, arm: str) -> int:
        """Return the number of the first trial of an arm that is not there."""
        result = self._trials.get(arm, {})
        return next(number for number in range(len(result) + 1) if number not in result)

    def _keep(self, arm: str, number: int, line: Found) -> None:
        self._trials.setdefault(arm, {})[number] = line


def _whole_lines(path: Path | None) -> Iterator[dict[str, object]]:
    """Yield the lines of a file; its last one is left out, and removed, where a killed run left it unfinished."""
    if path is None or not path.exists():
        return
    text = path.read_text("utf-8")
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text, "utf-8")
    for line in text.splitlines():
        yield json.loads(line)
