"""The parts that every section of a check is put together from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_quant.report.page.content import Block, Fact, Facts, Figure, Lines, Piece, Pieces, Table, TableRow
from pytest_quant.report.text import NOT_MEASURED, Shown, figure
from pytest_quant.result import Interval

_MOST_ROWS = 12


def known(value: float | None, field: str, form: Callable[[float | None], str] = figure) -> Piece:
    """Return a figure of the record as it is shown, or a dash where it was not measured.

    Parameters
    ----------
    value : the figure.
    field : its place within the section.
    form : writes it.
    """
    return NOT_MEASURED if value is None else Figure(form(value), value, field)


def around(span: Interval | None, field: str, form: Callable[[float | None], str] = figure) -> Pieces:
    """Return `` [low, high]``; nothing where there is no interval. Parameters as in `known`."""
    if span is None:
        return ()
    return " [", known(span.low, f"{field}/0", form), ", ", known(span.high, f"{field}/1", form), "]"


def measured(
    value: float | None,
    field: str,
    unit: str,
    span: Interval | None = None,
    form: Callable[[float | None], str] = figure,
) -> Pieces:
    """Return a figure with its interval and its unit; a dash where it was not measured.

    Parameters
    ----------
    value, field, form : as in `known`.
    unit : what stands behind it, but an x before it.
    span : its interval, whose place is that of the figure with ``_ci`` behind it.
    """
    if value is None:
        return (NOT_MEASURED,)
    told = (known(value, field, form), *around(span, f"{field}_ci", form))
    return ("x", *told) if unit == "x" else (*told, f" {unit}") if unit else told


def placed(pieces: Iterable[str | Shown], fields: Iterable[str]) -> Pieces:
    """Return the pieces of a text of another report, each figure with the next of the places in its document."""
    places = iter(fields)
    return tuple(Figure(one.text, one.value, next(places)) if isinstance(one, Shown) else one for one in pieces)


def whole(value: float | None) -> str:
    """Return a whole number without an exponent."""
    return NOT_MEASURED if value is None else f"{value:.0f}"


def facts(*found: tuple[str, Piece | Pieces]) -> Iterator[Block]:
    """Yield one list of all facts that say something."""
    made = [Fact(label, pieces if isinstance(pieces, tuple) else (pieces,)) for label, pieces in found]
    said = tuple(filter(_says, made))
    if said:
        yield Facts(said)


def _says(fact: Fact) -> bool:
    """Whether it has a figure, or is a text of its own: words around figures that were not measured say nothing."""
    if len(fact.pieces) == 1 and isinstance(fact.pieces[0], str):
        return fact.pieces[0] not in ("", NOT_MEASURED)
    return any(isinstance(piece, Figure) for piece in fact.pieces)


def lines(texts: Iterable[str]) -> Iterator[Block]:
    """Yield one block of all texts, if there are any."""
    told = tuple(texts)
    if told:
        yield Lines(told)


def table(
    caption: str, head: Sequence[str], rows: Sequence[TableRow], *, field: str, most: int = _MOST_ROWS
) -> Iterator[Block]:
    """Yield a table of the first `most` rows, which tells how many more there are; nothing without rows.

    Parameters
    ----------
    caption : what it is of.
    head : of its columns.
    rows : the most important first.
    field : its place within the section.
    most : rows that are shown.
    """
    if rows:
        left = len(rows) - most
        told = f"and {left} more; --quant-json FILE writes all of them" if left > 0 else ""
        yield Table(caption, tuple(head), tuple(rows[:most]), field, told)


def pointer(key: str) -> str:
    """Return the key of an object as a part of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")
