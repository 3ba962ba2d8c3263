"""One check, once: everything that is kept about it, with its sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pytest_quant.result import (
    AccuracyResult,
    Count,
    Coverage,
    Hint,
    LatencyFigures,
    Positive,
    Resources,
    Status,
    Verdict,
)
from pytest_quant.spec import PRECISIONS, SCHEMES

_Origin: TypeAlias = Annotated[str, ("enum", ("built", "hit"))]


@dataclass(frozen=True, slots=True)
class Record:
    """One check, once. Sections are ``None`` when the check never came to be.

    Attributes
    ----------
    nodeid : the test, as pytest spells it.
    model : name of the model.
    backend : the runtime of the candidate, as the mark names it.
    precision : of the candidate; ``unknown`` in records imported from other tools.
    scheme : how the candidate is quantized; ``None`` for precisions that are not quantized.
    status : the worst of the verdicts.
    series : key of the records that this one may be compared with, a JSON list as text: node id, model, backend,
        precision, scheme, batch size and metric.
    accuracy : candidate against reference over the evaluation set.
    latency : the timing; ``None`` also where it was off, see `latency_off`.
    coverage : what ran in the asked precision.
    resources : size, memory, build time and energy.
    verdicts : one for each limit.
    batch_size : samples in one timed run.
    reference : the reference engine's id, ``ort-fp32``.
    metric : the metric's name; ``None`` without one.
    message : why the check is ERROR or UNAVAILABLE, several lines; else empty.
    confidence : the level that ``--quant-confidence`` asks for; ``None`` judges `max_drop` on the measured value.
    calibration : method of a static scheme, ``minmax``; ``None`` for other schemes.
    calibration_samples : samples that it saw; ``None`` when not known.
    threads : processor threads that the candidate was given; ``None`` when its backend does not say.
    isa : best instruction set of the machine for int8, ``avx512_vnni`` for example.
    latency_off : why latency was not measured; empty when it was.
    cache : of ``engine`` and ``reference``, whether it was built in this run or found in the cache (``hit``).
    digests : of the model, the engines and the data, by name: what a difference between two records comes from.
    notes : what else the reader should know, one sentence each.
    hints : what is worth trying about the broken limits, the best first; each was measured.
    """

    nodeid: str
    model: str
    backend: str
    precision: Annotated[str, ("enum", (*PRECISIONS, "unknown"))]
    scheme: Annotated[str, ("enum", SCHEMES)] | None
    batch_size: Positive
    status: Status
    series: str
    reference: str
    metric: str | None = None
    message: str = ""
    accuracy: AccuracyResult | None = None
    latency: LatencyFigures | None = None
    coverage: Coverage | None = None
    resources: Resources | None = None
    cache: Annotated[Mapping[str, _Origin], ("required", ("engine", "reference"))] | None = None
    verdicts: tuple[Verdict, ...] | None = None
    confidence: float | None = None
    calibration: str | None = None
    calibration_samples: Count | None = None
    threads: Positive | None = None
    isa: str = "unknown"
    latency_off: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def engine_id(self) -> str:
        """The candidate's readable name, ``ort-int8-static``."""
        return "-".join(part for part in (self.backend, self.precision, self.scheme) if part)
