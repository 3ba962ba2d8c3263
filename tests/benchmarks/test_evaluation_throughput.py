"""Evaluating costs little beside running the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Engine, get_backend
from pytest_quant.cache import Cache
from pytest_quant.data import Data, open_data
from pytest_quant.measure.evaluation import evaluate
from pytest_quant.measure.outputs import pair_outputs, read_outputs, record_outputs, run_over
from pytest_quant.metrics import resolve_metric
from pytest_quant.spec import Dataset, EngineSpec, Model
from tests.benchmarks.limits import at_least
from tests.benchmarks.yardstick import median_interval
from tests.support.example import EXAMPLE
from tests.support.measuring import leading

AT_LEAST = 0.95


def evaluate_once(engine: Engine, data: Data, batch_size: int, cache: Cache) -> float:
    """Evaluate against the recorded reference, as a check does, and return the seconds it took."""
    backend = get_backend("ort")
    batched = leading(engine, batch_size)
    recorded = record_outputs(batched, data, cache, backend.ingredients(engine.spec))
    output, scores = next(iter(engine.run(data.first(1)).items()))
    metric = resolve_metric(None, data.labels, scores.shape)
    started = time.perf_counter()
    pairs = pair_outputs(read_outputs(recorded), run_over(batched, data))
    result = evaluate(pairs, metric, output=(output,), margin=None, confidence=0.95)
    assert result.n == data.n
    return time.perf_counter() - started


def loop_once(engine: Engine, feeds: list[dict[str, np.ndarray]]) -> float:
    """Run the engine's own session over the batches, keeping nothing, and return the seconds it took."""
    session = engine._session  # type: ignore[attr-defined]
    started = time.perf_counter()
    for feed in feeds:
        session.run(None, feed)
    return time.perf_counter() - started


def digits() -> tuple[Path, Dataset]:
    """Ten times the digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.tile((bunch.images[:, None] / 16).astype(np.float32), (10, 1, 1, 1))
    return EXAMPLE / "digits.onnx", Dataset.from_arrays(images, np.tile(bunch.target, 10))


def magika() -> tuple[Path, Dataset]:
    """Two hundred rows of random bytes with random labels: what the model says about them costs the same."""
    import magika as package

    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 256, (200, 2048), dtype=np.int32)
    model = Path(package.__file__).parent / "models" / "standard_v3_3" / "model.onnx"
    return model, Dataset.from_arrays({"bytes": tokens}, rng.integers(0, 214, 200))


@pytest.mark.parametrize(
    ("subject", "batch_size", "trials"), [(magika, 1, 9), (digits, 128, 31)], ids=["magika-b1", "digits-b128"]
)
def test_evaluation_keeps_up_with_a_bare_loop(
    subject: object, batch_size: int, trials: int, tmp_path: Path, show: Callable[[str], None]
) -> None:
    """Throughput is at least 95 % of the bare loop's over the same session, data and batches.

    Both take turns, and our own interval of the ratio judges: what it cannot tell beside a busy neighbour is shown.
    """
    assert callable(subject)
    path, dataset = subject()
    backend = get_backend("ort")
    spec = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
    backend.build(spec, None, tmp_path)
    engine = backend.open(spec, tmp_path)
    data = open_data(dataset, engine.signature)
    feeds = [batch.feeds for batch in data.batches(batch_size)]
    cache = Cache(tmp_path / "cache")
    evaluate_once(engine, data, batch_size, cache)
    times = [(loop_once(engine, feeds), evaluate_once(engine, data, batch_size, cache)) for _ in range(trials)]
    engine.close()
    loop_s, ours_s = zip(*times, strict=True)
    result = median_interval([loop / ours for loop, ours in times])
    shortest = (
        f"shortest: bare loop {min(loop_s):.3f} s, evaluation {min(ours_s):.3f} s, {min(loop_s) / min(ours_s):.3f}"
    )
    show(
        f"throughput / bare loop {result.value:.3f} [{result.low:.3f}, {result.high:.3f}] in {trials} turns; {shortest}"
    )
    at_least(result, AT_LEAST, "throughput to that of a bare loop")
