"""Records that the history could not take: one document of a run in each line of a file, to be imported later."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_quant.errors import HistoryError
from pytest_quant.history.exchange.stream import RunWithRecords, read_runs, run_line
from pytest_quant.record import Record, Run
from pytest_quant.whole_file import write_whole


def set_aside(place: str | Path, run: Run, records: Sequence[Record]) -> Path:
    """Write `run` to a file of its own beside the history at `place`, else to the temporary folder.

    Returns
    -------
    The file, which ``pytest-quant import`` reads.

    Raises
    ------
    HistoryError : neither folder takes it.
    """
    name = f"history-{run.id}.jsonl"
    beside = Path.cwd() if "://" in str(place) else Path(place).parent
    try:
        write_aside(beside / name, run, records)
    except HistoryError:
        beside = Path(tempfile.gettempdir())
        write_aside(beside / name, run, records)
    return beside / name


def write_aside(path: Path, run: Run, records: Sequence[Record]) -> None:
    """Add one line to the file at `path`, whole or not at all. Raises `HistoryError`."""
    line = run_line(run, records)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        write_whole(path, before + line)
    except OSError as error:
        raise HistoryError(
            f"the records of this run cannot be written to {path}",
            value=error.strerror or str(error),
            fix="make room or make the folder writable, and run the tests again",
        ) from error


def read_aside(path: Path) -> list[RunWithRecords]:
    """Read what `write_aside` or ``--quant-json`` wrote, whole; `read_runs` gives one run at a time.

    Raises
    ------
    HistoryError : the file cannot be read, or holds something else; the message names the line.
    """
    return list(read_runs(path))
