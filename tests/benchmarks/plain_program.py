"""How the median that `max_latency_ms` judges compares with that of a user's own program: ``python -m`` this module.

A network that waits for its weights, six products with 24 MB of matrices, runs in fresh processes of two kinds, one
after the other in random order: a loop around a session of ONNX Runtime, and a launch of ours, which times it between
two sessions of the same file as the candidate of a check. Both have one thread, which is the default of a check. The
ratio of both is one number for each pair of processes; printed is the mean of their logarithms with Student's
interval, for each size of pages. The machine must be quiet.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.measure.build import Tools, build_engine
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.timing_process import TimingJob, TimingProcess
from pytest_quant.spec import EngineSpec, LatencyPlan, Model, Pages
from pytest_quant.stats.ratio import Estimate, student_quantile
from tests.support.models import save

LAYERS, WIDTH = 6, 1024
WITHIN = (0.9, 1.1)
"""Of the ratio, with all of its interval."""

PROGRAM = """
import sys, time, statistics
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
feeds = {"x": np.ones((1, int(sys.argv[2])), np.float32)}
times = []
for _ in range(2000):
    began = time.perf_counter()
    session.run(None, feeds)
    times.append(time.perf_counter() - began)
print(1e3 * statistics.median(times[200:]))
"""


def write_model(path: Path) -> Path:
    """Write products of one row with matrices of their own."""
    draw = np.random.default_rng(0)
    names = ["x", *(f"h{number}" for number in range(1, LAYERS)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[number], f"w{number}"], [names[number + 1]], name=f"product{number}")
        for number in range(LAYERS)
    ]
    weights = [
        numpy_helper.from_array(draw.normal(0.0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32), f"w{number}")
        for number in range(LAYERS)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")]
    return save(helper.make_graph(nodes, "products", ends[:1], ends[1:], weights), path, 17)


def plain_ms(model: Path) -> float:
    """Return the median run of a fresh program."""
    command = [sys.executable, "-c", PROGRAM, str(model), str(WIDTH)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


def described(folder: Path, model: Path, plan: LatencyPlan) -> Path:
    """Describe a check of the network against itself, and return the file for launches."""
    tools = Tools(Cache(folder / "cache"), Steps(_silent), DeviceLocks(_silent))
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(model))
    built = build_engine(spec, get_backend("ort"), None, tools)
    subject = TimingSubject(built, {"x": np.ones((1, WIDTH), np.float32)})
    file = folder / f"{plan.pages}.check"
    TimingJob(subject, subject, plan).save(file)
    return file


def launched_ms(file: Path, plan: LatencyPlan, seed: int) -> float:
    """Return the median of the candidate in a launch of ours."""
    with TimingProcess(file) as process:
        return process.measure(replace(plan, seed=seed)).candidate_p50_ms


def _silent(_: str) -> None:
    """Show nothing."""


def mean_ratio(ours_ms: Sequence[float], plain_ms: Sequence[float]) -> Estimate:
    """Return ours / plain with Student's 95 % interval of the mean log ratio over pairs of processes."""
    logs = [math.log(ours / plain) for ours, plain in zip(ours_ms, plain_ms, strict=True)]
    middle = statistics.fmean(logs)
    half = student_quantile(0.95, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Estimate(*map(math.exp, (middle, middle - half, middle + half)))


def rows(folder: Path, launches: int, plan: LatencyPlan) -> Iterator[str]:
    """Yield the head of the table, and a row for each size of pages."""
    model = write_model(folder / "products.onnx")
    yield "| pages | plain program ms | launch of ours ms | ratio [95 %] | within 0.9 to 1.1 |"
    yield "| --- | --- | --- | --- | --- |"
    for pages in get_args(Pages):
        file = described(folder, model, replace(plan, pages=pages))
        pairs: list[dict[str, float]] = []
        for number in range(launches):
            kinds = {"plain": partial(plain_ms, model), "ours": partial(launched_ms, file, plan, number)}
            order = random.Random(number).sample(sorted(kinds), len(kinds))  # noqa: S311 - an order, not a secret
            pairs.append({kind: kinds[kind]() for kind in order})
        plain, ours = ([pair[kind] for pair in pairs] for kind in ("plain", "ours"))
        ratio = mean_ratio(ours, plain)
        spans = (f"{statistics.median(side):.3f} ({min(side):.3f} to {max(side):.3f})" for side in (plain, ours))
        within = "yes" if WITHIN[0] <= ratio.low and ratio.high <= WITHIN[1] else "NO"
        yield f"| {pages} | {' | '.join(spans)} | {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] | {within} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=10, help="pairs of processes for each size of pages")
    parser.add_argument("--max-s", type=float, default=LatencyPlan().max_s, help="of the timing in a launch")
    parser.add_argument("--limit-ms", type=float, default=1.0, help="max_latency_ms of the check, which rounds decide")
    given = parser.parse_args()
    plan = LatencyPlan(max_s=given.max_s, max_latency_ms=((50.0, given.limit_ms),))
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder), given.launches, plan):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
