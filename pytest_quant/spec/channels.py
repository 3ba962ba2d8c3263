"""Channels of one output that mean one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """A range of channels of an output, judged as an output of its own.

    Attributes
    ----------
    output, group : the output as the graph spells it, and what the mark calls these channels of it.
    axis : the axis of the channels in the output (n, ...), whose axis 0 is the sample; never 0.
    first, end : the first channel, and the one after the last; ``None`` for all that follow.
    """

    output: str
    group: str
    axis: int
    first: int
    end: int | None

    @property
    def name(self) -> str:
        """What limits and messages call it, ``output0.scores``."""
        return f"{self.output}.{self.group}"
