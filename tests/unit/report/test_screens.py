"""Texts, tables, comments and pages of known records are those that somebody has read."""

from __future__ import annotations

import pytest

from tests.screens import FOLDER, SCREENS


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_the_one_that_was_read(name: str) -> None:
    """Character by character; ``python -m tests.screens --write`` renews the files, for somebody to read again."""
    assert SCREENS[name]() == FOLDER.joinpath(name).read_text(encoding="utf-8")


def test_every_file_is_a_screen() -> None:
    """One without its screen would be read in vain."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(SCREENS)
