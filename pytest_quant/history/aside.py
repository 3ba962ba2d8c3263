"""Records that the history could not take: one document of a run in each line of a file, to be imported later."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_quant.errors import HistoryError
from pytest_quant.history.rows import encode
from pytest_quant.record import Record, Run, run_from_json, run_to_json


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
    line = encode(run_to_json(run, records)) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        _write_whole(path, before + line.encode())
    except OSError as error:
        raise HistoryError(
            f"the records of this run cannot be written to {path}",
            value=error.strerror or str(error),
            fix="make room or make the folder writable, and run the tests again",
        ) from error


def _write_whole(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, so that a full disk or a kill leaves what was there."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_aside(path: Path) -> list[tuple[Run, tuple[Record, ...]]]:
    """Read what `write_aside` or ``--quant-json`` wrote: a document in each line, or one in all.

    Raises
    ------
    HistoryError : the file cannot be read, or holds something else; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(
            f"{path} cannot be read",
            value=(error.strerror if isinstance(error, OSError) else None) or str(error),
            fix="name a file of records that were set aside, or that --quant-json wrote",
        ) from error
    try:
        return [run_from_json(json.loads(text))]
    except ValueError:
        return [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _line(path: Path, number: int, line: str) -> tuple[Run, tuple[Record, ...]]:
    try:
        return run_from_json(json.loads(line))
    except ValueError as error:
        raise HistoryError(
            f"{path}, line {number}: not JSON",
            value=line[:80],
            allowed="one run in each line, as pytest-quant wrote it",
            fix="remove the line, and import the file again; nothing of it was imported",
        ) from error
