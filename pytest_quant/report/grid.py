"""The one renderer of tables: columns that stand below each other, whatever characters their texts are made of."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GAP = "  "
"""What stands between two columns."""


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
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False)
    found = []
    for line in lines:
        with console.capture() as captured:
            console.print(line, end="", soft_wrap=True, markup=False, highlight=False)
        found.append(captured.get())
    return found
