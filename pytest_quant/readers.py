"""What users write by name: a table has one row for each key of the mark and for each option of a backend.

A row is a `Key`: its name, the `Reader` of its values, its unit and its help. If the values become a frozen
dataclass, its fields are the rows, see `row`. Entry points name metrics and backends, see `find_registered`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

from pytest_quant.errors import UsageError, nearest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """One kind of value.

    Attributes
    ----------
    allowed : the kind in words, ``an int of at least 1``.
    form : takes a name for messages and the value as written; returns the value in its one form, or ``None`` if it is
        not of this kind. It raises `UsageError` if more can be said.
    refusal : the error for a value that is not of this kind.
    listed : a list of such values may be written too.
    """

    allowed: str
    form: Callable[[str, object], T | None]
    refusal: Callable[[str, object], UsageError]
    listed: bool = False

    def read(self, name: str, value: object) -> T:
        """Return `value` in its only form. Raises `UsageError`, with `name` in its message, if it is not allowed."""
        formed = self.form(name, value)
        if formed is None:
            raise self.refusal(name, value)
        return formed


def make_reader(allowed: str, form: Callable[[object], T | None], example: str = "") -> Reader[T]:
    """Return a reader whose refusal is one sentence.

    Parameters
    ----------
    allowed : follows "must be" in that sentence.
    form : returns a value in its one form, or ``None`` if it is not allowed.
    example : a value as it is written; empty if there is none to show.
    """

    def refusal(name: str, value: object) -> UsageError:
        fix = f"write {name}={example}" if example else None
        return UsageError(f"{name} must be {allowed}", value=repr(value), fix=fix)

    return Reader(allowed, lambda _, value: form(value), refusal)


def _number(_: str, value: object) -> float | None:
    """Messages write a limit as its mark does: ``1`` stays ``1``, and ``1.0`` stays ``1.0``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or number < 0.0:
        return None
    return int(value) if isinstance(value, Integral) else number


def _number_error(name: str, value: object) -> UsageError:
    if isinstance(value, list):
        return UsageError(
            f"{name} takes one number, not a list",
            value=repr(value),
            allowed="lists of backend, precision, scheme and batch_size parametrize; limits hold for each check",
        )
    allowed = "finite and at least 0" if isinstance(value, Real) and not isinstance(value, bool) else "a number"
    return UsageError(f"{name} must be {allowed}", value=repr(value), fix=f"write {_mark_text(name, 1.0)}")


def _mark_text(name: str, value: float) -> str:
    """Return what a mark has for `value`; ``key part`` and ``key['part']`` name a part of a dict."""
    key, part, *_ = [*re.findall(r"[\w.-]+", name), ""]
    return f"{key}={{{part!r}: {value}}}" if part else f"{key}={value}"


NUMBER = Reader("a finite number of at least 0", _number, _number_error)
"""A whole number stays one, and any other becomes a float."""


def _percent(name: str, value: object) -> float | None:
    percent = _number(name, value)
    if percent is not None:
        refuse_share(name, value, percent)
    return percent


PERCENT = Reader("a number from 0 to 100", _percent, _number_error)
"""A minimum in percent; a share between 0 and 1 is a mistake that would let nearly anything pass."""


def refuse_share(name: str, value: object, percent: float) -> None:
    """Refuse a percentage written as a share, or above 100; the float 1.0 is a share, the int 1 is one percent.

    Parameters
    ----------
    name : of the key, for the message.
    value : as it was written.
    percent : the same as a float.

    Raises
    ------
    UsageError : the message says which percentage to write.
    """
    if 0.0 < percent < 1.0 or (percent == 1.0 and isinstance(value, float)):
        raise UsageError(f"{name} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {100 * percent:g}")
    if percent > 100.0:
        raise UsageError(f"{name} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {name}=100")


def accept_unit(unit: str, reader: Reader[float] = NUMBER) -> Reader[float]:
    """Return the reader that takes a text with a number and its unit as well: ``"5%"``, ``"4 ms"``.

    Parameters
    ----------
    unit : of the key; any other one is refused, and never converted.
    reader : of the number.
    """
    # These two are written right behind a number.
    example = f"5{unit}" if unit in ("%", "x") else f"5 {unit}"

    def form(name: str, value: object) -> float | None:
        written = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
        if written is None:
            return reader.form(name, value)
        digits, written_unit = written.groups()
        if written_unit != unit:
            allowed = f"a number, or one with its unit: {example!r}"
            raise UsageError(f"{name} is in {unit}", value=repr(value), allowed=allowed, fix=f"convert it to {unit}")
        number = float(digits)
        return reader.read(name, int(number) if digits.isdecimal() and math.isfinite(number) else number)

    return Reader(f"{reader.allowed}, or a text with its unit, {example!r}", form, reader.refusal)


