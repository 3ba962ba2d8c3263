"""Runs as newline-delimited JSON, written and read one at a time, so that a file may be larger than memory.

The first line is ``{"format": "pytest-quant-history", "schema": 1}``, every other one the document of a run that
``record_schema.json`` describes. Files joined with ``cat`` are read too, as are those of unfinished runs, which have no
first line and a line for each check, and a file that is one document, of ``--quant-json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pytest_quant.errors import HistoryError
from pytest_quant.files import file_errors, open_file, parse_json
from pytest_quant.history.rows import encode
from pytest_quant.host import quote
from pytest_quant.printable import guard_json
from pytest_quant.record import SCHEMA, EncodedRecord, Record, Run, run_from_json, run_to_json

FORMAT = "pytest-quant-history"

MOST_LINE_BYTES = 256_000_000
"""The document of 60 000 checks; of a longer line, which would fill the memory, the beginning alone is read."""

RunWithRecords: TypeAlias = tuple[Run, tuple[Record, ...]]

_OF_AN_EXPORT = "name a file of pytest-quant history export, of an unfinished run, or of --quant-json"
_THEN = ", then import exported.jsonl"
_OTHER_FILES = {
    b"SQLite format 3\0": ("a database", f"pytest-quant history export exported.jsonl --history {{file}}{_THEN}"),
    b"\x1f\x8b": ("compressed by gzip", f"gzip -dc {{file}} > exported.jsonl{_THEN}"),
    b"PK\x03\x04": ("a ZIP archive", "unzip {file} -d exported, then import the files in the folder exported"),
    b"PAR1": ("a table of Parquet", f"pytest-quant history export exported.jsonl where it is from{_THEN}"),
}
"""By their first bytes: what a file is that holds no lines, and the next step."""


def run_line(run: Run, records: Sequence[Record | EncodedRecord]) -> bytes:
    """Return the line of one run."""
    # An export without a file goes to the output, and so into the log of a CI service.
    return (guard_json(encode(run_to_json(run, records))) + "\n").encode()


def lines_of(runs: Iterable[tuple[Run, Sequence[Record]]]) -> Iterator[bytes]:
    """Yield the lines of an export of `runs`, the first one of which names the format."""
    yield (encode({"format": FORMAT, "schema": SCHEMA}) + "\n").encode()
    yield from (run_line(run, records) for run, records in runs)


def read_runs(path: Path, where: str = "") -> Iterator[RunWithRecords]:
    """Yield the runs in the file at `path`, one at a time; `where` names it in messages.

    Raises
    ------
    HistoryError : the file cannot be read, or has other contents; the message names the line.
    """
    with file_errors(HistoryError, f"{where or path} cannot be read", _OF_AN_EXPORT), open_file(path) as stream:
        yield from read_lines(stream, where or str(path))


def read_lines(stream: BinaryIO, where: str) -> Iterator[RunWithRecords]:
    """Yield the runs in `stream`; `where` names it in messages. Raises `HistoryError`.

    Lines of one run that follow each other are one run, with the last record of each test.
    """
    for _, lines in groupby(_each_line(stream, where), key=lambda read: read[0].id):
        of_run = list(lines)
        run, records = of_run[-1]
        if len(of_run) > 1:
            records = tuple({record.nodeid: record for _, line in of_run for record in line}.values())
        yield run, records


def _each_line(stream: BinaryIO, where: str) -> Iterator[RunWithRecords]:
    number = 0
    while line := stream.readline(MOST_LINE_BYTES):
        number += 1
        for beginning, (what, fix) in _OTHER_FILES.items() if number == 1 else ():
            if line.startswith(beginning):
                raise HistoryError(f"{where} cannot be read: it is {what}", fix=fix.format(file=quote(where)))
        if number == 1 and line.strip() == b"{":
            # A document on many lines is that of --quant-json, and fills the file.
            line += stream.read(MOST_LINE_BYTES)
        if line.strip():
            yield from _read(line, f"{where}, line {number}")
    if number == 0:
        raise HistoryError(f"{where} cannot be read: it is empty", fix="pytest-quant history export writes it again")


def _read(line: bytes, place: str) -> Iterator[RunWithRecords]:
    """Yield the run of a line, none of the first line of an export. Raises `HistoryError`, which names the `place`."""
    # Here, because it loads numpy, which a run that never imports one does without.
    from pytest_quant.metrics.answers import answers_of

    try:
        document = parse_json(line)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            run, records = run_from_json(document)
            for accuracy in filter(None, (record.accuracy for record in records)):
                if damage := answers_of(accuracy).damage:
                    raise ValueError(damage)  # noqa: TRY301 - it gets its place below
            yield run, records
    except HistoryError as error:
        raise HistoryError(f"{place}: {error.what}", value=error.value, allowed=error.allowed, fix=error.fix) from error
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise HistoryError(
            f"{place}: not JSON of a run: {error}",
            value=line[:80].decode("utf-8", "backslashreplace").rstrip(),
            allowed="one run in each line, as pytest-quant wrote it",
            fix=f"remove the line, and import the file again, or {_OF_AN_EXPORT}; nothing of it was imported",
        ) from error
