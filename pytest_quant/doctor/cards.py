"""The GPUs of a machine as its health shows them: every card and instance, and CUDA's name for those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_quant.environment.gpu import Gpu, cuda_gpus, find_gpus

_ORDER_FIX = "set CUDA_VISIBLE_DEVICES to the UUID of one"


@dataclass(frozen=True, slots=True)
class CardState:
    """One card, or an instance of a split one (MIG).

    Attributes
    ----------
    cuda : CUDA's name in this process, ``cuda:0``; empty where CUDA does not have it.
    sm : compute capability as ``SM90``; empty where the driver does not tell.
    memory_mb : 10^6 bytes; ``None`` where it has no memory of its own.
    """

    cuda: str
    name: str
    sm: str
    memory_mb: float | None
    uuid: str
    driver: str


@dataclass(frozen=True, slots=True)
class Cards:
    """All of them, those that CUDA has first; `trouble` says why it has none, or why nothing tells which it has."""

    states: tuple[CardState, ...]
    trouble: str = ""
    fix: str = ""


def find_cards() -> Cards:
    """Return the GPUs of this machine; none, and no trouble, where there are none."""
    cards = find_gpus()
    if not cards:
        return Cards(())
    seen = cuda_gpus()
    named = [_state(gpu, f"cuda:{place}") for place, gpu in enumerate(seen.gpus)]
    states = (*named, *_others(cards, seen.gpus))
    return Cards(states, seen.reason, _ORDER_FIX if seen.reason else "")


def _others(cards: tuple[Gpu, ...], seen: tuple[Gpu, ...]) -> Iterator[CardState]:
    """Yield the cards that CUDA has neither as a whole nor in parts."""
    known = {gpu.card or gpu.uuid for gpu in seen}
    yield from (_state(gpu, "") for gpu in cards if gpu.uuid not in known)


def _state(gpu: Gpu, cuda: str) -> CardState:
    return CardState(cuda, gpu.name, gpu.sm or "", gpu.memory_mb, gpu.uuid, gpu.driver)
