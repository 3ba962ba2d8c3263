"""JSON types in and out: figures made plain, and fields read with errors that name them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TypeAlias

from pytest_quant.errors import HistoryError, UsageError
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


class Reader:
    """The fields of one JSON object. Every method raises `HistoryError` when a value is not what it must be."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise _wrong(where, data, "an object")
        self._data = data
        self._where = where

    def _value(self, name: str) -> tuple[object, str]:
        return self._data.get(name), f"{self._where}.{name}"

    def get(self, name: str) -> object:
        """Whatever it is; ``None`` when it is missing."""
        return self._data.get(name)

    def number(self, name: str) -> float | None:
        """A number or null."""
        return _number(*self._value(name))

    def limit(self, name: str) -> float | None:
        """A number or null; a whole number stays one, since a limit is written as its mark has it."""
        value, where = self._value(name)
        found = _number(value, where)
        return value if isinstance(value, int) else found

    def need_number(self, name: str) -> float:
        """A number."""
        found = self.number(name)
        if found is None:
            raise _wrong(f"{self._where}.{name}", None, "a number")
        return found

    def integer(self, name: str) -> int | None:
        """A whole number or null."""
        value, where = self._value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(where, value, "a whole number or null")
        return value

    def need_integer(self, name: str) -> int:
        """A whole number."""
        found = self.integer(name)
        if found is None:
            raise _wrong(f"{self._where}.{name}", None, "a whole number")
        return found

    def text(self, name: str) -> str | None:
        """A text or null."""
        value, where = self._value(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(where, value, "a text or null")
        return value

    def need_text(self, name: str) -> str:
        """A text."""
        found = self.text(name)
        if found is None:
            raise _wrong(f"{self._where}.{name}", None, "a text")
        return found

    def flag(self, name: str) -> bool:
        """True or false; false when it is missing."""
        value, where = self._value(name)
        if value is not None and not isinstance(value, bool):
            raise _wrong(where, value, "true or false")
        return bool(value)

    def interval(self, name: str) -> Interval | None:
        """Two numbers ``[low, high]`` or null."""
        if self.is_null(name):
            return None
        numbers = self.numbers(name)
        if len(numbers) != 2:
            raise _wrong(f"{self._where}.{name}", list(numbers), "[low, high]")
        return Interval(*numbers)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers; empty when it is missing."""
        found = [_number(item, f"{self._where}.{name}[{index}]") for index, item in enumerate(self.items(name))]
        known = tuple(number for number in found if number is not None)
        if len(known) != len(found):
            raise _wrong(f"{self._where}.{name}", found, "a list of numbers")
        return known

    def is_null(self, name: str) -> bool:
        """Whether it is null or missing."""
        return self._data.get(name) is None

    def items(self, name: str) -> list[object]:
        """A list; empty when it is missing."""
        value, where = self._value(name)
        if value is not None and not isinstance(value, list):
            raise _wrong(where, value, "a list")
        return value or []

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when it is missing."""
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise _wrong(f"{self._where}.{name}", items, "a list of texts")
        return tuple(str(item) for item in items)

    def child(self, name: str) -> Reader | None:
        """An object or null."""
        value, where = self._value(name)
        return None if value is None else Reader(value, where)

    def need_child(self, name: str) -> Reader:
        """An object."""
        return Reader(*self._value(name))

    def children(self, name: str) -> list[Reader]:
        """A list of objects; empty when it is missing."""
        return [Reader(item, f"{self._where}.{name}[{index}]") for index, item in enumerate(self.items(name))]

    def children_by_name(self, name: str) -> dict[str, Reader]:
        """An object of objects; empty when it is missing."""
        child = self.child(name)
        return {} if child is None else {key: child.need_child(key) for key in child.names()}

    def text_by_name(self, name: str) -> dict[str, str]:
        """An object of texts; empty when it is missing."""
        child = self.child(name)
        return {} if child is None else {key: child.need_text(key) for key in child.names()}

    def names(self) -> list[str]:
        """The names of all fields, in their order."""
        return list(self._data)


def _number(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(where, value, "a number or null")
    # JSON of other origin may hold NaN, infinity, and whole numbers that no float reaches.
    if not abs(value) <= sys.float_info.max:
        raise _wrong(where, value, "a finite number or null")
    return float(value)


def _wrong(where: str, value: object, allowed: str) -> HistoryError:
    return HistoryError(
        f"a record cannot be read: {where} is not what it must be",
        value=repr(value)[:80],
        allowed=allowed,
        fix="import only files that pytest-quant wrote, unchanged",
    )
