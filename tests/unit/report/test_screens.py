"""Texts, tables, comments and pages of known records are those that somebody has read."""

from __future__ import annotations

import re

import pytest

from pytest_quant.report.selftest_page import describe_held, selftest_page
from tests.screens import FOLDER, SCREENS
from tests.support.documents import GUIDES, Document
from tests.unit.history.noisy import a_selftest


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_the_one_that_was_read(name: str) -> None:
    """Character by character; ``python -m tests.screens --write`` renews the files, for somebody to read again."""
    assert SCREENS[name]() == FOLDER.joinpath(name).read_text(encoding="utf-8")


def test_every_file_is_a_screen() -> None:
    """One without its screen would be read in vain."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(SCREENS)


def frame(page: str) -> list[str]:
    """Return the sentences of a page without its figures, machine and rows, which differ from one to the next."""
    lines = [line.partition(";")[0] for line in page.splitlines()[2:] if line and not line.startswith("  ")]
    return [re.sub(r"\d+", "0", line) for line in lines if "busy machine" not in line]


def test_the_page_in_the_guide_has_this_form() -> None:
    """It was measured once on a real machine; its sentences are those of today."""
    (block,) = Document(GUIDES / "limits.md").blocks("text")
    assert frame(block.text) == frame(selftest_page(a_selftest()))
    assert [kind for kind in ("tiny", "compute-bound", "memory-bound") if block.text.count(f"  {kind}") != 2] == []


@pytest.mark.parametrize("kinds", [1, 3])
def test_the_line_names_the_best_and_the_worst(kinds: int) -> None:
    """With one kind alone, that one."""
    result = a_selftest(*a_selftest().kinds[-kinds:])
    best = "" if kinds == 1 else "2.1 % (compute-bound models) to "
    limits = f"{best}4.4 % (memory-bound models)"
    assert describe_held(result) == f"self-test of 2026-01-01: smallest limit in one launch {limits}"
