"""What a history needs is named where it is not installed, before anything is opened."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import database


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is said where it is there."""
    assert database.missing_libraries() == ""
    monkeypatch.setattr(database, "find_spec", lambda name: None if name == "sqlalchemy" else find_spec(name))
    assert database.missing_libraries() == "it needs sqlalchemy, which is not installed"


def test_nothing_is_opened_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line that brings it is the next step, and no file is made."""
    monkeypatch.setattr(database, "find_spec", lambda _: None)
    with pytest.raises(HistoryError) as raised:
        database.open_store(tmp_path / "history.db")
    assert raised.value.fix == 'pip install "pytest-quant[history]"'
    assert list(tmp_path.iterdir()) == []
