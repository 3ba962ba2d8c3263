"""How long and how carefully to time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """The budget of one latency measurement; the constants are measured, see `pytest_quant.latency`.

    Attributes
    ----------
    batch_size : samples in one run.
    min_rounds, max_rounds : every engine is timed once in each round.
    look_every : rounds between two looks at the interval.
    min_runs : runs of one block that are kept; one more is made first and kept apart as cold.
    min_block_s : a block lasts at least so long.
    max_warmup_s : seconds spent warming up one engine at the most.
    max_s : seconds for everything: warming up, all rounds, and the second measurement that confirms a broken limit.
    confidence : of every interval.
    precision : relative half-width of the speedup's interval at which a plan without limits stops.
    min_speedup : stop when the interval of the speedup lies on one side of it; ``None`` to ignore.
    max_latency_ms : ``{percentile: milliseconds}`` to decide, percentile 50 for the median.
    seed : of the random order and of the bootstrap.
    """

    batch_size: int = 1
    min_rounds: int = 8
    max_rounds: int = 40
    look_every: int = 8
    min_runs: int = 4
    min_block_s: float = 0.005
    max_warmup_s: float = 2.0
    max_s: float = 10.0
    confidence: float = 0.95
    precision: float = 0.02
    min_speedup: float | None = None
    max_latency_ms: tuple[tuple[float, float], ...] = ()
    seed: int = 0
