"""Why a limit is broken: the stage at which the loss comes about, and what was asked to find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["changed", "export", "calibration", "range", "weights", "layer", "kernels", "none"]


_CUT_OFF, _TOO_WIDE = 0.25, 1.5
"""Of the width that samples need: what an engine's range lacks, and what it has, where it is off."""


@dataclass(frozen=True, slots=True)
class Step:
    """One question and its answer: the model with a part of the roundings, beside the model in float.

    Attributes
    ----------
    asked : what was rounded, in words.
    sqnr_db : signal to quantization noise in dB of the outputs that the broken limit is about; ``None`` if equal.
    """

    asked: str
    sqnr_db: float | None


@dataclass(frozen=True, slots=True)
class RangeRow:
    """The range of a tensor in the engine, and what evaluation samples need.

    Attributes
    ----------
    nodes : products of the user's model that make the tensor or read it.
    engine, data : (low, high), in the unit of the tensor.
    """

    nodes: tuple[str, ...]
    engine: tuple[float, float]
    data: tuple[float, float]

    @property
    def factor(self) -> float:
        """How many times as wide the engine's range is as what the samples need; 0 if that is not known."""
        width = self.data[1] - self.data[0]
        return (self.engine[1] - self.engine[0]) / width if width else 0.0

    @property
    def is_off(self) -> bool:
        """Whether the engine cuts off a quarter of what the samples need, or more, or has half as much again."""
        (low, high), (least, most) = self.engine, self.data
        lost, width = max(0.0, most - high) + max(0.0, low - least), most - least
        return low < high and (lost > _CUT_OFF * width or high - low > _TOO_WIDE * width)


@dataclass(frozen=True, slots=True)
class SiteRow:
    """What is rounded at one place, and what leaving it in float gives back.

    Attributes
    ----------
    nodes : products of the user's model that make or read it.
    kind : ``weights`` or ``activations``.
    regains_pct : of the squared error of the outputs, below 0 where the error grows.
    sqnr_db : of the tensor itself, rounded against not; ``None`` if equal.
    channel_ratio : its largest channel, by the largest magnitude, in units of the median one.
    """

    nodes: tuple[str, ...]
    kind: str
    regains_pct: float
    sqnr_db: float | None
    channel_ratio: float


@dataclass(frozen=True, slots=True)
class Cause:
    """Where the loss comes from.

    Attributes
    ----------
    stage : ``changed`` since the last PASS, ``export`` from torch, ``calibration``, one ``range``, the ``weights`` of
        a layer, a ``layer``, ``kernels``, or ``none`` of them: the error is spread.
    nodes : names of products of the user's model that make or read what is blamed.
    regains : how much of the first broken limit's figure comes back without it, in its unit; ``None`` where unknown.
    text : what is wrong, in a sentence.
    without : the figure without it, in words; empty where it was not measured.
    steps, ranges, sites : what was asked and found on the way.
    unseen : what could not be asked, each a sentence.
    """

    stage: Stage
    nodes: tuple[str, ...]
    regains: float | None
    text: str
    without: str = ""
    steps: tuple[Step, ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    sites: tuple[SiteRow, ...] = ()
    unseen: tuple[str, ...] = ()
