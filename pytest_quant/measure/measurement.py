"""What measuring a check gives: all of its figures, and its two engines for tests and trials that ask for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_quant.backends import Engine
from pytest_quant.data import Data
from pytest_quant.measure.engines import Side
from pytest_quant.measure.sessions import Subject
from pytest_quant.result import AccuracyResult, Measured

Compare = Callable[[Side, Data], AccuracyResult]
"""Compares an engine with the check's reference over the given data."""


@dataclass(frozen=True, slots=True)
class TrialInputs:
    """Requirements for trials of other engines: the open candidate, the data, and the comparison on it.

    `timed` has reference and candidate as their latency is measured; `reopen` opens both engines again.
    """

    candidate: Side
    reference: Side
    data: Data
    compare: Compare
    timed: tuple[Subject, Subject]
    reopen: Callable[[], TrialInputs]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement(Measured):
    """The value of the fixture `quant`: all figures of a check, and both engines open for assertions of the test.

    Attributes
    ----------
    engine, reference : candidate and reference; `run(feeds)` runs one batch. They are closed while others are timed,
        see `reopened`.
    bench : requirements for trials of other engines when a limit is broken.
    """

    engine: Engine
    reference: Engine
    bench: TrialInputs | None = None

    def __repr__(self) -> str:
        """Return a short text that names the check; pytest prints it where an assertion on it fails."""
        engine = self.check.candidate
        return f"<Measurement of {engine.id} of {engine.model.name} on {self.accuracy.n} samples>"

    def close(self) -> None:
        """Release both engines."""
        self.engine.close()
        self.reference.close()


def reopened(measurement: Measurement) -> Measurement:
    """Return a measurement with both engines open, which `measure_check` closed to leave their memory to timed ones.

    Raises
    ------
    BuildError : the runtime cannot load an engine again.
    """
    if measurement.bench is None or measurement.latency is None:
        return measurement
    bench = measurement.bench.reopen()
    return replace(measurement, engine=bench.candidate.engine, reference=bench.reference.engine, bench=bench)
