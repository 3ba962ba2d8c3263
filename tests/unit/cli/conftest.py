"""A history for the commands that read one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.history import open_store
from tests.unit.record.examples import LATER, RUN, a_pass, a_record, unavailable


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history with two runs, the later one added first."""
    place = tmp_path / ".quant" / "history.db"
    store = open_store(place)
    store.append(LATER, [a_pass(), unavailable()])
    store.append(RUN, [a_record()])
    monkeypatch.chdir(tmp_path)
    return place
