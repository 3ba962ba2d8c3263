"""Figures as text, and tables of them."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

NOT_MEASURED = "-"
_MAX_DECIMALS = 8
_WIDE, _LARGE, _SMALL = 1e5, 1e7, 1e-5
"""Figures whose largest is so many times the least, or that are so large or small, are written with exponents."""

GAP = "  "
"""What stands between two columns."""


def shorten(text: str, limit: int) -> str:
    """Return `text`, with its middle left out when it is longer than `limit` characters."""
    if len(text) <= limit or limit < 5:
        return text
    head = (limit - 3) // 2
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"


def figure(value: float | None, digits: int = 4) -> str:
    """Return a figure with so many significant digits; ``-`` when it was not measured."""
    if value is None:
        return NOT_MEASURED
    return f"{value:.0f}" if abs(value) >= 10**digits - 0.5 else f"{value + 0.0:.{digits}g}"


def points(value: float | None) -> str:
    """Return a percentage with two decimals, or with more where two would say 0 or 100 and it is neither."""
    if value is None:
        return NOT_MEASURED
    if 0.0 < abs(value) < 0.005:
        return f"{value:.2g}"
    if 99.995 <= abs(value) < 100.0:
        return f"{value:.8g}"
    return f"{value + 0.0:.2f}"


def decimals(values: Iterable[float], *, full: float | None = None) -> int | None:
    """Return the decimals that suit all `values` of a column; ``None`` for figures with exponents.

    The largest has four significant digits and the least two or more. Shares have two decimals, or as many as show that
    one is neither 0 nor the whole where it is not.

    Parameters
    ----------
    full : the whole of a share: 100 for percentages, 1 for a cosine; ``None`` for other figures.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if full is not None and (not sizes or max(sizes) < _LARGE):
        hiding = (d for d in range(2, _MAX_DECIMALS) if any(_hides(size, d, full) for size in sizes))
        return max(hiding, default=1) + 1
    if not sizes:
        return 0
    least, largest = min(sizes), max(sizes)
    if largest / _WIDE > least or largest >= _LARGE or least < _SMALL:
        return None
    return max(0, 3 - math.floor(math.log10(largest)), 1 - math.floor(math.log10(least)))


def _hides(size: float, digits: int, full: float) -> bool:
    return any(size != bound and float(f"{size:.{digits}f}") == bound for bound in (0.0, full))


def fixed(value: float | None, digits: int | None) -> str:
    """Return a figure with so many decimals, or with an exponent for ``None``; ``-`` when it was not measured."""
    if value is None:
        return NOT_MEASURED
    if digits is None:
        return f"{value + 0.0:.3e}"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def in_unit(value: float | None, unit: str | None) -> str:
    """Return a score or a drop with the digits that suit its unit; the unit itself is left out."""
    return points(value) if unit == "%" else figure(value)


def count(number: int, noun: str) -> str:
    """Return ``1 check`` or ``2 checks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def letter(number: int) -> str:
    """Return A, B, .. Z, A1, B1, .. for the numbers from 0 on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


@dataclass(frozen=True, slots=True)
class Cell:
    """A text in a line of a table.

    Attributes
    ----------
    style : as rich writes it, ``bold red``; padding has none.
    span : how many neighbouring columns it takes the place of, from whose left it starts; ``None`` for a cell that
        stands in its column as others do.
    """

    text: str
    style: str = ""
    span: int | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the columns of a table stand.

    Attributes
    ----------
    sizes : of each column, in cells of the terminal: a wide character takes two.
    right : the columns, counted from 0, whose texts end below each other, as figures do; texts of others begin so.
    """

    sizes: tuple[int, ...]
    right: frozenset[int] = frozenset()

    @classmethod
    def around(cls, rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Grid:
        """Return columns as wide as their widest text in `rows`."""
        return cls(tuple(max(map(cell_len, texts)) for texts in zip(*rows, strict=True)), frozenset(right))

    def width(self, first: int = 0, after: int | None = None) -> int:
        """Return how many cells of the terminal a line takes, or its columns from `first` to the one before `after`."""
        return width_of(self.sizes[first:after])

    def line(self, cells: Iterable[str | Cell], first: int = 0) -> Text:
        """Return one line of the table, without blanks at its end; its cells begin with the column `first`."""
        joined = Text.assemble(*self._pieces(cells, first))
        joined.rstrip()
        return joined

    def plain(self, cells: Iterable[str | Cell]) -> str:
        """Return what `line` does, without styles: ten times as fast, for tables of thousands of lines."""
        return "".join(text for text, _ in self._pieces(cells, 0)).rstrip()

    def _pieces(self, cells: Iterable[str | Cell], first: int) -> Iterator[tuple[str, str]]:
        place = first
        for cell in cells:
            one = Cell(cell) if isinstance(cell, str) else cell
            if place > first:
                yield GAP, ""
            after = place + (one.span or 1)
            blank = " " * (self.width(place, after) - cell_len(one.text))
            to_the_right = one.span is None and place in self.right
            yield from ((blank, ""), (one.text, one.style)) if to_the_right else ((one.text, one.style), (blank, ""))
            place = after


def width_of(sizes: Sequence[int]) -> int:
    """Return how many cells of the terminal columns of these sizes take, with the gaps between them."""
    return sum(sizes) + len(GAP) * max(0, len(sizes) - 1)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the rows as lines of one table; the columns `right`, counted from 0, end below each other."""
    grid = Grid.around(rows, right)
    return [grid.plain(row) for row in rows]


def printed(lines: Iterable[Text], color: bool) -> list[str]:
    """Return the lines as they go to a terminal, with ANSI escapes for their styles where `color` is set."""
    if not color:
        return [line.plain for line in lines]
    # Without a width of its own the console would wrap and measure; this only turns styles into escapes.
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    shown = []
    for line in lines:
        with console.capture() as captured:
            console.print(line, end="", soft_wrap=True, markup=False, highlight=False)
        shown.append(captured.get())
    return shown
