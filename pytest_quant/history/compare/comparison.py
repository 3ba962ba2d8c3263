"""The result of a comparison of two commits as frozen values, and its one word with the exit code."""

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


def worse_or_better(worse: bool, *, proven: bool) -> Outcome:
    """Return the outcome of a change, which fails a comparison only when it is worse and `proven`."""
    if worse:
        return Outcome.REGRESSION if proven else Outcome.WORSE
    return Outcome.IMPROVEMENT if proven else Outcome.BETTER


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that differs and may explain a change.

    Attributes
    ----------
    name : of the property: calibration, a digest, a library, a part of the machine.
    base : its value at the base; ``None`` where the base does not have it.
    head : its value at the head; ``None`` where the head does not have it.
    """

    name: str
    base: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one series at base and head.

    Attributes
    ----------
    series : key of the series, of the head.
    nodeid : the test, as pytest spells it, of the head.
    model : name of the model, of the head.
    engine_id : the candidate's readable name, ``ort-int8-static``, of the head.
    quantity : what is compared: ``p50`` is the candidate's own median latency, ``drop`` the loss against the reference,
        ``nodes`` how many nodes are quantized.
    outcome : what the comparison of this quantity found.
    unit : of `base` and `head`; empty when they have none.
    better : which way the quantity is better; ``None`` where neither is.
    base : value at the base; text for statuses and counts of nodes, ``None`` when not measured.
    head : value at the head, in the same form.
    change : head against base in `change_unit`; ``None`` where it is not a number.
    change_unit : ``%`` for times and sizes, else that of a difference, ``pp`` for percentages.
    interval : of `change`, at the level `confidence` of the document; ``None`` for facts.
    p : of the test of no change; ``None`` for facts and advisory rows, which are not tested.
    p_adjusted : after Holm, over all tested rows of the comparison.
    lost : samples that only the base gets right; ``None`` unless scores are 0/1.
    won : samples that only the head gets right; ``None`` unless scores are 0/1.
    n : samples that were compared; ``None`` where the quantity is not about samples.
    base_launches : launches of the base with a value.
    head_launches : launches of the head with a value.
    advisory : there are too few launches to judge.
    moved : the engine whose latency changed; empty when it is not known.
    candidate_change_pct : change of the candidate's median latency in percent, > 0 is slower; ``None`` for quantities
        other than latency.
    reference_change_pct : change of the reference's median latency, in the same way.
    machine : on which the latencies were measured; empty for other quantities.
    differs : other properties that differ between base and head; only for rows that changed.
    notes : what else the reader should know, one sentence each.
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
    """A series that only base or only head has.

    Attributes
    ----------
    series : its key.
    nodeid : the test, as pytest spells it.
    model : name of the model.
    engine_id : the candidate's readable name, ``ort-int8-static``.
    status : of its check on the side that has it.
    accepted : the reason with which its removal was accepted; empty where it was not.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    status: str
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A test that has another node id, and the same model, engine, batch size and metric.

    Attributes
    ----------
    base_series : key of the series at the base.
    head_series : key of the series at the head.
    base_nodeid : the test at the base, as pytest spells it.
    head_nodeid : the test at the head, as pytest spells it.
    model : name of the model.
    engine_id : the candidate's readable name, ``ort-int8-static``.
    """

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

    Attributes
    ----------
    series : its key.
    nodeid : the test, as pytest spells it, of the head.
    model : name of the model.
    engine_id : the candidate's readable name, ``ort-int8-static``.
    metric : of the head; ``None`` without one.
    unit : of the scores of the head; empty without a metric.
    base : the candidate's score at the base, by the metric and on the data of the base; ``None`` without one.
    head : the candidate's score at the head, by the metric and on the data of the head; ``None`` without one.
    what : what changed.
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
class Side:
    """Base or head.

    Attributes
    ----------
    commit : its full id; ``None`` where its runs are of commits that differ in content.
    branch : ``None`` where its runs are of several branches, or it is not known.
    dirty : a run of it had uncommitted changes.
    launches : runs of pytest.
    checks : records in all of them.
    """

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
    family : number of rows that were tested together, at the level `alpha`.
    """

    base: Side
    head: Side
    rows: tuple[Row, ...] = ()
    added: tuple[Listed, ...] = ()
    removed: tuple[Listed, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    reversioned: tuple[Reversioned, ...] = ()
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


OK, REGRESSION, INCONCLUSIVE, NO_BASELINE = 0, 1, 3, 4


class Word(StrEnum):
    """The result of a comparison: `regression` with exit code 1 only, `ok` with 0 only, `inconclusive` with 3 only.

    ``no_baseline`` and ``nothing_to_compare`` have 4 under strict and else 0.
    """

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no_baseline"
    NOTHING = "nothing_to_compare"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The word of a comparison, its exit code, and the removed tests that make it a regression."""

    word: Word
    code: int
    missing: tuple[Listed, ...] = ()


def rule(comparison: Comparison, *, strict: bool = False, full_suite: bool = False) -> Ruling:
    """Return what a comparison comes to: a regression, or under `strict` what cannot be decided, or neither.

    Parameters
    ----------
    comparison : of two commits.
    strict : ``inconclusive`` where a quantity could not be judged, with too few launches for example, or where a test
        fails in some launches of the head and in none of the base; ``no_baseline`` where there is no base at all, or
        the base does not have a quantity, a machine or a version of the data. An added test is none of these.
    full_suite : base and head ran every test, so that a missing one was removed, which is a regression unless the
        removal was accepted.
    """
    missing = tuple(listed for listed in comparison.removed if not listed.accepted) if full_suite else ()
    if missing or comparison.having(Outcome.REGRESSION):
        return Ruling(Word.REGRESSION, REGRESSION, missing)
    no_base = NO_BASELINE if strict else OK
    if not comparison.head.checks:
        return Ruling(Word.NOTHING, OK if comparison.base.checks else no_base)
    if not comparison.base.checks:
        return Ruling(Word.NO_BASELINE, no_base)
    if strict and _undecided(comparison):
        return Ruling(Word.INCONCLUSIVE, INCONCLUSIVE)
    if strict and (comparison.having(Outcome.NO_BASELINE) or comparison.reversioned):
        return Ruling(Word.NO_BASELINE, NO_BASELINE)
    return Ruling(Word.OK, OK)


def _undecided(comparison: Comparison) -> bool:
    return any(row.advisory for row in comparison.rows) or bool(comparison.having(Outcome.INCONCLUSIVE))
