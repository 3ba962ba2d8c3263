"""What measuring a check gives: all of its figures, and its two engines for tests and trials that ask for more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_quant.backends import Engine
from pytest_quant.measure.bench import Bench
from pytest_quant.result import Measured


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measurement(Measured):
    """The value of the fixture `quant`: all figures of a check, and both engines open for assertions of the test.

    Attributes
    ----------
    engine, reference : candidate and reference; `run(feeds)` runs one batch. They are closed while others are timed,
        see `reopened`.
    bench : for trials of other engines when a limit is broken.
    """

    engine: Engine
    reference: Engine
    bench: Bench | None = None

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
    bench = measurement.bench.reopened()
    return replace(measurement, engine=bench.candidate.engine, reference=bench.reference.engine, bench=bench)
