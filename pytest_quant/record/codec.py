"""Frozen dataclasses <-> JSON: encoded by what they hold, decoded and checked by the types of their fields.

The JSON form of a dataclass is a type that msgspec checks: an object with its fields, derived and never restated. Three
things differ from the fields. Rows with a name of their own are an object by that name, an `Interval` is
``[low, high]`` and a `ClassScore` such a list too, and no number is NaN or infinite. A field that may be ``None`` and
is missing is ``None``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import EnumMeta
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from pytest_quant.errors import HistoryError, UsageError, nearest
from pytest_quant.record.record import Record
from pytest_quant.result import ClassScore, Interval, OpCoverage, OutputError

BY_NAME: Mapping[type, str] = {OpCoverage: "op_type", OutputError: "name"}
"""Rows that are written as an object, by this field of theirs."""

AS_LIST = (Interval, ClassScore)
"""Written as a list of their values, in the order of their fields: their names would take more room than these."""

FINITE = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A number of JSON; what others write may hold NaN, infinity, and whole numbers that no float reaches."""


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

T = TypeVar("T")

_MAX_SHOWN = 80

_ALLOWED = {int: "a whole number", str: "a text", bool: "true or false"}


@cache
def form_of(kind: type) -> type[msgspec.Struct]:
    """Return the form of a dataclass, which may hold itself, and other dataclasses that do not hold it."""
    types = get_type_hints(kind)
    written = [field for field in _kept(kind) if field.name != BY_NAME.get(kind)]
    as_list = kind in AS_LIST
    form = msgspec.defstruct(
        kind.__name__,
        [(field.name, Any, _default(field, types[field.name])) for field in written],
        kw_only=not as_list,
        array_like=as_list,
        # Later versions may add values to a row; an interval is two numbers.
        forbid_unknown_fields=kind is Interval,
    )
    # Filled in now that the form itself can be named; msgspec reads them when it is first used.
    form.__annotations__ = {field.name: _form(types[field.name], {kind: form}) for field in written}
    return form


def _default(field: Any, declared: Any) -> Any:
    if field.default is not MISSING:
        # An object that is not written is empty, as a list is.
        return {} if field.default == () and _rows(declared) in BY_NAME else field.default
    if field.default_factory is not MISSING:
        return msgspec.field(default_factory=field.default_factory)
    return None if NoneType in get_args(declared) else msgspec.NODEFAULT


def _form(declared: Any, known: Mapping[type, type[msgspec.Struct]]) -> Any:
    """Return the form of a declared type; `known` are forms that are still being made."""
    if declared is float:
        return FINITE
    if isinstance(declared, type) and is_dataclass(declared):
        return known.get(declared) or form_of(declared)
    origin, parts = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return Union[tuple(_form(part, known) for part in parts)]  # noqa: UP007 - made of any number of parts
    if origin is tuple and parts[0] in BY_NAME:
        return dict[str, _form(parts[0], known)]  # type: ignore[misc]
    if origin is tuple:
        return tuple[_form(parts[0], known), ...]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, _form(parts[1], known)]  # type: ignore[misc]
    return declared


@cache
def nested(kind: type) -> Mapping[str, type]:
    """Return the fields of a dataclass that hold another one, or many of it, each with its type."""
    found = {name: _rows(declared) for name, declared in get_type_hints(kind).items()}
    return {name: inner for name, inner in found.items() if isinstance(inner, type) and is_dataclass(inner)}


def _rows(declared: Any) -> Any:
    """Return the type of one row where it is a list of them, ``None`` left out."""
    (known, *_) = [part for part in get_args(declared) if part is not NoneType] or [declared]
    if get_origin(declared) in (Union, UnionType):
        return _rows(known)
    return known if get_origin(declared) is tuple else declared


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record and its JSON, which are equal: neither has to be made of the other again."""

    record: Record
    json: dict[str, Json]


def encoded(record: Record | Encoded) -> Encoded:
    """Return `record` with its JSON, which is made where there is none yet. Raises what `to_json` raises."""
    return record if isinstance(record, Encoded) else Encoded(record, to_json(record))


def to_json(record: Record) -> dict[str, Json]:
    """Return `record` in plain JSON types; it survives ``json.dumps(..., allow_nan=False)``.

    Raises
    ------
    UsageError : a figure is neither a number nor a text; the message names it.
    """
    return cast(dict[str, Json], plain(record, "record"))


def from_json(data: object) -> Record:
    """Return the record that `to_json` wrote; fields that are not known are ignored.

    Raises
    ------
    HistoryError : a field is missing or has the wrong type; the message names it.
    """
    return decode(Record, data, "check")


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
    if isinstance(value, AS_LIST):
        values = [plain(getattr(value, field.name), where) for field in fields(value)]
        return None if isinstance(value, Interval) and None in values else values
    if is_dataclass(value) and not isinstance(value, type):
        names, keys = _written(type(value))
        data = {name: plain(getattr(value, name), f"{where}.{name}") for name in names}
        for name, key in keys.items():
            data[name] = {str(row.pop(key)): row for row in cast(list[dict[str, Json]], data[name])}
        return data
    if isinstance(value, Mapping):
        return {str(plain(str(key), where)): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        # Most of a record is lists of numbers, and naming each of them would take longer than all else.
        return [
            item if type(item) is float and math.isfinite(item) else plain(item, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
    return _scalar(value, where)


@cache
def _written(kind: type) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the fields of a dataclass, and the key of the rows in those that are written as an object."""
    keys = {name: BY_NAME[inner] for name, inner in nested(kind).items() if inner in BY_NAME}
    return tuple(field.name for field in _kept(kind)), keys


