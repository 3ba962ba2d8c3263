"""Records that the history could not take are kept beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import set_aside
from pytest_quant.history.exchange.stream import read_runs
from tests.unit.record.examples import RUN, a_record, unavailable


def test_the_file_lies_beside_the_history(tmp_path: Path) -> None:
    """Where a damaged history is, there is room for it; it is a line that an import reads."""
    place = tmp_path / "history.db"
    place.write_bytes(b"damaged" * 1000)
    file = set_aside(place, RUN, [a_record(), unavailable()])
    assert file.parent == tmp_path
    assert len(file.read_text().splitlines()) == 1
    assert list(read_runs(file)) == [(RUN, (a_record(), unavailable()))]


def test_that_of_a_server_lies_where_the_tests_were_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of CI keeps it from there."""
    monkeypatch.chdir(tmp_path)
    assert set_aside("postgresql://db.example/x", RUN, [a_record()]).parent == tmp_path


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
    with pytest.raises(HistoryError, match="cannot be written") as caught:
        set_aside(tmp_path / "file" / "history.db", RUN, [a_record()])
    assert f"history-{RUN.id}.jsonl" in caught.value.what
