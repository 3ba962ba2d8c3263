"""Figures and foreign names as text that is safe to print."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from pytest_quant.result import Interval

NOT_MEASURED = "-"
_MAX_DECIMALS = 8
_WIDE, _LARGE, _SMALL = 1e5, 1e7, 1e-5
"""Figures whose largest is so many times the least, or that are so large or small, are written with exponents."""


_FIGURE = re.compile(r"(?:(?<![\w.])|(?<=\bx))-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""A number that is no part of a name: 1.9 in ``x1.9``, none in ``int8`` or ``p99``."""
_SAME = 1e-3
"""Two texts of one figure, with as many digits as suits each, differ by less than this share."""


def clean(text: str) -> str:
    """Return `text` on one line, with every character that a terminal would act upon as its escape.

    Names come from users, files and models; an escape sequence or a direction override in them must show.
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


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


def interval(span: Interval | None, unit: str | None = None) -> str:
    """Return ``[low, high]``; empty when there is none."""
    return "" if span is None else f"[{in_unit(span.low, unit)}, {in_unit(span.high, unit)}]"


def holds(text: str, *figures: float | None) -> bool:
    """Tell whether `text` says all these figures, with however many digits; one that was not measured is never said."""
    said = [float(number) for number in _FIGURE.findall(text)]
    return all(value is not None and any(math.isclose(one, value, rel_tol=_SAME) for one in said) for value in figures)


def count(number: int, noun: str) -> str:
    """Return ``1 check`` or ``2 checks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
