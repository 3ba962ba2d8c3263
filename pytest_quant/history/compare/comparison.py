"""The result of a comparison of two commits as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from pytest_quant.result import Better, Count, Interval, Probability

ALPHA = 0.01
"""Probability that a comparison without any true change has a regression or an improvement by a test."""

CONFIDENCE = 0.95
"""Level of each single interval."""


Quantity: TypeAlias = Literal[
    "status", "accuracy", "drop", "agreement", "sqnr", "size", "coverage", "nodes", "speedup", "p50"
]

Moved: TypeAlias = Literal["", "candidate", "reference", "both"]
"""The engine whose latency changed; empty when it is not known."""


class Outcome(StrEnum):
    """The outcome of comparing one quantity, in the order in which rows are shown.

    ``worse`` and ``better`` are changes that do not fail a comparison: too small, not proven, or advisory. ``changed``
    is neither better nor worse. ``accepted`` would be a regression, if the file of baselines did not accept the value.
    ``no_baseline`` has nothing comparable at the base.
    """

    REGRESSION = "regression"
    ACCEPTED = "accepted"
    WORSE = "worse"
    IMPROVEMENT = "improvement"
    BETTER = "better"
    CHANGED = "changed"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no_baseline"
    UNCHANGED = "unchanged"


CHANGED = (Outcome.REGRESSION, Outcome.ACCEPTED, Outcome.WORSE, Outcome.IMPROVEMENT, Outcome.BETTER, Outcome.CHANGED)
"""Outcomes of rows that differ between base and head."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that differs and may explain a change; ``None`` where base or head does not have it."""

    name: str
    base: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one series at base and head.

    Attributes
    ----------
    series, nodeid, model, engine_id : of the head.
    unit : of `base` and `head`; empty when they have none.
    base, head : the values; text for statuses and counts of nodes, ``None`` when not measured.
    change, interval : head against base in `change_unit`: a difference, or percent for times and sizes.
    p : of the test of no change; ``None`` for facts and advisory rows, which are not tested.
    p_adjusted : after Holm, over all tested rows of the comparison.
    lost, won, n : samples that only the base, and only the head, gets right, of n.
    base_launches, head_launches : numbers of runs of pytest with the values.
    advisory : there are too few launches to judge.
    moved : the engine whose latency changed; empty when it is not known.
    candidate_change_pct, reference_change_pct : of the two median latencies; > 0 is slower.
    machine : on which the latencies were measured.
    differs : other properties that differ between base and head; only for rows that changed.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    quantity: Quantity
    outcome: Outcome
    base: float | str | None
    head: float | str | None
    unit: str = ""
    better: Better | None = None
    change: float | None = None
    change_unit: str = ""
    interval: Interval | None = None
    p: Probability | None = None
    p_adjusted: Probability | None = None
    lost: Count | None = None
    won: Count | None = None
    n: Count | None = None
    base_launches: Count = 1
    head_launches: Count = 1
    advisory: bool = False
    moved: Moved = ""
    candidate_change_pct: float | None = None
    reference_change_pct: float | None = None
    machine: str = ""
    differs: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether base and head differ."""
        return self.outcome in CHANGED


@dataclass(frozen=True, slots=True)
class Listed:
    """A series that only base or only head has, with its status there.

    `accepted` is the reason with which its removal was accepted; empty where it was not.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    status: str
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A test that has another node id, and the same model, engine, batch size and metric."""

    base_series: str
    head_series: str
    base_nodeid: str
    head_nodeid: str
    model: str
    engine_id: str


@dataclass(frozen=True, slots=True)
class Reversioned:
    """A series with another metric, or other evaluation data with too few samples in common.

    Its scores are shown and not compared; what needs no equal data, its size for example, is compared in rows.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    unit: str
    base: float | None
    head: float | None
    what: Literal["evaluation data", "metric"]


@dataclass(frozen=True, slots=True)
class Flaky:
    """A test whose launches of the head disagree where those of the base agreed.

    Attributes
    ----------
    series, nodeid, model, engine_id : of the head.
    quantity : what differs between the launches.
    base, head : the values and the number of launches with each, ``PASS in 2, FAIL in 1 of 3 launches``.
    worse : a launch of the head is worse than those of the base.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    quantity: Literal["status", "accuracy"]
    base: str
    head: str
    worse: bool


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head: its commit and branch, where all its runs agree, and the numbers of its launches and checks."""

    commit: str | None
    branch: str | None
    dirty: bool
    launches: Count
    checks: Count


@dataclass(frozen=True, slots=True)
class Comparison:
    """Base and head, series by series.

    Attributes
    ----------
    rows : one for each series and quantity, regressions first.
    added, removed : series that only the head, and only the base, has.
    renamed : tests with another node id, which are also compared in `rows`.
    reversioned : series whose scores are not compared.
    flaky : tests whose launches of the head disagree, and did not at the base.
    family : number of rows that were tested together, at the level `alpha`.
    """

    base: Side
    head: Side
    rows: tuple[Row, ...] = ()
    added: tuple[Listed, ...] = ()
    removed: tuple[Listed, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    reversioned: tuple[Reversioned, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    notes: tuple[str, ...] = ()
    family: Count = 0
    alpha: float = ALPHA

    def having(self, *outcomes: Outcome) -> tuple[Row, ...]:
        """Return the rows with one of these outcomes."""
        return tuple(row for row in self.rows if row.outcome in outcomes)

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows that differ between base and head."""
        return self.having(*CHANGED)
