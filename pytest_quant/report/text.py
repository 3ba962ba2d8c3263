"""Figures and foreign names as text that is safe to print."""

from __future__ import annotations

from pytest_quant.result import Interval

NOT_MEASURED = "-"


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


def in_unit(value: float | None, unit: str | None) -> str:
    """Return a score or a drop with the digits that suit its unit; the unit itself is left out."""
    return points(value) if unit == "%" else figure(value)


def interval(span: Interval | None, unit: str | None = None) -> str:
    """Return ``[low, high]``; empty when there is none."""
    return "" if span is None else f"[{in_unit(span.low, unit)}, {in_unit(span.high, unit)}]"


def count(number: int, noun: str) -> str:
    """Return ``1 check`` or ``2 checks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