_WITH_UNIT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.+-]\S*)\s*", re.ASCII)


def count(at_least: int = 1) -> Reader[int]:
    """Return the reader of whole numbers from `at_least` on; a truth value is none."""

    def form(_: str, value: object) -> int | None:
        if isinstance(value, bool) or not isinstance(value, Integral) or value < at_least:
            return None
        return int(value)

    def refusal(name: str, value: object) -> UsageError:
        what = f"{name} must be a whole number of at least {at_least}"
        return UsageError(what, value=repr(value), fix=f"write {_mark_text(name, at_least)}")

    return Reader(f"an int of at least {at_least}", form, refusal)


def choice_of(*choices: T, others: Mapping[str, str] | None = None) -> Reader[T]:
    """Return the reader of some values, which are compared together with their types: True is not 1.

    `others` : see `nearest`.
    """

    def form(_: str, value: object) -> T | None:
        return next((choice for choice in choices if (type(value), value) == (type(choice), choice)), None)

    def refusal(name: str, value: object) -> UsageError:
        names = [str(choice) for choice in choices]
        if not isinstance(value, str):
            return UsageError(f"{name} must be a name", value=repr(value), allowed=", ".join(sorted(names)))
        return UsageError(f"unknown {name} '{value}'", allowed=nearest(value, names, others))

    return Reader(", ".join(map(repr, choices)), form, refusal)


FLAG = choice_of(True, False)


def text(allowed: str = "a name", example: str = "'name'", pattern: str = r".*\S.*") -> Reader[str]:
    """Return the reader of texts; by default, of those that are not blank.

    Parameters
    ----------
    allowed : what is allowed, in words for the message.
    example : a value that can be written, for the message.
    pattern : regular expression that the whole text must match.
    """

    def form(value: object) -> str | None:
        return value if isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) else None

    return make_reader(allowed, form, example)


def each(reader: Reader[T]) -> Reader[tuple[T, ...]]:
    """Return the reader of one value or a list of them; doubles are left out."""

    def form(name: str, value: object) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            return (reader.read(name, value),)
        if not value:
            raise UsageError(f"{name} is an empty list", allowed="one value or several", fix=f"leave {name} out")
        return tuple(dict.fromkeys(reader.read(name, element) for element in value))

    return Reader(f"{reader.allowed}, or a list of them", form, reader.refusal, listed=True)


@dataclass(frozen=True, slots=True)
class Key:
    """A row of a table: one name that users write, and what may stand behind it.

    Attributes
    ----------
    unit : of a number, as tables write it; empty if there is none, or if another key decides it.
    help : what it means and its default, in half a sentence.
    default : what holds where nothing is written; ``None`` where that is not known.
    """

    name: str
    reader: Reader[Any]
    help: str
    unit: str = ""
    default: object = None


_ROW = "pytest_quant.key"


def row(key: Key) -> Mapping[str, Key]:
    """Return what makes the field of a dataclass a row of its table, for ``field(metadata=...)``."""
    return {_ROW: key}


def option(default: object, reader: Reader[Any], help: str) -> Any:  # noqa: A002 - as in `Key`
    """Return a field of a table with its row, which is named after the field."""
    return field(default=default, metadata=row(Key("", reader, help, default=default)))


def keys_of(table: type) -> dict[str, Key]:
    """Return the rows of a dataclass by the names of their fields, in their order."""
    rows = ((column.name, column.metadata.get(_ROW)) for column in fields(table))
    return {name: replace(key, name=name) for name, key in rows if key is not None}


def read_values(keys: Mapping[str, Key], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the `values` that are set and have a row in `keys`, each in its only form.

    Raises
    ------
    UsageError : it names the key, the value and what is allowed.
    """
    return {name: row.reader.read(name, values[name]) for name, row in keys.items() if values.get(name) is not None}


def find_registered(group: str, what: str, ours: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; loads no entry point.

    Parameters
    ----------
    group : of entry points.
    what : is registered there, a word for messages.
    ours : names that belong to this package.

    Raises
    ------
    UsageError : two packages register the same name, or one of them a name of ours.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        taken = "built in" if point.name in ours else points.setdefault(point.name, point).value
        if taken != point.value:
            raise UsageError(
                f"two packages register a {what} named '{point.name}'",
                value=f"{taken} and {point.value}",
                fix="uninstall either, or rename its entry point",
            )
    return points
