"""The page of a self-test can be read by a stranger."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_quant.report.selftest import held_line, selftest_page
from tests.support.documents import GUIDES, Document
from tests.unit.history.noisy import a_kind, a_selftest


def test_the_page_says_what_was_measured_and_what_to_do() -> None:
    """Each kind of model with its noise and the limits that it holds, the machine, and limits as a mark has them."""
    page = selftest_page(a_selftest())
    assert "Some CPU, avx2, 2 cores" in page
    assert "20 of 20 launches, ort on cpu, 5 min 0 s" in page
    rows = [line.split() for line in page.splitlines() if line.startswith("  ") and " %" in line]
    assert rows == [
        ["tiny", "0.60", "%", "0.90", "%", "3.2", "%", "1.6", "%", "2.1", "%"],
        ["compute-bound", "0.60", "%", "0.90", "%", "2.1", "%", "1.1", "%", "1.4", "%"],
        ["memory-bound", "0.60", "%", "0.90", "%", "4.4", "%", "2.2", "%", "2.9", "%"],
    ]
    assert (
        "compute-bound: min_speedup=S/1.025 in one launch; max_slowdown=1.5 with --quant-launches 5 in each run" in page
    )
    assert "memory-bound: min_speedup=S/1.05 in one launch; max_slowdown=3 with --quant-launches 5 in each run" in page
    assert max(map(len, page.splitlines())) <= 120


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


def test_a_machine_that_holds_no_limit_is_told_so() -> None:
    """A limit of 140 % guards nothing; what disturbed it is named."""
    loud = a_selftest(a_kind("tiny", 2.0), a_kind("memory-bound", 140.0))
    page = selftest_page(replace(loud, notes=("busy machine in 3 of 20 launches",)))
    assert "memory-bound: no limit on speed; measure again while nothing else runs" in page
    assert "busy machine in 3 of 20 launches: the figures are those of this machine under that load" in page
    assert page.count("none below 50 %") == 3
