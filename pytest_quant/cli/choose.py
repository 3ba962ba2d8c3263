"""Which run or which series the words of a command mean."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pytest_quant.errors import UsageError
from pytest_quant.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_quant.history import SeriesSummary, StoredRun
    from pytest_quant.history.store import Store


def choose(store: Store, asked: str) -> StoredRun | list[SeriesSummary]:
    """Return the series that `asked` is the key or a part of, else the run whose id begins with it.

    Every word of `asked` must occur in the series' node id, model, engine or metric.

    Raises
    ------
    UsageError : nothing is meant, or several runs; the message names the nearest.
    """
    known = store.series()
    found = _matching(known, asked)
    if found:
        return found
    try:
        return store.run(asked)
    except UsageError as error:
        raise UsageError(
            error.what,
            value=error.value,
            allowed="; ".join(part for part in (error.allowed, _nearest(known, asked)) if part) or None,
            fix=error.fix or "see: pytest-quant history --series",
        ) from error


def all_matching(store: Store, asked: str | None) -> list[SeriesSummary]:
    """Return the series that `asked` is the key or a part of, all of them for ``None``.

    Raises
    ------
    UsageError : there is none; the message names the nearest.
    """
    if asked is None:
        return list(store.series())
    found = choose(store, asked)
    if isinstance(found, list):
        return found
    raise UsageError(f"'{clean(asked)}' is a run, no series", fix="see: pytest-quant history --series")


def _matching(known: Sequence[SeriesSummary], asked: str) -> list[SeriesSummary]:
    """Return the series that `asked` may mean; one whose key it is alone."""
    exact = [summary for summary in known if asked == summary.key]
    words = asked.lower().split()
    return exact or [summary for summary in known if all(word in _text(summary).lower() for word in words)]


def _text(summary: SeriesSummary) -> str:
    parts = (summary.nodeid, summary.model, summary.engine_id, summary.metric)
    return " ".join(part for part in parts if part)


def _nearest(known: Sequence[SeriesSummary], asked: str) -> str:
    texts = [_text(summary) for summary in known]
    close = difflib.get_close_matches(asked, texts, n=3, cutoff=0.2) or texts[:3]
    return f"nearest series: {'; '.join(clean(text) for text in close)}" if close else ""
