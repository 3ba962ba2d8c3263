"""A history that cannot be used is a clear error, and stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.connect import PAGE_BYTES
from pytest_quant.history.schema import SCHEMA
from tests.unit.record.examples import RUN, a_record


def _is_refused(place: Path | str, *words: str) -> None:
    with pytest.raises(HistoryError) as caught:
        open_store(place).append(RUN, [a_record()])
    assert caught.value.fix
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"not a database, but longer than its header" * 9, b"SQLite format 3\0" + b"\xff" * 2000]
)
def test_a_corrupt_file_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    """It may be all that is left of a year's records."""
    place = tmp_path / "history.db"
    place.write_bytes(content)
    _is_refused(place, str(place), "not a database", "move the file away")
    assert place.read_bytes() == content


def test_damage_inside_the_file_is_found_when_it_is_read(tmp_path: Path) -> None:
    """A page that holds nothing sensible is no empty history."""
    place = tmp_path / "history.db"
    store = open_store(place)
    store.append(RUN, [a_record()])
    content = bytearray(place.read_bytes())
    content[PAGE_BYTES:] = b"\xaa" * (len(content) - PAGE_BYTES)
    place.write_bytes(content)
    with pytest.raises(HistoryError, match="cannot be"):
        open_store(place).checks()
    assert place.read_bytes() == bytes(content)


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    """The message says that it is one."""
    place = tmp_path / "history.db"
    place.mkdir()
    _is_refused(place, str(place), "is a folder", "--quant-history")


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    """Nothing can be created below it."""
    (tmp_path / ".quant").write_text("mine")
    _is_refused(tmp_path / ".quant" / "history.db", "--quant-history")
    assert (tmp_path / ".quant").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="named pipes in folders are those of POSIX")
def test_a_named_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "history.db")
    _is_refused(tmp_path / "history.db", str(tmp_path / "history.db"))


@pytest.mark.parametrize("url", ["nothing://x", "sqlite+missing:///x.db", "://"])
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    """A driver that does not exist, or no address at all."""
    with pytest.raises(HistoryError):
        open_store(url)


def test_tables_that_were_left_half_done_are_finished(tmp_path: Path) -> None:
    """A process that was killed while it created them leaves no version."""
    place = tmp_path / "history.db"
    with create_engine(f"sqlite:///{place}").begin() as connection:
        SCHEMA.create(connection)
    assert open_store(place).append(RUN, [a_record()])


_LIMITED = """
import resource, signal, sys, tempfile
from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.unfinished_runs import set_aside
from pathlib import Path
from tests.unit.record.examples import RUN, a_record
from dataclasses import replace
store = open_store(sys.argv[1])
store.append(RUN, [a_record()])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
tempfile.tempdir = str(Path(sys.argv[1]).parent)
aside = set_aside(sys.argv[1], RUN, [a_record()])
many = [a_record()] * 200
for write in (lambda run: store.append(run, many), lambda run: set_aside(sys.argv[1], run, many)):
    try:
        write(replace(RUN, id="too large"))
    except HistoryError as error:
        print("refused:", error.what, error.value)
beside = [path.name for path in aside.parent.glob("*history-*")]
print(len(store.runs()), len(aside.read_text().splitlines()), beside == [aside.name])
"""


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    """A run that does not fit is refused whole; what was there is there, in the history and beside it."""
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "history.db")]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env={**os.environ})
    lines = done.stdout.splitlines()
    assert [line.startswith("refused:") for line in lines] == [True, True, False]
    assert "cannot be written" in lines[0]
    assert lines[2] == "1 1 True"
