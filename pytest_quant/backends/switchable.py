"""A quantized model as a float graph in which every rounding is switchable, so that a question about it is a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.feeds import Feeds, Outputs

Node = TypeVar("Node")


class Range(NamedTuple):
    """The smallest and the largest value that integers stand for, or that a tensor has."""

    low: float
    high: float


def scale_of(found: Range, least: int, most: int, *, symmetric: bool) -> tuple[float, int]:
    """Return scale and zero point whose integers reach over a range, 0 included.

    Parameters
    ----------
    least, most : of the integers.
    symmetric : as far below 0 as above, so that the zero point is 0.
    """
    low, high, tiny = min(found.low, 0.0), max(found.high, 0.0), float(np.finfo(np.float32).tiny)
    if symmetric:
        return max(-low, high, tiny) / most, 0
    scale = max((high - low) / (most - least), tiny)
    return scale, int(np.clip(np.rint(least - low / scale), least, most))


def find_nearest(
    nodes: Iterable[Node], is_product: Callable[[Node], bool], beyond: Callable[[Node], Iterable[Node]]
) -> list[Node]:
    """Return the products that fewest other operators lie before, from `nodes` on, `beyond` which others lie."""
    while nodes := list({id(node): node for node in nodes}.values()):
        if found := [node for node in nodes if is_product(node)]:
            return found
        nodes = [each for node in nodes for each in beyond(node)]
    return []


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
