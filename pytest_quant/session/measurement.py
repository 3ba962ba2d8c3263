"""Everything found about one check, with its engines still open for the test's own assertions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.backends import Engine
from pytest_quant.result import AccuracyResult, Coverage, LatencyResult, Resources
from pytest_quant.session.trials import TrialInputs
from pytest_quant.spec import Check


@dataclass(frozen=True, slots=True, repr=False)
class Measurement:
    """What the `quant` fixture gives.

    Attributes
    ----------
    engine, reference : the open candidate and reference; `run(feeds)` runs one batch.
    accuracy, latency, coverage, resources : see `pytest_quant.result`; `latency` is ``None`` when off.
    latency_off : why latency was not measured, in words.
    cache : ``{"engine": ..., "reference": ...}``, each ``built`` or ``hit``.
    digests : of the engines and the data, for the record.
    calibration_samples : that the calibration saw, ``None`` when the scheme has none.
    threads : processor threads of the candidate, ``None`` when its backend does not say.
    samples : digests of the evaluated samples, packed for the record; ``None`` when there are too many.
    notes : what the reader should know beside the verdicts.
    accuracy_again : a second evaluation, where an engine differs from itself on the same batch; else ``None``.
    bench : what other engines are tried with when a limit is broken.
    """

    check: Check
    engine: Engine
    reference: Engine
    accuracy: AccuracyResult
    latency: LatencyResult | None
    coverage: Coverage
    resources: Resources
    cache: Mapping[str, str]
    digests: Mapping[str, str]
    calibration_samples: int | None = None
    threads: int | None = None
    samples: str | None = None
    notes: tuple[str, ...] = ()
    accuracy_again: AccuracyResult | None = None
    bench: TrialInputs | None = None

    def __repr__(self) -> str:
        """Say which check it is; pytest prints this where an assertion on it fails."""
        engine = self.check.candidate
        return f"<Measurement of {engine.id} of {engine.model.name} on {self.accuracy.n} samples>"

    def close(self) -> None:
        """Release both engines."""
        self.engine.close()
        self.reference.close()
