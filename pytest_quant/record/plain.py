"""Figures of any origin become plain JSON types, or a clear error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TypeAlias

from pytest_quant.errors import UsageError
from pytest_quant.result import Interval

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_SHOWN = 80


def plain(value: object, where: str) -> Json:
    """Return `value` in the exact types that JSON and the transport of pytest-xdist know.

    NaN and infinity become ``None``, a numpy scalar the Python number it holds, an `Interval` ``[low, high]`` when
    both are finite, another dataclass a dict of its fields, a lone surrogate in a text its escape. `where` names
    the figure.

    Raises
    ------
    UsageError : `value` is something else, an array for example.
    """
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        # Exact types only: xdist sends no subclasses, which status words and numpy texts are.
        return str.encode(value, "utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Interval):
        low, high = plain(value.low, where), plain(value.high, where)
        return None if low is None or high is None else [low, high]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), f"{where}.{field.name}") for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(str(key), where)): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        # Most of a record is lists of numbers, and naming each of them would take longer than all else.
        return [
            item if type(item) is float and math.isfinite(item) else plain(item, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
    return _scalar(value, where)


def _scalar(value: object, where: str) -> Json:
    """Unwrap a zero-dimensional array, of numpy or torch, without importing either."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        number = item()
        if isinstance(number, (bool, int, float, str)):
            return plain(number, where)
    shown = repr(value)
    raise UsageError(
        f"{where} cannot be kept: it is neither a number nor a text",
        value=f"{type(value).__module__}.{type(value).__name__} {shown[:_MAX_SHOWN]}",
        allowed="int, float, str, bool, None, and lists and dicts of them",
        fix="let the metric or backend return float(value)",
    )
