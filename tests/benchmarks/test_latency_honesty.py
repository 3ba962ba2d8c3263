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
from pytest_quant.latency import measure
from pytest_quant.spec import EngineSpec, LatencyPlan, Model
from tests.benchmarks.test_evaluation_throughput import digits, magika
from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu

TRIALS = 15
BATCH_SIZE = 128
"""Of digits in OpenVINO: runs of 20 us differ by more than 2 % with the way in which a call is written."""

LOW, HIGH = 0.98, 1.02


@dataclass(frozen=True)
class Subject:
    """An engine to time, and the same without us; `bare` is ``None`` for the engine's own session."""

    spec: EngineSpec
    folder: Path
    feeds: Feeds
    bare: Callable[[], object] | None


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


def in_ort(example: Callable[[], tuple[Path, object]], batch_size: int = 1) -> Callable[[Path], Subject]:
    """One of the example's models in ONNX Runtime."""

    def make(folder: Path) -> Subject:
        path, _ = example()
        spec = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
        (tensor,) = get_backend("ort").signature(spec.model).inputs
        shape = [batch_size if size is None else size for size in tensor.shape or ()]
        return Subject(spec, folder, {tensor.name: np.ones(shape, dtype=tensor.dtype)}, None)

    return make


def in_ort_openvino(folder: Path) -> Subject:
    """Digits by OpenVINO as a provider of ONNX Runtime, on a CPU of any maker."""
    offer_any_cpu()
    subject = in_ort(digits, BATCH_SIZE)(folder)
    return replace(subject, spec=replace(subject.spec, backend="ort-openvino"))


def in_openvino(folder: Path) -> Subject:
    """OpenVINO's own request, compiled here with its own settings for one thread and one stream."""
    import openvino

    subject = in_ort(digits, BATCH_SIZE)(folder)
    settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(subject.spec.model.path, "CPU", settings).create_infer_request()
    (array,) = subject.feeds.values()
    return replace(subject, spec=replace(subject.spec, backend="openvino"), bare=lambda: request.infer({0: array}))


def network_in_torch(folder: Path) -> Subject:
    """A module that is compiled here with frozen weights, as a user would."""
    import torch
    import torch._inductor.config

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(1)
    )
    example = torch.ones(2, 3, 48, 48)
    torch.set_num_threads(1)
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled: Any = torch.compile(module.eval(), dynamic=False)
        compiled(example[:1])

    def run() -> object:
        with torch.no_grad():
            return compiled(example[:1])

    spec = EngineSpec("torch", "fp32", None, Model.from_torch(module, (example,)))
    return Subject(spec, folder, {"input": example[:1].numpy()}, run)


SUBJECTS = {
    "ort-digits": in_ort(digits),
    "ort-magika": in_ort(magika),
    "ort-openvino-digits": in_ort_openvino,
    "openvino-digits": in_openvino,
    "torch-network": network_in_torch,
}


@pytest.mark.parametrize("make", SUBJECTS.values(), ids=SUBJECTS)
def test_our_median_is_that_of_a_bare_loop(
    make: Callable[[Path], Subject], tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Interleaved in the same rounds, the median of 15 ratios lies within 2 % of 1."""
    subject = make(tmp_path)
    backend = get_backend(subject.spec.backend)
    backend.build(subject.spec, None, tmp_path)
    engine = backend.open(subject.spec, tmp_path)
    bare_run = subject.bare or partial(engine._session.run, None, subject.feeds)  # type: ignore[attr-defined]
    ratios = []
    for seed in random.Random(0).sample(range(1000), TRIALS):  # noqa: S311 - orders, not secrets
        bare = BareLoop(bare_run)
        plan = LatencyPlan(max_rounds=16, min_rounds=16, max_warmup_s=0.1, seed=seed)
        found = measure(bare, bare, engine.prepare(subject.feeds), plan)
        ratios.append(found.candidate_p50_ms / (1e3 * statistics.median(bare.times_s)))
    engine.close()
    ratio = statistics.median(ratios)
    show(
        f"{subject.spec.id}: our median / bare loop: {ratio:.4f} (of {TRIALS}: {min(ratios):.3f} to {max(ratios):.3f})"
    )
    assert LOW <= ratio <= HIGH
