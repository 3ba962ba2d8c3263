"""Finished checks are on the disk at once, and get into the history once, whoever dies."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.history import open_store, unfinished_runs
from pytest_quant.history.unfinished_runs import UnfinishedRun, recover
from pytest_quant.record import Record, to_json
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable

DIE = """
import os, sys
from dataclasses import replace
from pathlib import Path
from pytest_quant.history.unfinished_runs import UnfinishedRun
from pytest_quant.record import to_json
from tests.unit.record.examples import RUN, a_pass, a_record
unfinished = UnfinishedRun(sys.argv[1], Path(sys.argv[2]), RUN)
unfinished.keep(to_json(a_record()))
unfinished.keep(to_json(replace(a_pass(), nodeid="test_other.py::test_other")))
sys.stdout.write("kept\\n")
sys.stdout.flush()
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""

NOTHING: tuple[str, list[str]] = ("", [])
_OTHER = replace(a_pass(), nodeid="test_other.py::test_other")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A history that is not there yet."""
    return tmp_path / ".quant" / "history.db"


def _live(place: object, root: Path) -> subprocess.Popen[str]:
    """Start a process that has kept two checks, and dies when it is told."""
    command = [sys.executable, "-c", DIE, str(place), str(root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "kept\n"
    return process


def _stored(place: Path) -> list[tuple[object, tuple[Record, ...]]]:
    return list(open_store(place).each_run())


def _left(place: Path) -> list[str]:
    return [name for name in sorted(os.listdir(place.parent)) if "unfinished" in name]  # noqa: PTH208


def test_what_a_killed_process_kept_is_added_once(place: Path, tmp_path: Path) -> None:
    """The run with both checks, in their order; a second look finds nothing, and nothing is left beside the history."""
    process = _live(place, tmp_path)
    process.communicate("\n")
    assert process.returncode == -9
    assert recover(place, tmp_path) == ("2 checks of 1 run that did not end well added to the history", [])
    assert recover(place, tmp_path) == NOTHING
    assert _stored(place) == [(RUN, (a_record(), _OTHER))]
    assert _left(place) == []


def test_the_file_of_a_live_process_is_left_alone(place: Path, tmp_path: Path) -> None:
    """It is that process which adds its checks, as long as it can."""
    process = _live(place, tmp_path)
    before = _left(place)
    assert recover(place, tmp_path) == NOTHING
    assert _left(place) == before
    process.communicate("\n")
    assert recover(place, tmp_path)[0].startswith("2 checks of 1 run")


def test_a_run_that_was_stored_before_it_died_is_not_added_again(place: Path, tmp_path: Path) -> None:
    """It was killed between the history and its own file."""
    _live(place, tmp_path).communicate("\n")
    open_store(place).append(RUN, [a_record(), _OTHER, unavailable()])
    assert recover(place, tmp_path) == NOTHING
    assert _stored(place) == [(RUN, (a_record(), _OTHER, unavailable()))]
    assert _left(place) == []


def test_a_run_that_ends_leaves_no_file(place: Path, tmp_path: Path) -> None:
    """Where its records are stored; else the next run finds them. The folder is excluded from version control."""
    for stored in (True, False):
        unfinished = UnfinishedRun(place, tmp_path, RUN)
        unfinished.keep(to_json(a_pass()))
        unfinished.close(stored=stored)
        assert bool(_left(place)) is not stored
    assert (place.parent / ".gitignore").read_text().endswith("*\n")
    assert recover(place, tmp_path)[0].startswith("1 check of 1 run that")


@pytest.mark.parametrize("lost_bytes", [1, 100])
def test_a_line_without_its_end_is_the_check_under_way(place: Path, tmp_path: Path, lost_bytes: int) -> None:
    """It alone is lost; where it is the first, there is nothing to add."""
    for checks in ([a_record(), _OTHER], [a_pass()]):
        unfinished = UnfinishedRun(place, tmp_path, replace(RUN, id=f"{lost_bytes}-{len(checks)}"))
        for record in checks:
            unfinished.keep(to_json(record))
        unfinished.close(stored=False)
        (name,) = _left(place)
        file = place.parent / name
        file.write_bytes(file.read_bytes()[:-lost_bytes])
        assert bool(recover(place, tmp_path)[0]) == (len(checks) > 1)
        assert _left(place) == []


def test_those_of_a_server_lie_in_the_project(tmp_path: Path) -> None:
    """Found again with another password, and not for another database of that server."""
    url = "postgresql://{}@db.example:5432/{}?sslmode=require&password=x"
    unfinished = UnfinishedRun(url.format("me:secret", "one"), tmp_path, RUN)
    unfinished.close(stored=False)
    (name,) = _left(tmp_path / ".quant" / "any")
    assert "secret" not in name
    assert recover(url.format("me:secret", "two"), tmp_path) == NOTHING
    assert _left(tmp_path / ".quant" / "any") == [name]
    assert recover(url.format("me:other", "one"), tmp_path) == NOTHING
    assert _left(tmp_path / ".quant" / "any") == []


@pytest.mark.parametrize("content", [b"{\n", b'{"schema": 99}\n'])
def test_what_cannot_be_read_is_named_and_left(place: Path, tmp_path: Path, content: bytes) -> None:
    """A run of today keeps its own; those of other dead runs are added."""
    UnfinishedRun(place, tmp_path, RUN).close(stored=False)
    (name,) = _left(place)
    (place.parent / name).write_bytes(content)
    other = UnfinishedRun(place, tmp_path, replace(RUN, id="other"))
    other.keep(to_json(a_pass()))
    other.close(stored=False)
    added, (refused,) = recover(place, tmp_path)
    assert added.startswith("1 check of 1 run")
    assert name in refused
    assert (place.parent / name).read_bytes() == content


def test_what_is_no_file_is_not_read(place: Path, tmp_path: Path) -> None:
    """A pipe or a link that somebody has put there is neither waited for nor followed."""
    place.parent.mkdir()
    os.mkfifo(place.parent / "history.db.pipe.unfinished")
    (place.parent / "history.db.link.unfinished").symlink_to(place)
    (place.parent / "history.db.folder.unfinished").mkdir()
    assert recover(place, tmp_path) == NOTHING
    assert len(_left(place)) == 3


def test_a_history_that_cannot_be_opened_leaves_the_file(place: Path, tmp_path: Path) -> None:
    """The message names both, and the checks are added once it can."""
    _live(place, tmp_path).communicate("\n")
    place.mkdir()
    added, refused = recover(place, tmp_path)
    assert (added, len(refused)) == ("", 1)
    place.rmdir()
    assert recover(place, tmp_path)[0].startswith("2 checks of 1 run")


def test_each_check_is_on_the_disk_before_the_next(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only in the memory of the system, which a loss of power takes."""
    flushed: list[int] = []
    monkeypatch.setattr(unfinished_runs, "flush_data", lambda number: flushed.append(os.fstat(number).st_size))
    unfinished = UnfinishedRun(place, tmp_path, RUN)
    for count in (1, 2):
        unfinished.keep(to_json(a_pass()))
        assert len(flushed) == count
        assert flushed[-1] == (place.parent / _left(place)[0]).stat().st_size > 0
    unfinished.close(stored=True)


def test_a_full_disk_is_an_error_though_a_part_was_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further line after that part could not be read."""
    unfinished = UnfinishedRun(place, tmp_path, RUN)
    unfinished.keep(to_json(a_record()))

    class Full:
        def write(self, line: bytes) -> int:
            return len(line) // 2

    with monkeypatch.context() as patch:
        patch.setattr(unfinished, "_stream", Full())
        with pytest.raises(OSError, match="No space"):
            unfinished.keep(to_json(a_pass()))
    unfinished.close(stored=False)
    assert recover(place, tmp_path)[0].startswith("1 check of 1 run")
