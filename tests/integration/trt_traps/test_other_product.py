"""What TensorRT-RTX builds in the place of TensorRT is no evidence of TensorRT: no limit is judged on its plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.environment.gpu import find_gpus
from pytest_quant.plugin.collect import simulate_check
from pytest_quant.record import Record
from pytest_quant.result import Status
from pytest_quant.spec import Dataset, Limits
from tests.integration.trt_traps.networks import check_of, images, recognizer, session_in

LIMITS = Limits(max_size_mb=1e6, max_build_s=1e6, min_coverage=50.0, min_sqnr_db=0.0)
REASON = "plan of another product (TensorRT-RTX)"


def record_of(backend: str, folder: Path, *, exclude: tuple[str, ...] = ()) -> Record:
    """Check a small network in `backend` with limits that any plan would keep."""
    if find_gpus():
        pytest.skip("there is a GPU here, which runs what it builds")
    lines = images(((32, 64), (32, 40)), channels=1)
    dataset = Dataset.from_iterable(lines, calibration=images(((32, 64),), channels=1, seed=1))
    check = replace(check_of(recognizer(folder), dataset, backend=backend), limits=LIMITS)
    with session_in(folder) as session:
        measured = session.measure(replace(check, candidate=replace(check.candidate, exclude=exclude)))
        record = session.judge(measured).record
    measured.close()
    return record


@pytest.mark.parametrize("backend", ["trt", "ort-trt"])
def test_nothing_of_the_other_plan_is_measured(backend: str, tmp_path: Path) -> None:
    """Size and build time are null and their limits INCONCLUSIVE, coverage is labelled and not judged; accuracy is."""
    record = record_of(backend, tmp_path)
    assert record.resources is not None
    for name in ("size_mb", "reference_size_mb", "build_s", "build_memory_mb"):
        assert getattr(record.resources, name) is None
    assert record.resources.plan_of == "TensorRT-RTX"
    verdicts = {verdict.limit: verdict for verdict in record.verdicts or ()}
    for limit in ("max_size_mb", "max_build_s", "min_coverage"):
        assert verdicts[limit].status is Status.INCONCLUSIVE
        assert verdicts[limit].observed is None
        assert REASON in verdicts[limit].reason
    assert verdicts["min_sqnr_db"].status is Status.PASS
    assert record.coverage is not None
    assert (record.coverage.pct, record.coverage.plan_of) == (100.0, "TensorRT-RTX")
    assert "in the place of" in record.coverage.provider


def test_its_own_plan_is_judged(tmp_path: Path) -> None:
    """For trt-rtx size, build time and coverage are those of the product that was asked for."""
    record = record_of("trt-rtx", tmp_path)
    assert record.resources is not None
    assert record.resources.size_mb is not None
    assert record.resources.build_s is not None
    assert {verdict.status for verdict in record.verdicts or ()} == {Status.PASS}


def test_a_graph_without_pairs_fails_in_every_product(tmp_path: Path) -> None:
    """Explicit INT8 runs where there are Q/DQ pairs and nowhere else: known of the graph, whatever builds it."""
    record = record_of("trt", tmp_path, exclude=("stem", "head"))
    (coverage,) = [verdict for verdict in record.verdicts or () if verdict.limit == "min_coverage"]
    assert coverage.status is Status.FAIL


def test_the_target_of_the_run_serves_trt_rtx(tmp_path: Path) -> None:
    """``--quant-simulate=SM89`` does what the option in the mark does."""
    if find_gpus():
        pytest.skip("there is a GPU here, which it builds for")
    dataset = Dataset.from_iterable(images(((32, 64),), channels=1))
    asked = check_of(recognizer(tmp_path), dataset, scheme=None)
    engine = replace(asked.candidate, options=())
    check = simulate_check(replace(asked, candidate=engine, reference=engine), "SM89")
    with session_in(tmp_path) as session:
        measured = session.measure(check)
    assert "SM89" in measured.coverage.provider
    assert np.isfinite(measured.engine.size_bytes)
    measured.close()
