"""The median we report is the median of a bare loop over the same session."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.measure.timed_rounds import measure
from pytest_quant.spec import EngineSpec, LatencyPlan, Model
from tests.benchmarks.limits import at_least, at_most
from tests.benchmarks.test_evaluation_throughput import digits, magika
from tests.benchmarks.yardstick import median_interval

TRIALS = 15
BATCH_SIZE = 128
"""Of digits in OpenVINO: runs of 20 us differ by more than 2 % with the way in which a call is written."""

LOW, HIGH = 0.98, 1.02


Loop = Callable[[Any, Feeds], Callable[[], object]]
"""Of an engine and what it is fed: one run of its own session, written as a user would write it."""


@dataclass(frozen=True)
class Subject:
    """An engine to time, and a run of the same session without us.

    A session of the bare loop's own would differ by more than 2 % now and then: its memory lies elsewhere.
    """

    spec: EngineSpec
    feeds: Feeds
    loop: Loop


class BareLoop:
    """Runs the session itself and keeps its own times, as a user's loop would."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self.times_s: list[float] = []

    def __call__(self) -> None:
        """Time one run."""
        started = time.perf_counter()
        self._run()
        self.times_s.append(time.perf_counter() - started)


def in_ort(example: Callable[[], tuple[Path, object]], batch_size: int = 1) -> Subject:
    """One of the example's models in ONNX Runtime."""
    path, _ = example()
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
    (tensor,) = get_backend("ort").signature(spec.model).inputs
    shape = [batch_size if size is None else size for size in tensor.shape or ()]
    feeds = {tensor.name: np.ones(shape, dtype=tensor.dtype)}
    return Subject(spec, feeds, lambda engine, feeds: lambda: engine._session.run(None, feeds))


def in_openvino() -> Subject:
    """Digits by a request of OpenVINO."""

    def loop(engine: Any, feeds: Feeds) -> Callable[[], object]:
        (array,) = feeds.values()
        return lambda: engine._request.infer({0: array})

    subject = in_ort(digits, BATCH_SIZE)
    return replace(subject, spec=replace(subject.spec, backend="openvino"), loop=loop)


def in_torch() -> Subject:
    """A network compiled by PyTorch."""
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(1)
    )
    example = torch.ones(2, 3, 48, 48)

    def loop(engine: Any, feeds: Feeds) -> Callable[[], object]:
        (array,) = feeds.values()
        engine.prepare(feeds)
        (compiled,) = engine._ready.values()
        tensor = torch.from_numpy(array)

        def run() -> object:
            with torch.no_grad():
                return compiled(tensor)

        return run

    spec = EngineSpec("torch", "fp32", None, Model.from_torch(module, (example,)))
    return Subject(spec, {"input": example[:1].numpy()}, loop)


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "ort-digits": partial(in_ort, digits),
    "ort-magika": partial(in_ort, magika),
    "openvino-digits": in_openvino,
    "torch-network": in_torch,
}


@pytest.mark.parametrize("make", SUBJECTS.values(), ids=SUBJECTS)
def test_our_median_is_that_of_a_bare_loop(
    make: Callable[[], Subject], tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Interleaved in the same rounds, the median of 15 ratios lies within 2 % of 1, as far as its interval tells."""
    subject = make()
    backend = get_backend(subject.spec.backend)
    backend.build(subject.spec, None, tmp_path)
    engine = backend.open(subject.spec, tmp_path)
    bare_run = subject.loop(engine, subject.feeds)
    ratios = []
    for seed in random.Random(0).sample(range(1000), TRIALS):  # noqa: S311 - orders, not secrets
        bare = BareLoop(bare_run)
        plan = LatencyPlan(max_rounds=16, min_rounds=16, max_warmup_s=0.1, seed=seed)
        result = measure((bare, bare, engine.prepare(subject.feeds)), plan)
        ratios.append(result.candidate_p50_ms / (1e3 * statistics.median(bare.times_s)))
    engine.close()
    ratio = median_interval(ratios)
    show(
        f"{subject.spec.id}: our median / bare loop: {ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}] "
        f"(of {TRIALS}: {min(ratios):.3f} to {max(ratios):.3f})"
    )
    at_most(ratio, HIGH, "our median to that of a bare loop")
    at_least(ratio, LOW, "our median to that of a bare loop")
