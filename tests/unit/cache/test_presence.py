"""Who waits is told for whom, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import Timeout

from pytest_quant.cache import store
from pytest_quant.cache.files import temporary_path
from pytest_quant.cache.presence import Presence

KEY, OTHER = "a" * 64, "b" * 64


class BusyThreeTimes:
    """A lock that another process holds for three looks."""

    def __init__(self, path: Path) -> None:
        self._path, self._looks = path, 0

    def acquire(self, timeout: float, poll_interval: float) -> None:
        """Give up three times."""
        assert 0 < poll_interval < timeout
        self._looks += 1
        if self._looks <= 3:
            raise Timeout(str(self._path))


@pytest.mark.parametrize(("building", "told"), [(KEY, 1), (OTHER, 0)])
def test_the_builder_of_this_entry_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, building: str, told: int
) -> None:
    """However long it takes; who builds another entry is not the one that is waited for."""
    presence = Presence(tmp_path)
    monkeypatch.setattr(store, "FileLock", BusyThreeTimes)
    temporary_path(tmp_path, "engine", building, presence.token).mkdir(parents=True)
    said: list[str] = []
    store.hold_entry(tmp_path, "engine", KEY, "ort-int8 of net", presence, said.append)
    assert said == [f"waiting for process {os.getpid()} which builds ort-int8 of net"] * told


def test_a_builder_that_died_is_not_waited_for_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dead process left behind names nobody."""
    presence = Presence(tmp_path)
    monkeypatch.setattr(store, "FileLock", BusyThreeTimes)
    temporary_path(tmp_path, "engine", KEY, "1-abcd").mkdir(parents=True)
    said: list[str] = []
    store.hold_entry(tmp_path, "engine", KEY, "slot", presence, said.append)
    assert said == []
