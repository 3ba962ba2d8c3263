"""The numbers a mark sets."""

from __future__ import annotations

from dataclasses import dataclass

OutputLimit = float | tuple[tuple[str, float], ...]
"""A limit on every output, or ``(output, limit)`` pairs: an output that they do not name has none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit a mark can set; ``None`` where it sets none.

    Percentages and drops are in points of a hundred, latency in milliseconds per run of one batch, sizes in
    megabytes of 10^6 bytes, SQNR in dB, energy in millijoules per run, `min_ratio` and `min_speedup` as ratios.
    `min_coverage` is of all eligible compute; `default_min_coverage`, no key of the mark, holds where the mark sets
    none, and is of what the engine's scheme can quantize. `max_latency_ms` holds ``(percentile, milliseconds)`` pairs;
    50 is the median.
    `min_sqnr_db`, `min_cosine` and `max_abs_error` hold for each output by itself.
    """

    max_drop: float | None = None
    min_ratio: float | None = None
    min_accuracy: float | None = None
    min_agreement: float | None = None
    min_sqnr_db: OutputLimit | None = None
    min_cosine: OutputLimit | None = None
    max_abs_error: OutputLimit | None = None
    max_latency_ms: tuple[tuple[float, float], ...] = ()
    min_speedup: float | None = None
    max_size_mb: float | None = None
    max_memory_mb: float | None = None
    max_build_s: float | None = None
    max_energy_mj: float | None = None
    min_coverage: float | None = None
    default_min_coverage: float | None = None
    max_slowdown: float | None = None
    max_drop_increase: float | None = None

    @property
    def by_output(self) -> tuple[tuple[str, str], ...]:
        """The ``(limit, output)`` pairs of limits that name outputs."""
        limits = {name: getattr(self, name) for name in ("min_sqnr_db", "min_cosine", "max_abs_error")}
        return tuple((limit, pair[0]) for limit, asked in limits.items() if isinstance(asked, tuple) for pair in asked)

    @property
    def on_latency(self) -> bool:
        """Whether a limit needs the latency of this run."""
        return bool(self.max_latency_ms) or self.min_speedup is not None or self.max_slowdown is not None
