"""The JSON form of a dataclass, as a type that msgspec checks: an object with its fields, derived and never restated.

Three things differ from the fields. Rows with a name of their own are an object by that name, an `Interval` is
``[low, high]``, and no number is NaN or infinite. A field that may be ``None`` and is missing is ``None``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from pytest_quant.result import Interval, OpCoverage, OutputError

BY_NAME: Mapping[type, str] = {OpCoverage: "op_type", OutputError: "name"}
"""Rows that are written as an object, by this field of theirs."""

FINITE = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A number of JSON; what others write may hold NaN, infinity, and whole numbers that no float reaches."""


@cache
def form_of(kind: type) -> type[msgspec.Struct]:
    """Return the form of a dataclass, which may hold itself, and other dataclasses that do not hold it."""
    types = get_type_hints(kind)
    written = [field for field in fields(kind) if field.name != BY_NAME.get(kind)]
    as_list = kind is Interval
    form = msgspec.defstruct(
        kind.__name__,
        [(field.name, Any, _default(field, types[field.name])) for field in written],
        kw_only=not as_list,
        array_like=as_list,
        forbid_unknown_fields=as_list,
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
