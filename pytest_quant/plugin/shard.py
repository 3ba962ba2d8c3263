"""A run as one of several shards, as pytest-split makes them, and the quant tests that it leaves to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_quant.marks import is_marked

_COLLECTED = pytest.StashKey[list[pytest.Item]]()
_LEFT = pytest.StashKey[tuple[str, ...]]()
_OF_WORKER = "quant_left_to_others"


def shard_of(config: pytest.Config) -> str | None:
    """Return ``3/8`` for the third of eight groups of pytest-split, ``None`` where the suite is not split."""
    splits, group = (config.getoption(name, None) for name in ("splits", "group"))
    return f"{group}/{splits}" if splits and group else None


class BeforeSplit:
    """Sees the tests that are left by options such as ``-k`` and ``-m``: what no shard runs is left to nobody."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remember them; pytest-split comes next, because its hook is last too, and was registered later."""
        config.stash[_COLLECTED] = list(items)


def note_split(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Remember the quant tests that the split has removed, of which `items` are left.

    A worker of xdist passes them to its controller, which collects nothing.
    """
    if _COLLECTED not in config.stash:
        return
    here = {id(item) for item in items}
    # Here, because a run without a quant test needs none of it.
    from pytest_quant.plugin.collect import nodeid_of

    left = [item for item in config.stash[_COLLECTED] if id(item) not in here and is_marked(item)]
    nodeids = config.stash[_LEFT] = tuple(map(nodeid_of, left))
    getattr(config, "workeroutput", {})[_OF_WORKER] = list(nodeids)


def from_worker(config: pytest.Config, output: Mapping[str, object]) -> None:
    """Remember what a worker has left to other shards; all workers of a run have left the same."""
    left = output.get(_OF_WORKER)
    if isinstance(left, list):
        config.stash[_LEFT] = tuple(left)


def left_to_others(config: pytest.Config) -> tuple[str, ...] | None:
    """Return the node ids of the quant tests that this shard leaves to the others; ``None`` where it is none."""
    return config.stash.get(_LEFT, None)
