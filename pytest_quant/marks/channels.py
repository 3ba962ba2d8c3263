"""The key `channels`: groups of channels within outputs of mixed meaning."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.errors import UsageError
from pytest_quant.spec import ChannelGroup

_AXIS = "axis"
_EXAMPLE = "write channels={'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}}"


def read_channels(value: object | None) -> tuple[ChannelGroup, ...]:
    """Read the key; which outputs there are and how many channels they have, the model tells."""
    if value is None:
        return ()
    if not isinstance(value, dict) or not value:
        raise UsageError("channels must be a dict by output", value=repr(value), fix=_EXAMPLE)
    return tuple(group for output, groups in value.items() for group in _of_output(output, groups))


def _of_output(output: object, groups: object) -> Iterator[ChannelGroup]:
    if not isinstance(output, str) or not output:
        raise UsageError("channels has a key that is no output's name", value=repr(output), fix=_EXAMPLE)
    where = f"channels[{output!r}]"
    if not isinstance(groups, dict) or not set(groups) - {_AXIS}:
        raise UsageError(f"{where} must be a dict with a range for each group", value=repr(groups), fix=_EXAMPLE)
    axis = groups.get(_AXIS, 1)
    if isinstance(axis, bool) or not isinstance(axis, int) or axis == 0:
        raise UsageError(
            f"{where} has an axis that holds no channels",
            value=repr(axis),
            allowed="a whole number: 1 is the first axis after that of the samples, -1 the last",
        )
    for name, limits in groups.items():
        if name == _AXIS:
            continue
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where} has a group without a name", value=repr(name), fix=_EXAMPLE)
        first, end = _range(f"{where}[{name!r}]", limits)
        yield ChannelGroup(output, name, axis, first, end)


def _range(where: str, value: object) -> tuple[int, int | None]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        first, end = value
        if _is_count(first) and (end is None or (_is_count(end) and end > first)):
            return first, end
    raise UsageError(
        f"{where} must be a range of channels",
        value=repr(value),
        allowed="(first, end): the first channel from 0, and the one after the last, or None for all that follow",
        fix=_EXAMPLE,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
