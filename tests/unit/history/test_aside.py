"""Records that the history could not take are kept beside it and come back."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store, read_aside, set_aside, write_aside
from pytest_quant.record import Run, from_json, run_to_json, to_json
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable
from tests.unit.record.strategies import records, runs


def test_each_run_is_a_line(tmp_path: Path) -> None:
    """Newline-delimited JSON, added to what is there."""
    file = tmp_path / "new" / "aside.jsonl"
    other = replace(RUN, id="other")
    write_aside(file, RUN, [a_record(), unavailable()])
    write_aside(file, other, [a_pass()])
    assert len(file.read_text().splitlines()) == 2
    assert read_aside(file) == [(RUN, (a_record(), unavailable())), (other, (a_pass(),))]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(runs, st.lists(records.map(lambda record: from_json(to_json(record))), max_size=2))
def test_no_character_breaks_a_line(tmp_path_factory: pytest.TempPathFactory, run: Run, kept: list[object]) -> None:
    """Names may hold newlines of any kind."""
    file = tmp_path_factory.mktemp("aside") / "aside.jsonl"
    run = replace(run, started_at=RUN.started_at)
    for _ in range(2):
        write_aside(file, run, kept)  # type: ignore[arg-type]
    assert [run_to_json(*read) for read in read_aside(file)] == [run_to_json(run, kept)] * 2  # type: ignore[arg-type]


def test_a_document_of_quant_json_is_read_too(tmp_path: Path) -> None:
    """It is the same document, on several lines."""
    file = tmp_path / "out.json"
    file.write_text(json.dumps(run_to_json(RUN, [a_record()]), indent=2))
    assert read_aside(file) == [(RUN, (a_record(),))]


@pytest.mark.parametrize("spoiled", ["{", "[1]", '{"schema": 1}', '{"schema": 9}'])
def test_a_spoiled_line_is_an_error(tmp_path: Path, spoiled: str) -> None:
    """What is left out silently would be lost."""
    file = tmp_path / "aside.jsonl"
    write_aside(file, RUN, [a_record()])
    file.write_text(file.read_text() + spoiled + "\n")
    with pytest.raises(HistoryError):
        read_aside(file)


def test_the_spoiled_line_is_named(tmp_path: Path) -> None:
    """By its number."""
    file = tmp_path / "aside.jsonl"
    write_aside(file, RUN, [a_record()])
    file.write_text(file.read_text() + "half a li")
    with pytest.raises(HistoryError, match="line 2"):
        read_aside(file)


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), (b"\xff\xfe", "not UTF-8")])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    """Missing, or no text."""
    file = tmp_path / "aside.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(HistoryError, match=words):
        read_aside(file)


def test_the_file_lies_beside_the_history(tmp_path: Path) -> None:
    """Where a damaged history is, there is room for it."""
    place = tmp_path / "history.db"
    place.write_bytes(b"damaged" * 1000)
    file = set_aside(place, RUN, [a_record()])
    assert file.parent == tmp_path
    assert read_aside(file) == [(RUN, (a_record(),))]


def test_a_folder_that_takes_nothing_is_left_for_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the folder's place, for example."""
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    (tmp_path / ".quant").write_text("mine")
    assert set_aside(tmp_path / ".quant" / "history.db", RUN, [a_record()]).parent == spare


def test_nowhere_to_write_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file."""
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(HistoryError, match="cannot be written"):
        set_aside(tmp_path / "file" / "history.db", RUN, [a_record()])


def test_what_comes_back_goes_into_a_history(tmp_path: Path) -> None:
    """Twice makes no difference."""
    file = tmp_path / "aside.jsonl"
    write_aside(file, RUN, [a_record()])
    store = open_store(tmp_path / "history.db")
    assert [store.append(*read) for _ in range(2) for read in read_aside(file)] == [True, False]
    assert store.records(RUN.id) == [a_record()]


@pytest.mark.skipif(os.name == "nt", reason="named pipes in folders are those of POSIX")
def test_a_named_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    """Neither of the file nor of the history itself: both are errors that name it."""
    for name, write in (
        ("aside.jsonl", lambda path: write_aside(path, RUN, [])),
        ("history.db", open_store),
    ):
        os.mkfifo(tmp_path / name)
        with pytest.raises(HistoryError, match=str(tmp_path / name)):
            write(tmp_path / name)
