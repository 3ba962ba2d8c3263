"""Where the time of one run goes: to layers, each traced to nodes of the user's model, and to copies and compute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias, TypeVar

from pytest_quant.result import DeviceTimes

Role: TypeAlias = Literal["compute", "reformat", "copy", "other"]
"""``compute``: nodes of the model. ``reformat``: another type or layout of the same values. ``copy``: between devices.
``other``: the runtime's own, or a layer that cannot be traced to a node."""

MIN_RUNS = 10
"""Fewest runs, after warm ones, that the time of a layer is the median of."""

_WARM_RUNS = 3
_TIMED_RUNS = 21
_MS_PER_NS = 1e-6
_MAX_RUNS = 100
_ENOUGH_S = 1.0
"""Runs go on to `_MAX_RUNS` for at most so long: many profilers count whole microseconds, and short layers have few."""

Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer of an engine.

    Attributes
    ----------
    name : as the runtime spells it.
    op : its operator or type, in the runtime's words.
    precision : what it computed in, ``fp32`` or ``int8`` for example; empty where the runtime does not tell.
    ms : median milliseconds over `MIN_RUNS` warm runs or more; ``None`` where it was not measured.
    nodes : names of the nodes of the ONNX graph that became part of it, in the order of the graph; those that only
        quantize or dequantize are left out, because a float model has no counterpart of them.
    role : see `Role`.
    """

    name: str
    op: str
    precision: str
    ms: float | None
    nodes: tuple[str, ...] = ()
    role: Role = "compute"


def node_name(name: str, outputs: tuple[str, ...]) -> str:
    """Return what a node of an ONNX graph is called here: its name, or as TensorRT's parser calls it without one."""
    return name or f"node_of_{outputs[0] if outputs else ''}"


def warm_runs(run: Callable[[], Told]) -> list[Told]:
    """Call `run` until the engine is warm, then `MIN_RUNS` times or more, and return what each of those told."""
    for _ in range(_WARM_RUNS):
        run()
    until_s = time.monotonic() + _ENOUGH_S
    runs: list[Told] = []
    while len(runs) < MIN_RUNS or (len(runs) < _MAX_RUNS and time.monotonic() < until_s):
        runs.append(run())
    return runs


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median time of each layer by its name, in the order they run.

    A layer that a run does not tell took no time in it: a branch was not taken, or the profiler counts too coarsely.
    """
    names = dict.fromkeys(name for run in sorted(runs, key=len, reverse=True) for name in run)
    return {name: median(run.get(name, 0.0) for run in runs) for name in names}


def device_times(
    copy_in: Callable[[], object],
    start: Callable[[], object],
    copy_out: Callable[[], object],
    *,
    wait: Callable[[], object],
    time_ms: Callable[[Callable[[], object]], float],
    pinned: bool,
) -> DeviceTimes:
    """Take one run apart: copies and compute by the clock of the device, the way to it by the clock of the host.

    Parameters
    ----------
    copy_in, start, copy_out : put the copies of all inputs, one run over them, and the copies of all outputs into the
        engine's stream.
    wait : waits until all of that is done.
    time_ms : milliseconds that the device takes for what a function puts into the stream.
    pinned : see `DeviceTimes`.
    """
    rows = []
    for _ in range(_WARM_RUNS + _TIMED_RUNS):
        h2d_ms = time_ms(copy_in)
        began_ns = time.perf_counter_ns()
        start()
        started_ns = time.perf_counter_ns()
        wait()
        ended_ns = time.perf_counter_ns()
        rows.append((h2d_ms, time_ms(start), time_ms(copy_out), ended_ns - began_ns, started_ns - began_ns))
    h2d_ms, gpu_ms, d2h_ms, host_ns, enqueue_ns = (median(column) for column in zip(*rows[_WARM_RUNS:], strict=True))
    return DeviceTimes(
        _TIMED_RUNS,
        gpu_ms,
        h2d_ms,
        d2h_ms,
        host_ns * _MS_PER_NS,
        pinned=pinned,
        enqueue_ms=enqueue_ns * _MS_PER_NS,
    )
