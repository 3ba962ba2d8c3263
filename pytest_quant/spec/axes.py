"""Which axis counts samples, as a user says it of a dataset or a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pytest_quant.errors import UsageError

BatchAxes: TypeAlias = tuple[tuple[str, int | None], ...]
"""Axes by the name of an input or an output; ``None`` for one whose axes count no samples."""


def read_batch_axes(owner: str, given: Mapping[str, int | None] | None) -> BatchAxes:
    """Return `given` as pairs. Raises `UsageError` for anything but a dict of axes; `owner` is who was given it."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{owner}: batch_axes is a dict by the name of an input or output",
            value=repr(given),
            fix="write batch_axes={'state': 1}, and None for one that no axis of counts samples",
        )
    for name, axis in given.items():
        is_axis = axis is None or (isinstance(axis, int) and not isinstance(axis, bool) and axis >= 0)
        if not isinstance(name, str) or not is_axis:
            raise UsageError(
                f"{owner}: batch_axes has an entry that names no axis",
                value=f"{name!r}: {axis!r}",
                allowed="a name with a whole number from 0, or None",
                fix="write batch_axes={'state': 1}",
            )
    return tuple(given.items())
