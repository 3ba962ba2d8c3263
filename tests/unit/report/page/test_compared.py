"""A comparison on the page says what its other forms say, row by row."""

from __future__ import annotations

from pytest_quant.report import comparison as words
from pytest_quant.report.page.compared import comparison_view
from tests.support.pages import compared

_COMPARED = compared()
_VIEW = comparison_view(_COMPARED)


def test_the_verdict_and_the_commits_come_first() -> None:
    """In the words of the terminal."""
    assert _VIEW.word == "regression"
    assert _VIEW.verdict == words.verdict(_COMPARED.comparison, _COMPARED.ruling)
    assert _VIEW.about[0] == words.title(_COMPARED.comparison)
    assert _VIEW.why_not == ""


def test_each_changed_row_stands_in_the_words_of_the_terminal() -> None:
    """Rows of one test together, regressions first, what differs told once."""
    changed = [row for group in words.by_test(_COMPARED.comparison.changed) for row in group]
    assert len(changed) > 1
    for view, row in zip(_VIEW.rows, changed, strict=True):
        assert (view.test, view.quantity) == (words.name(row), row.quantity)
        assert (view.values, view.change, view.p) == (words.values(row), words.change(row), words.p_value(row))
    assert _VIEW.rows[0].outcome == "regression"


def test_unchanged_rows_are_counted_and_kept() -> None:
    """They are folded on the page."""
    heading, rows = _VIEW.unchanged
    assert heading == words.unchanged(_COMPARED.comparison)
    assert heading.startswith(f"{len(rows)} unchanged")
