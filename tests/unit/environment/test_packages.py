"""Versions of installed packages."""

from __future__ import annotations

from importlib import metadata

import pytest

from pytest_quant.environment.packages import version


def test_a_version_is_the_one_of_the_metadata() -> None:
    """As importlib reads it."""
    assert version("numpy") == metadata.version("numpy")


def test_metadata_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the version is asked for; reading them takes longer than much else of a check."""
    asked: list[str] = []

    def read(name: str) -> str:
        asked.append(name)
        return "1.2.3"

    monkeypatch.setattr(metadata, "version", read)
    assert [version("planted"), version("planted")] == ["1.2.3", "1.2.3"]
    assert asked == ["planted"]


def test_what_is_absent_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An absence is not remembered."""
    with pytest.raises(metadata.PackageNotFoundError):
        version("planted-later")
    monkeypatch.setattr(metadata, "version", lambda _: "1.0")
    assert version("planted-later") == "1.0"
