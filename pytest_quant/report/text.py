"""Figures as text, and tables of them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len

from pytest_quant.printable import clean
from pytest_quant.record.figures import DROP, SCORE, drop_unit
from pytest_quant.result import AccuracyResult

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
    """Return a percentage with two decimals, or with more if two would say 0 or 100 and it is neither."""
    if value is None:
        return NOT_MEASURED
    if 0.0 < abs(value) < 0.005:
        return f"{value:.2g}"
    return f"{value:.8g}" if 99.995 <= abs(value) < 100.0 else f"{value + 0.0:.2f}"


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


def format_fixed(value: float | None, digits: int | None) -> str:
    """Return a figure with so many decimals, or with an exponent for ``None``; ``-`` when it was not measured."""
    if value is None:
        return NOT_MEASURED
    if digits is None:
        return f"{value + 0.0:.3e}"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def format_in_unit(value: float | None, unit: str | None) -> str:
    """Return a score or a drop with the digits that suit its unit; the unit itself is left out."""
    return points(value) if unit == "%" else figure(value)


def shown_unit(unit: str, accuracy: AccuracyResult | None) -> str:
    """Return a unit, or what stands for `SCORE` and `DROP` if `accuracy` has a metric of its own unit."""
    of_metric = accuracy.unit if accuracy else None
    return clean({SCORE: of_metric or "", DROP: drop_unit(of_metric)}.get(unit, unit))


def count(number: int, noun: str) -> str:
    """Return ``1 check`` or ``2 checks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names in one line, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def letter(number: int) -> str:
    """Return A, B, .. Z, A1, B1, .. for the numbers from 0 on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def align(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the rows as lines of one table; the columns `right`, counted from 0, end below each other."""
    sizes = [max(map(cell_len, texts)) for texts in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        texts = [pad(text, size, place in right) for place, (text, size) in enumerate(zip(row, sizes, strict=True))]
        lines.append(GAP.join(texts).rstrip())
    return lines


def pad(text: str, size: int, right: bool = False) -> str:
    """Return a text with blanks, before it if it stands at the `right`, so that it takes `size` cells of a terminal."""
    blanks = " " * (size - cell_len(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Return the lines of a text, indented, and broken between words; the following ones by two blanks more."""
    return textwrap.wrap(
        text, max(width, 20), initial_indent=indent, subsequent_indent=f"{indent}{GAP}", break_on_hyphens=False
    )
