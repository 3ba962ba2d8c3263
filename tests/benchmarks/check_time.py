"""What a whole check without latency takes beside a plain script that does the same: ``python -m`` this module.

Each turn runs two fresh processes in random order, with nothing cached: a `CheckRunner` measures and judges one check,
and a script as somebody writes it who has no plugin. That one quantizes with the same options over the same samples,
runs the float model and the quantized one with the threads that the runtime takes by itself, in batches of 1 or of 32,
whichever is faster, and counts right answers. Weights are random, and labels are what the float model answers. Printed
is the median ratio of seconds with its interval, and of processor seconds, which other processes disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tests.benchmarks.networks import NETWORKS, Network
from tests.benchmarks.plain_check import PLAIN, RUNTIMES, WEIGHTS
from tests.benchmarks.yardstick import median_interval

MUST_REACH = ((1000, 1.15), (0, 1.25))
"""Largest ratio that is allowed from so many samples on."""

CALIBRATION = 32
BATCHES = (32, 1)


def write_inputs(network: Network, samples: int, folder: Path) -> None:
    """Write samples, as many labels, the calibration samples and the model as an ONNX file into `folder`."""
    import torch

    from pytest_quant.backends.torch import torch_quiet

    module = network.module(folder / WEIGHTS)
    draw = np.random.default_rng(0)
    for name, n in (("samples", samples), ("calibration", CALIBRATION)):
        np.save(folder / f"{name}.npy", network.draw(draw, n))
    with torch.no_grad():
        inputs = torch.from_numpy(np.load(folder / "samples.npy"))
        labels = torch.cat([module(part).argmax(1) for part in inputs.split(BATCHES[0])])
    np.save(folder / "labels.npy", labels.numpy())
    example = torch.from_numpy(np.load(folder / "calibration.npy")[:2])
    free = ({0: torch.export.Dim.DYNAMIC},)
    with torch_quiet():
        program = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=free, verbose=False)
    assert program is not None
    program.save(str(folder / "model.onnx"), external_data=False)


def ours(backend: str, network: Network, folder: Path, work: Path) -> dict[str, float | None]:
    """Measure and judge a check, and return what it found."""
    from pytest_quant.cache import Cache
    from pytest_quant.check_runner import CheckRunner
    from pytest_quant.measure.build import Tools
    from pytest_quant.measure.lock import DeviceLocks
    from pytest_quant.measure.steps import Steps
    from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model

    samples, labels, calibration = (np.load(folder / f"{name}.npy") for name in ("samples", "labels", "calibration"))
    if backend == "torch":
        import torch

        model = Model.from_torch(network.module(folder / WEIGHTS), (torch.from_numpy(calibration[:2]),))
    else:
        model = Model.from_onnx(folder / "model.onnx")
    check = Check(
        "check_time",
        "check_time",
        EngineSpec(backend, "int8", "static", model),
        EngineSpec(backend, "fp32", None, model),
        Dataset.from_arrays(samples, labels, calibration=calibration),
        Limits(max_drop=100.0),
        latency=None,
        latency_off="accuracy is what takes the time here",
    )
    steps = Steps(lambda _: None)
    tools = Tools(Cache(work), steps, DeviceLocks(steps.notify))
    session = CheckRunner(tools, baseline=lambda _: None, times=False)
    measurement = session.measure_engines(check)
    session.judge(measurement)
    accuracy = measurement.accuracy
    measurement.close()
    return {"reference": accuracy.reference, "candidate": accuracy.candidate}


@dataclass(frozen=True, slots=True)
class Turn:
    """One side in a fresh process: what it found, its seconds and its processor seconds."""

    found: Mapping[str, float | None]
    wall_s: float
    cpu_s: float


def run_side(side: str, backend: str, name: str, folder: Path, batch: int) -> Turn:
    """Run one side in a fresh process."""
    with tempfile.TemporaryDirectory() as work:
        request = json.dumps([side, backend, name, str(folder), work, batch])
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(Path(work) / "inductor")}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--side", request],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{side} of {name} on {backend} failed:\n{done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn(json.loads(done.stdout.splitlines()[-1]), wall_s, cpu_s)


def row(backend: str, network: Network, samples: int, rounds: int) -> str:
    """Return the row of one network on one backend."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(network, samples, folder)
        run = partial(run_side, backend=backend, name=network.name, folder=folder)
        batch = min(BATCHES, key=lambda size: run("plain", batch=size).wall_s)
        order = random.Random(0)  # noqa: S311 - an order, not a secret
        turns = []
        for _ in range(rounds):
            sides = order.sample(["plain", "ours"], 2)
            turns.append({side: run(side, batch=batch) for side in sides})
    ratios = [
        median_interval([turn["ours"].wall_s / turn["plain"].wall_s for turn in turns]),
        median_interval([turn["ours"].cpu_s / turn["plain"].cpu_s for turn in turns]),
    ]
    seconds = (f"{np.median([turn[side].wall_s for turn in turns]):.1f}" for side in ("plain", "ours"))
    texts = (f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" for ratio in ratios)
    limit = next(limit for least, limit in MUST_REACH if samples >= least)
    found = {side: turns[-1][side].found["candidate"] for side in ("plain", "ours")}
    reached = "yes" if ratios[0].value <= limit else "NO"
    scores = f"{found['plain']:.4g}, {found['ours']:.4g}"
    cells = (backend, network.name, str(samples), str(batch), *seconds, *texts, f"{limit:g}", reached, scores)
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| backend | network | samples | batch | plain s | ours s | ratio [95 %] | of processor seconds [95 %] "
    "| must reach | reached | INT8 score %, plain and ours |"
)


def rows(backends: Sequence[str], names: Sequence[str], samples: Sequence[int], rounds: int) -> Iterator[str]:
    """Yield the head of the table, and a row for each backend, network and number of samples."""
    yield HEAD
    yield f"|{' --- |' * (HEAD.count('|') - 1)}"
    for backend in backends:
        for name in names:
            for n in samples:
                yield row(backend, NETWORKS[name], n, rounds)


def main() -> None:
    """Print the table, or do one side of a turn and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[128, 1000])
    parser.add_argument("--backends", nargs="+", default=list(RUNTIMES), choices=RUNTIMES)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=7, help="turns of both sides; at least 6 give an interval")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        side, backend, name, folder, work, batch = json.loads(given.side)
        network = NETWORKS[name]
        found: Mapping[str, float | None]
        if side == "ours":
            found = ours(backend, network, Path(folder), Path(work))
        else:
            found = PLAIN[backend](network, Path(folder), Path(work), batch)
        sys.stdout.write(f"{json.dumps(found)}\n")
        return
    for line in rows(given.backends, given.networks, given.samples, given.rounds):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
