"""Runs are read and written one at a time, and a spoiled line is named."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.errors import HistoryError
from pytest_quant.history import json_lines
from pytest_quant.history.json_lines import lines_of, read_lines, read_runs, run_line
from pytest_quant.record import Record, Run, from_json, run_to_json, to_json
from tests.unit.record.examples import RUN, a_pass, a_record, with_accuracy
from tests.unit.record.strategies import records, runs

_ROOT = Path(__file__).parents[3]
_OTHER = replace(RUN, id="other")


def _written() -> bytes:
    return b"".join(lines_of([(RUN, [a_record()]), (_OTHER, [a_pass()])]))


def test_the_first_line_names_the_format() -> None:
    """With the schema of the documents that follow, one in each line."""
    first, *documents = _written().splitlines()
    assert json.loads(first) == {"format": "pytest-quant-history", "schema": 1}
    assert [json.loads(line) for line in documents] == [
        run_to_json(RUN, [a_record()]),
        run_to_json(_OTHER, [a_pass()]),
    ]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Joined files too, blank lines and a byte order mark."""
    file = tmp_path / "all.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + _written() + b"\n" + _written())
    assert list(read_runs(file)) == [(RUN, (a_record(),)), (_OTHER, (a_pass(),))] * 2


def _without_answers(record: Record) -> Record:
    """Return any record, but for texts that must be what a comparison can read."""
    none: dict[str, Any] = {"reference_correct": None, "candidate_correct": None, "candidate_scores": None}
    accuracy = None if record.accuracy is None else replace(record.accuracy, **none)
    return from_json(to_json(replace(record, accuracy=accuracy)))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(runs, st.lists(records.map(_without_answers), max_size=2))
def test_no_character_breaks_a_line(run: Run, checks: list[Record]) -> None:
    """Names may hold newlines of any kind."""
    run = replace(run, started_at=RUN.started_at)
    lines = run_line(run, checks) + run_line(_OTHER, [])
    reads = [run_to_json(*read) for read in read_lines(io.BytesIO(lines), "the file")]
    assert reads == [run_to_json(run, checks), run_to_json(_OTHER, [])]


def test_a_document_of_quant_json_is_read_too(tmp_path: Path) -> None:
    """It is the same document, on several lines."""
    file = tmp_path / "out.json"
    file.write_text(json.dumps(run_to_json(RUN, [a_record()]), indent=2))
    assert list(read_runs(file)) == [(RUN, (a_record(),))]


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """With what it could be."""
    with pytest.raises(HistoryError, match="cannot be read") as caught:
        list(read_runs(tmp_path / "none.jsonl"))
    assert "none.jsonl" in caught.value.what


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"format": "something else"}', "not what it must be"),
        (b'{"schema": 99, "run": {}, "checks": []}', "newer pytest-quant"),
        (b'{"schema": 1, "run": {"id": 4}, "checks": []}', "run.id"),
        (b"half a li", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"[" * 100_000, "nested without end"),
        (b"[]", "not what it must be"),
        (b'"text"', "not what it must be"),
    ],
)
def test_what_is_not_understood_is_named_by_its_line(line: bytes, text: str) -> None:
    """Two runs come first, so it is the fourth line."""
    with pytest.raises(HistoryError, match="the file, line 4: ") as caught:
        list(read_lines(io.BytesIO(_written() + line + b"\n"), "the file"))
    assert text in str(caught.value)


def _zipped(text: bytes) -> bytes:
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as file:
        file.writestr("runs.jsonl", text)
    return archive.getvalue()


@pytest.mark.parametrize(("packed", "what"), [(gzip.compress, "compressed by gzip"), (_zipped, "a ZIP archive")])
def test_a_packed_file_is_called_what_it_is(packed: Callable[[bytes], bytes], what: str) -> None:
    """A line of it cannot be removed."""
    with pytest.raises(HistoryError, match=f"the file cannot be read: it is {what}") as caught:
        list(read_lines(io.BytesIO(packed(_written())), "the file"))
    assert "'the file'" in str(caught.value.fix)
    assert "remove the line" not in str(caught.value)


@pytest.mark.parametrize("field", ["reference_correct", "candidate_correct", "candidate_scores"])
def test_answers_that_no_comparison_can_read_are_refused(field: str) -> None:
    """Where they come in; what is taken for a record of theirs is tried in `compare/test_accuracy`."""
    spoiled = with_accuracy(a_record(), **{field: "</script>"})
    with pytest.raises(HistoryError, match=r"line 1: .*the answers of single samples are damaged"):
        list(read_lines(io.BytesIO(run_line(RUN, [spoiled])), "the file"))


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1" * 400, "1" * 5000])
def test_numbers_that_no_history_holds_are_refused(number: str) -> None:
    """They would fail only where they are written."""
    line = run_line(RUN, [a_record()]).replace(b'"drop":4.23', b'"drop":' + number.encode())
    with pytest.raises(HistoryError, match="line 1: "):
        list(read_lines(io.BytesIO(line), "the file"))


def test_a_file_without_anything_is_refused(tmp_path: Path) -> None:
    """An export of no runs has its first line; no line at all is a file that was cut off."""
    file = tmp_path / "empty.jsonl"
    file.touch()
    with pytest.raises(HistoryError, match="empty"):
        list(read_runs(file))
    file.write_bytes(b"".join(lines_of([])))
    assert list(read_runs(file)) == []


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it fills the memory."""
    monkeypatch.setattr(json_lines, "MOST_LINE_BYTES", 1000)
    with pytest.raises(HistoryError, match="line 1: not JSON"):
        list(read_lines(io.BytesIO(b'{"x": "' + b"y" * 5000), "the file"))


# The peak of the process itself: what `getrusage` gives begins with that of the process that started it.
_BOUNDED = """
import re, sys
from dataclasses import replace
from pathlib import Path
from pytest_quant.history.json_lines import lines_of, read_runs
from tests.unit.record.examples import RUN, a_record
file, record = Path(sys.argv[1]), a_record()
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
def runs(): yield from ((replace(RUN, id=f"run-{number}"), [record] * 20) for number in range(COUNT))
with file.open("wb") as stream: stream.writelines(lines_of(runs()))
if COUNT > 10: assert file.stat().st_size > 10_000_000, file.stat().st_size
before = peak()
assert sum(len(records) for _, records in read_runs(file)) == 20 * COUNT
print(before, peak())
"""


def test_a_large_file_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    """Ten million bytes, written and read, within four million bytes of what four runs take."""

    def peak_kb(count: int) -> int:
        command = [sys.executable, "-c", f"COUNT = {count}\n{_BOUNDED}", str(tmp_path / "large.jsonl")]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[1])

    assert peak_kb(250) - peak_kb(4) < 4_000