def _kept(kind: type) -> list[Field[Any]]:
    """Return the fields of a dataclass that are written: all but those whose metadata says otherwise."""
    return [field for field in fields(kind) if field.metadata.get("kept", True)]


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


_UNFIT = (msgspec.ValidationError, UnicodeEncodeError)
"""What msgspec raises: the second for half a character, which JSON can write and no text holds."""


def decode(kind: type[T], data: object, where: str) -> T:
    """Return the dataclass `kind` that `plain` wrote as `data`; fields that are not known are ignored.

    Parameters
    ----------
    kind : a dataclass; its fields hold what JSON has, enumerations and further dataclasses.
    data : JSON as Python's `json` module reads it, of any content.
    where : what messages call it.

    Raises
    ------
    HistoryError : a field is missing or has the wrong type; the message names it.
    """
    form = form_of(cast(type, kind))
    try:
        found: T = _lift(kind, msgspec.convert(data, form))
    except _UNFIT as error:
        raise _fault(form, data, where) from error
    return found


def _lift(kind: Any, form: msgspec.Struct, **given: str) -> Any:
    """Return the dataclass that `form` holds the fields of, but for those that are `given`."""
    values = {name: getattr(form, name) for name in form.__struct_fields__}
    for name, inner in nested(kind).items():
        found = values[name]
        if isinstance(found, dict):
            values[name] = tuple(_lift(inner, row, **{BY_NAME[inner]: key}) for key, row in found.items())
        elif isinstance(found, tuple):
            values[name] = tuple(_lift(inner, row) for row in found)
        elif found is not None:
            values[name] = _lift(inner, found)
    return kind(**values, **given)


def _fault(form: Any, data: object, where: str) -> HistoryError:
    """Return the error that names the first part of `data` that is not what `form` allows."""
    choices = get_args(form) if get_origin(form) in (Union, UnionType) else (form,)
    known = [choice for choice in choices if choice is not NoneType]
    for part, value, place in _parts(known[0], data, where):
        try:
            msgspec.convert(value, part)
        except _UNFIT:
            return _fault(part, value, place)
    words = [_allowed(choice, data) for choice in known] + ["null"] * (len(choices) > len(known))
    return HistoryError(
        f"a record cannot be read: {where} is not what it must be",
        value=repr(data)[:_MAX_SHOWN],
        allowed=" or ".join(words),
        fix="import only files that pytest-quant wrote, unchanged",
    )


def _parts(form: Any, data: object, where: str) -> Iterator[tuple[Any, object, str]]:
    """Give each part that an object or a list of `form` must have or has: its own form, its value and its name."""
    of_fields = isinstance(form, type) and issubclass(form, msgspec.Struct) and not _is_list(form)
    if isinstance(data, dict) and of_fields:
        for field in msgspec.structs.fields(form):
            if field.required or field.name in data:
                yield field.type, data.get(field.name), f"{where}.{field.name}"
    elif isinstance(data, dict) and get_origin(form) is dict:
        for key, value in data.items():
            yield get_args(form)[1], value, f"{where}.{key}"
    elif isinstance(data, list) and get_origin(form) is tuple:
        for index, value in enumerate(data):
            yield get_args(form)[0], value, f"{where}[{index}]"


def _is_list(form: Any) -> bool:
    """Whether it is the form of a dataclass that is written as a list."""
    return isinstance(form, type) and issubclass(form, msgspec.Struct) and form.__struct_config__.array_like


def _allowed(form: Any, data: object) -> str:
    if isinstance(form, EnumMeta):
        return nearest(data, form.__members__) if isinstance(data, str) else f"one of {', '.join(form.__members__)}"
    if form == FINITE:
        return "a finite number" if type(data) in (int, float) else "a number"
    if get_origin(form) is tuple:
        return "a list"
    if _is_list(form):
        return f"[{', '.join(form.__struct_fields__)}]"
    return _ALLOWED.get(form, "an object")
