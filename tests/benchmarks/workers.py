"""What workers of Dask gain on this machine: ``python -m tests.benchmarks.workers [--samples N] [--turns N]``.

One process and two local workers take turns over the same engine and the same samples, and the ratio of their times
is that of each turn. A worker's engine has one thread, and so has the one process; what one process with two threads
does is shown beside it. The time of workers has their start in it, and their end.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from pytest_quant.backends import get_backend
from pytest_quant.data import Data, open_data
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.outputs import run_over
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.workers import Workers
from pytest_quant.spec import Dataset, EngineSpec, Model
from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.limits import at_least
from tests.benchmarks.yardstick import median_interval
from tests.support import models
from tests.support.measuring import leading

AT_LEAST = 1.8
CHANNELS, PIXELS, BATCH = 32, 32, 32
DEPTHS = (1, 4, 16)
SIZES = (1_000, 4_000, 16_000, 50_000)
LONGEST_S = 60.0
"""Of one process in the table of sizes; longer cells are left out, since they gain what the last one does."""


def network(path: Path, depth: int) -> Path:
    """Write a network over pictures (n, 3, 32, 32) of `depth` convolutions with 32 channels; 16 take some ms."""
    rng = np.random.default_rng(0)
    sizes = [3, *[CHANNELS] * depth]
    kernels = {f"w{layer}": rng.normal(size=(CHANNELS, sizes[layer], 3, 3)) * 0.1 for layer in range(depth)}
    nodes = " ".join(
        f"c{layer} = Conv<pads = [1, 1, 1, 1]>({f'h{layer}' if layer else 'x'}, w{layer}) h{layer + 1} = Relu(c{layer})"
        for layer in range(depth)
    )
    graph = f"""(float[n, 3, {PIXELS}, {PIXELS}] x) => (float[n, {CHANNELS}, 1, 1] y) {{
        {nodes} y = GlobalAveragePool(h{depth}) }}"""
    return models.parsed(path, graph, **{name: kernel.astype(np.float32) for name, kernel in kernels.items()})


def opened_engine(model: Path, folder: Path, threads: int, held: ExitStack) -> OpenEngine:
    """Build and open the network with so many threads."""
    backend = get_backend("ort")
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(model), options=(("threads", threads),))
    folder.mkdir()
    backend.build(spec, None, folder)
    built = BuiltEngine(spec, backend, folder, "key", "built", "", None, None, None)
    return replace(leading(held.enter_context(built.open()), BATCH), built=built)


def evaluate_s(opened: OpenEngine, data: Data, place: str) -> float:
    """Return the seconds of one evaluation, in this process where `place` is empty."""
    began_s = time.perf_counter()
    with Workers(place, Steps(lambda _: None)) if place else nullcontext() as workers:
        taken = opened if workers is None else workers.taking(opened)
        n = sum(chunk.n for chunk in run_over(taken, data))
        notes = () if workers is None else workers.notes
    assert n == data.n and not notes, notes  # noqa: PT018 - one fact: all of it ran there
    return time.perf_counter() - began_s


def samples_of(n: int, opened: OpenEngine) -> Data:
    """Return `n` pictures of noise."""
    pictures = np.random.default_rng(0).random((n, 3, PIXELS, PIXELS), dtype=np.float32)
    return open_data(Dataset.from_arrays(pictures), opened.engine.signature)


def compared(ways: dict[str, tuple[OpenEngine, str]], data: Data, turns: int) -> dict[str, list[float]]:
    """Return the seconds of each way in each turn; the order changes from turn to turn."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns):
        for name in list(ways) if turn % 2 else reversed(ways):
            taken[name].append(evaluate_s(*ways[name][:1], data, ways[name][1]))
    return taken


def print_figure(folder: Path, n: int, turns: int, depth: int) -> Estimate:
    """Print the samples per second of each way, and return the gain of two workers over one process."""
    model = network(folder / "figure.onnx", depth)
    with ExitStack() as held:
        one, two = (opened_engine(model, folder / f"threads{threads}", threads, held) for threads in (1, 2))
        data = samples_of(n, one)
        ways = {"one process, 1 thread": (one, ""), "local:2, 1 thread each": (one, "local:2")}
        taken = compared(ways | {"one process, 2 threads": (two, "")}, data, turns)
    alone = taken["one process, 1 thread"]
    print(f"{n} samples, {1e3 * float(np.median(alone)) / n:.2f} ms each in batches of {BATCH}, {turns} turns")  # noqa: T201
    for name, times in taken.items():
        gain = _ratio(alone, times)
        rate = n / float(np.median(times))
        print(f"{name:24} {rate:8.0f} samples/s  {gain.value:5.2f} [{gain.low:.2f}, {gain.high:.2f}]")  # noqa: T201
    return _ratio(alone, taken["local:2, 1 thread each"])


def _ratio(alone: Sequence[float], other: Sequence[float]) -> Estimate:
    return median_interval([first / second for first, second in zip(alone, other, strict=True)])


def print_sizes(folder: Path, most: int, turns: int) -> None:
    """Print what two workers gain by the number of samples and what a sample costs."""
    print("\n| samples | ms per sample | one process s | local:2 s | gain |\n|---|---|---|---|---|")  # noqa: T201
    for depth in DEPTHS:
        with ExitStack() as held:
            opened = opened_engine(network(folder / f"{depth}.onnx", depth), folder / f"depth{depth}", 1, held)
            for n in (size for size in SIZES if size <= most):
                data = samples_of(n, opened)
                first_s = evaluate_s(opened, data.some(min(n, 1_000)), "")
                if first_s * n / min(n, 1_000) > LONGEST_S:
                    break
                taken = compared({"alone": (opened, ""), "local:2": (opened, "local:2")}, data, turns)
                alone_s, spread_s = (float(np.median(taken[name])) for name in ("alone", "local:2"))
                gain = _ratio(taken["alone"], taken["local:2"]).value
                print(f"| {n} | {1e3 * alone_s / n:.2f} | {alone_s:.1f} | {spread_s:.1f} | {gain:.2f} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--samples", type=int, default=50_000, help="of the figure, and at most in the table")
    options.add_argument("--turns", type=int, default=6, help="6 are the fewest that an interval of 95 % needs")
    options.add_argument("--depth", type=int, default=4, help="convolutions of the network of the figure")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="pytest-quant-benchmark-") as place:
        result = print_figure(Path(place), given.samples, given.turns, given.depth)
        print_sizes(Path(place), given.samples, max(1, given.turns // 3))
    if given.samples >= SIZES[-1]:
        at_least(result, AT_LEAST, "samples per second of two workers to those of one process")
