"""The page of a self-test can be read by a stranger."""

from __future__ import annotations

import re

import pytest

from pytest_quant.report.selftest import held_line, selftest_page
from tests.support.documents import GUIDES, Document
from tests.unit.history.noisy import a_selftest


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
    found = a_selftest(*a_selftest().kinds[-kinds:])
    best = "" if kinds == 1 else "2.1 % (compute-bound models) to "
    limits = f"{best}4.4 % (memory-bound models)"
    assert held_line(found) == f"self-test of 2026-01-01: smallest limit in one launch {limits}"
