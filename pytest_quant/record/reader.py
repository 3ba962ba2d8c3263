"""Reading JSON that may hold anything, with errors that name the field."""

from __future__ import annotations

import sys

from pytest_quant.errors import HistoryError
from pytest_quant.result import Interval


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
