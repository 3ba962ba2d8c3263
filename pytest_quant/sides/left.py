"""What a run of pytest leaves about its checks for a comparison with another run: a folder of files.

Two processes agree on it, perhaps of two environments, so that everything but the timed engines is JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pytest_quant.record import Record, Run, run_from_json

SELECTION, COLLECTED, RECORDS = "selection.json", "collected.json", "records.json"


class Selection(msgspec.Struct, frozen=True):
    """What a run for a comparison is to run, written for it beforehand.

    Attributes
    ----------
    nodeids : of the tests.
    others : run the marked tests that are not among them too: one of them may be one of those under another name.
    elsewhere : the user's checkout, from which the run must import nothing.
    """

    nodeids: tuple[str, ...]
    others: bool
    elsewhere: str


class Collected(msgspec.Struct, frozen=True):
    """What a run collected.

    Attributes
    ----------
    tests : node ids of the marked tests, each with a digest of its mark and its code.
    errors : node ids of what could not be collected, each with the reason.
    imported : modules that were imported from the user's checkout.
    """

    tests: dict[str, str] = {}
    errors: dict[str, str] = {}
    imported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """One side of a comparison: its records, and where its engines are described.

    Attributes
    ----------
    folder : with the files; see `launch_file`.
    run : ``None`` where pytest did not come to its end.
    collected : what it collected.
    trouble : why there are no records; empty when there are.
    python : the interpreter that it ran in.
    cwd, environment : of its processes; ``None`` for those of this process.
    notes : what the reader should know about it.
    """

    folder: Path
    run: Run | None
    records: tuple[Record, ...]
    collected: Collected
    python: str
    trouble: str = ""
    cwd: Path | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()


def launch_file(folder: Path, nodeid: str) -> Path:
    """Return the file in which the timed engines of a test are described, see `pytest_quant.measure.timing_process`."""
    return folder / f"{hashlib.sha256(nodeid.encode()).hexdigest()[:32]}.launch"


def write_selection(folder: Path, selection: Selection) -> None:
    """Tell a run that is to start what to run."""
    (folder / SELECTION).write_bytes(msgspec.json.encode(selection))


def read_selection(folder: Path) -> Selection | None:
    """Return what this run is to run; ``None`` where it runs what the user asked for."""
    file = folder / SELECTION
    return msgspec.json.decode(file.read_bytes(), type=Selection) if file.is_file() else None


def write_collected(folder: Path, collected: Collected) -> None:
    """Leave what was collected."""
    (folder / COLLECTED).write_bytes(msgspec.json.encode(collected))


def read_collected(folder: Path) -> Collected | None:
    """Return what a run has collected; ``None`` where it did not come so far."""
    file = folder / COLLECTED
    return msgspec.json.decode(file.read_bytes(), type=Collected) if file.is_file() else None


def read_records(folder: Path) -> tuple[Run | None, tuple[Record, ...]]:
    """Return run and records; neither where the run did not come to its end. Raises `HistoryError` when damaged."""
    file = folder / RECORDS
    if not file.is_file():
        return None, ()
    return run_from_json(json.loads(file.read_text("utf-8")))
