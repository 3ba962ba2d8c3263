"""An output cut into groups of its channels, each of which is compared by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics.metric import Array
from pytest_quant.spec import ChannelGroup


def add_groups(outputs: Mapping[str, Array], channels: Sequence[ChannelGroup]) -> dict[str, Array]:
    """Return `outputs` (n, ...) together with each group of `channels`, by name.

    Raises
    ------
    UsageError : the output of a group does not exist, a group has the name of an output or does not fit its shape, or
        channels are in no group.
    """
    named = dict(outputs)
    for name in dict.fromkeys(group.output for group in channels):
        if name not in outputs:
            raise UsageError(
                f"channels names an output '{name}', which the model does not have", allowed=nearest(name, outputs)
            )
        for group, part in split(outputs[name], [group for group in channels if group.output == name]):
            if group.name in outputs:
                raise UsageError(
                    f"channels calls a group '{group.group}', and '{group.name}' is an output of the model",
                    fix="give the group another name",
                )
            named[group.name] = part
    return named


def split(output: Array, groups: Sequence[ChannelGroup]) -> list[tuple[ChannelGroup, Array]]:
    """Return a view (n, ...) of `output` (n, ...) for each of its `groups`; together they cover all channels.

    Raises
    ------
    UsageError : a group does not fit the shape, or channels are in no group, so that no limit would apply to them.
    """
    parts, ranges = [], []
    shape = f"({', '.join(['n', *map(str, output.shape[1:])])})"
    for group in groups:
        axis = group.axis % output.ndim if -output.ndim < group.axis < output.ndim else 0
        if axis == 0:
            raise UsageError(
                f"channels: output '{group.output}' has no axis {group.axis} of channels",
                value=f"shape {shape}",
                allowed="an axis after the axis of samples, which is 0",
            )
        end = output.shape[axis] if group.end is None else group.end
        if not group.first < end <= output.shape[axis]:
            raise UsageError(
                f"channels: group '{group.group}' goes beyond output '{group.output}'",
                value=f"({group.first}, {group.end}) on axis {axis} of shape {shape}",
                allowed=f"0 to {output.shape[axis]}",
            )
        parts.append((group, output[(slice(None),) * axis + (slice(group.first, end),)]))
        ranges.append((group.first, end))
    size = output.shape[axis]
    for start in (0, *(end for _, end in ranges)):
        if start < size and not any(first <= start < end for first, end in ranges):
            end = min((first for first, _ in ranges if first > start), default=size)
            raise UsageError(
                f"channels: output '{groups[0].output}' has channels that are in no group",
                value=f"{start} to {end} of {size}",
                fix=f"name them too: 'rest': ({start}, {end})",
            )
    return parts
