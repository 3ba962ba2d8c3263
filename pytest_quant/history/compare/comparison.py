"""What a comparison of two commits found: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_quant.result import Interval

ALPHA = 0.01
"""Chance that a comparison without any true change shows a regression or an improvement by a test."""

CONFIDENCE = 0.95
"""Of each interval by itself."""


class Outcome(StrEnum):
    """What became of one quantity, in the order in which a reader wants to see them.

    ``worse`` and ``better`` are changes that do not gate: too small, not proven, or advisory. ``changed`` has no
    better or worse side. ``no_baseline`` could not be compared with anything at the base.
    """

    REGRESSION = "regression"
    WORSE = "worse"
    IMPROVEMENT = "improvement"
    BETTER = "better"
    CHANGED = "changed"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no_baseline"
    UNCHANGED = "unchanged"


CHANGED = (Outcome.REGRESSION, Outcome.WORSE, Outcome.IMPROVEMENT, Outcome.BETTER, Outcome.CHANGED)
"""Outcomes of rows that differ between base and head."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something else that is not the same, which a change may be traced to; ``None`` where it is not known."""

    name: str
    base: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one series at base and head.

    Attributes
    ----------
    series, nodeid, model, engine_id : of the head.
    quantity : ``status accuracy drop agreement sqnr size coverage nodes speedup p50``.
    unit : of `base` and `head`; empty when they have none.
    better : ``higher``, ``lower``, or ``None``.
    base, head : the values; a text for statuses and counts of nodes, ``None`` when not measured.
    change, interval : head against base in `change_unit`: a difference, or percent for times and sizes.
    p : of the test that there is no change; ``None`` where nothing is tested, because it is a fact or advisory.
    p_adjusted : after Holm, over all tested rows of the comparison.
    lost, won, n : samples that only the base, and only the head, gets right, of n.
    base_launches, head_launches : runs of pytest behind the values.
    advisory : too few launches to judge.
    moved : ``candidate reference both``, or empty when that cannot be told.
    candidate_change_pct, reference_change_pct : of the two median latencies; > 0 is slower.
    machine : where latencies were measured.
    differs : what else differs between base and head; only of rows that changed.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    quantity: str
    outcome: Outcome
    base: float | str | None
    head: float | str | None
    unit: str = ""
    better: str | None = None
    change: float | None = None
    change_unit: str = ""
    interval: Interval | None = None
    p: float | None = None
    p_adjusted: float | None = None
    lost: int | None = None
    won: int | None = None
    n: int | None = None
    base_launches: int = 1
    head_launches: int = 1
    advisory: bool = False
    moved: str = ""
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
    """A series that only one of base and head has, with the status it has there."""

    series: str
    nodeid: str
    model: str
    engine_id: str
    status: str


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
    """A series with another metric, or other evaluation data with too few samples in common: shown, not compared."""

    series: str
    nodeid: str
    model: str
    engine_id: str
    metric: str | None
    unit: str
    base: float | None
    head: float | None
    what: str


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head: its commit and branch as far as all its runs agree, and its launches, one for each run."""

    commit: str | None
    branch: str | None
    dirty: bool
    launches: int
    checks: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Base and head, series by series.

    Attributes
    ----------
    rows : one for each series and quantity, regressions first.
    added, removed : series that only the head, and only the base, has.
    renamed : also compared, in `rows`.
    reversioned : not compared.
    family : rows that were tested together, at the level `alpha`.
    """

    base: Side
    head: Side
    rows: tuple[Row, ...] = ()
    added: tuple[Listed, ...] = ()
    removed: tuple[Listed, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    reversioned: tuple[Reversioned, ...] = ()
    notes: tuple[str, ...] = ()
    family: int = 0
    alpha: float = ALPHA

    def having(self, *outcomes: Outcome) -> tuple[Row, ...]:
        """Return the rows with one of these outcomes."""
        return tuple(row for row in self.rows if row.outcome in outcomes)

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows that differ between base and head."""
        return self.having(*CHANGED)
