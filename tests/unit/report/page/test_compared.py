"""A comparison on the page says what its other forms say, row by row."""

from __future__ import annotations

from pytest_quant.report import comparison as words
from pytest_quant.report.comparison_document import comparison_json
from pytest_quant.report.page.compared import comparison_view
from pytest_quant.report.page.content import Figure, Pieces
from pytest_quant.report.text import joined
from tests.support.pages import at, compared

_COMPARED = compared()
_VIEW = comparison_view(_COMPARED)


def _text(pieces: Pieces) -> str:
    return joined(pieces)  # type: ignore[arg-type]


def test_the_verdict_and_the_commits_come_first() -> None:
    """In the words of the terminal."""
    assert _VIEW.word == "regression"
    assert _VIEW.verdict == words.verdict(_COMPARED.comparison, _COMPARED.ruling)
    assert _VIEW.about[0] == words.title(_COMPARED.comparison)
    assert _VIEW.why_not == ""


def test_each_changed_row_stands_in_the_words_of_the_terminal() -> None:
    """Rows of one test together, regressions first, what differs told once."""
    changed = _COMPARED.comparison.changed
    assert {row.number for row in _VIEW.rows} == {
        number for number, row in enumerate(_COMPARED.comparison.rows) if row.changed
    }
    for view in _VIEW.rows:
        row = _COMPARED.comparison.rows[view.number]
        assert row in changed
        assert _text(view.values) == words.values(row)
        assert _text(view.change) == words.change(row)
        assert _text((view.p,)) == words.p_value(row)
    assert _VIEW.rows[0].outcome == "regression"


def test_unchanged_rows_are_counted_and_kept() -> None:
    """They are folded on the page."""
    heading, rows = _VIEW.unchanged
    assert heading == words.unchanged(_COMPARED.comparison)
    assert heading.startswith(f"{len(rows)} unchanged")


def test_every_figure_is_that_of_the_comparison_s_document() -> None:
    """At the place that it names."""
    document = comparison_json(_COMPARED.comparison, _COMPARED.ruling)
    figures = 0
    for view in (*_VIEW.rows, *_VIEW.unchanged[1]):
        for piece in (*view.values, *view.change, view.p):
            if isinstance(piece, Figure):
                assert at(document, f"rows/{view.number}/{piece.field}") == piece.value
                figures += 1
    assert figures > 10
