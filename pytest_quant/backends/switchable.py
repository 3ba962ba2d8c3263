"""A quantized model as a float graph in which every rounding is switchable, so that a question about it is a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from numpy.typing import NDArray

from pytest_quant.backends.feeds import Feeds, Outputs


class Range(NamedTuple):
    """The smallest and the largest value that integers stand for, or that a tensor has."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Site:
    """One tensor that is rounded.

    Attributes
    ----------
    tensor : its name in the graph.
    nodes : products of the user's model that make it or read it, in the order of the model.
    is_weight : whether it is constant.
    range : of its integers; ``None`` where that differs by channel, or is found in each run.
    """

    tensor: str
    nodes: tuple[str, ...]
    is_weight: bool
    range: Range | None = None


class SwitchableGraph(ABC):
    """All sites of one engine; off all of them it is the float model, on all of them the engine without its kernels.

    Attributes
    ----------
    sites : in the order of the graph.
    unseen : what of the engine's rounding has no switch, in words; empty where all has.
    bits : of the integers.
    """

    sites: tuple[Site, ...]
    unseen: str = ""
    bits: int = 8

    @abstractmethod
    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Run one batch with the sites `off` in float, by their places, and other `ranges` for some."""

    @abstractmethod
    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return what each site that has a range holds over one batch of the float model."""

    @abstractmethod
    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return what these sites hold over one batch of the float model, before rounding and after."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything native."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
