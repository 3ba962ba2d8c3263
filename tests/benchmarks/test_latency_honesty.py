"""The median we report is the median of a bare loop over the same session."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.latency import measure
from pytest_quant.spec import EngineSpec, LatencyPlan, Model
from tests.benchmarks.test_evaluation_throughput import digits, magika

TRIALS = 15
LOW, HIGH = 0.98, 1.02


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


@pytest.mark.parametrize("subject", [digits, magika], ids=["digits", "magika"])
def test_our_median_is_that_of_a_bare_loop(
    subject: Callable[[], tuple[Path, object]], tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Interleaved in the same rounds, the median of 15 ratios lies within 2 % of 1."""
    path, _ = subject()
    backend = get_backend("ort")
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
    backend.build(spec, None, tmp_path)
    engine = backend.open(spec, tmp_path)
    session = engine._session  # type: ignore[attr-defined]
    (tensor,) = engine.signature.inputs
    shape = [1 if size is None else size for size in tensor.shape or ()]
    feeds = {tensor.name: np.ones(shape, dtype=tensor.dtype)}
    ratios = []
    for seed in random.Random(0).sample(range(1000), TRIALS):  # noqa: S311 - orders, not secrets
        bare = BareLoop(lambda: session.run(None, feeds))
        plan = LatencyPlan(max_rounds=16, min_rounds=16, max_warmup_s=0.5, seed=seed)
        found = measure(bare, bare, engine.prepare(feeds), plan)
        ratios.append(found.candidate_p50_ms / (1e3 * statistics.median(bare.times_s)))
    engine.close()
    ratio = statistics.median(ratios)
    show(f"our median / bare loop: {ratio:.4f} (of {TRIALS}: {min(ratios):.3f} to {max(ratios):.3f})")
    assert LOW <= ratio <= HIGH
