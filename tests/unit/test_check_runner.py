"""What is found about one check, and what of it the record keeps."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pytest_quant.backends import Engine
from pytest_quant.check_runner import CheckRunner
from pytest_quant.measure.pipeline import EnginePair, Measurement
from tests.support.measuring import quiet_tools
from tests.unit.record.examples import ACCURACY, COVERAGE, RESOURCES, a_check


class Closing:
    """As much of an engine as a measurement touches."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        """Count."""
        self.closed += 1


def measured(engine: Closing, reference: Closing) -> Measurement:
    """A measurement in which every figure that the record keeps is set."""
    return Measurement(
        check=a_check(),
        engine=cast("Engine", engine),
        reference=cast("Engine", reference),
        accuracy=ACCURACY,
        latency=None,
        coverage=COVERAGE,
        resources=RESOURCES,
        cache={"engine": "hit", "reference": "built"},
        digests={"engine": "abc123", "data": "def456"},
        calibration_samples=64,
        threads=3,
        notes=("a note",),
        bench=cast("EnginePair", None),  # nothing is run again
    )


def test_the_record_keeps_what_was_measured(tmp_path: Path) -> None:
    """Each figure in its own field."""
    session = CheckRunner(quiet_tools(tmp_path), baseline=lambda _: None, diagnose_s=0.0)
    result = measured(Closing(), Closing())
    record = session.judge(result).record
    assert record.accuracy == ACCURACY
    assert record.coverage == COVERAGE
    assert record.resources == RESOURCES
    assert (record.calibration_samples, record.threads) == (64, 3)
    assert (record.cache, record.digests) == (result.cache, result.digests)
    assert "a note" in record.notes


def test_a_measurement_closes_its_engines_and_prints_none_of_them() -> None:
    """Pytest prints it where an assertion about it fails."""
    engine, reference = Closing(), Closing()
    result = measured(engine, reference)
    assert repr(result) == "<Measurement of ort-int8-static of digits on 1797 samples>"
    result.close()
    assert (engine.closed, reference.closed) == (1, 1)
