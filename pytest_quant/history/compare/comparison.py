"""A comparison of two commits as frozen values, and its one word with the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from pytest_quant.history.shards import Unreported
from pytest_quant.result import Better, Count, Interval, Probability

ALPHA = 0.01
"""Probability that a comparison without any true change has a regression or an improvement by a test."""

CONFIDENCE = 0.95
"""Level of each single interval."""


Quantity: TypeAlias = Literal["status", "accuracy", "drop", "agreement", "sqnr", "size", "coverage", "speedup", "p50"]

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


def choose_outcome(worse: bool, *, proven: bool) -> Outcome:
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
    digest_of : what the values are digests of; empty for other properties.
    """

    name: str
    base: str | None
    head: str | None
    digest_of: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one series at base and head.

    Attributes
    ----------
    series : key of the series, of the head.
    nodeid : the test, as pytest spells it, of the head.
    model : name of the model, of the head.
    engine_id : the candidate's readable name, ``ort-int8-static``, of the head.
    quantity : what is compared: ``p50`` is the candidate's own median latency, ``drop`` the loss against the reference.
    outcome : what the comparison of this quantity found.
    unit : of `base` and `head`; empty when they have none.
    better : which way the quantity is better; ``None`` where neither is.
    base : value at the base; text for statuses, ``None`` when not measured.
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
    """A series that only base or only head has, or that has another test's name.

    Attributes
    ----------
    series : its key, of the head where that has it.
    nodeid : the test, as pytest spells it.
    model : name of the model.
    engine_id : the candidate's readable name, ``ort-int8-static``.
    status : of its last check.
    accepted : the reason with which its removal was accepted; empty where it was not.
    skipped : why the head skipped the test before its check; empty where it did not.
    uncollected : why the head could not collect the test; empty where it could, or has none.
    base_nodeid : the test at the base, where a renamed one has another node id there; else empty.
    """

    series: str
    nodeid: str
    model: str
    engine_id: str
    status: str
    accepted: str = ""
    base_nodeid: str = ""
    skipped: str = ""
    uncollected: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """Base or head.

    Attributes
    ----------
    commit : full id of that of its last run; ``None`` without one.
    branch : ``None`` where its runs are of several branches, or it is not known.
    dirty : a run of it had uncommitted changes.
    runs : runs of pytest.
    checks : records in all of them.
    partial : each of the runs was one of a part of the suite, so that a test without a record may be there after all.
    """

    commit: str | None
    branch: str | None
    dirty: bool
    runs: Count
    checks: Count
    partial: bool = False


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
class Comparison:
    """Base and head, series by series, and what they come to.

    Attributes
    ----------
    base : what is compared with.
    head : what is compared.
    rows : one for each series and quantity, regressions first.
    added : series that only the head has; those of a `partial` base may be older.
    removed : series that only the base has, those that the head skipped, could not collect or did not run among them.
    renamed : tests with another node id, which are also compared in `rows`.
    notes : what else the reader should know, one sentence each.
    family : number of rows that were tested together, at the level `alpha`.
    alpha : probability that any row is called a change by a test where nothing changed, 0..1.
    strict : what cannot be decided has an exit code of its own.
    full_suite : the head ran every test, so that a missing one was removed, which is a regression unless the removal
        was accepted.
    about : lines that name base and head, and where their records are from.
    unreported : shards of the head that never reported, and tests of the suite that none of them ran; a regression.
    """

    base: Side
    head: Side
    rows: tuple[Row, ...] = ()
    added: tuple[Listed, ...] = ()
    removed: tuple[Listed, ...] = ()
    renamed: tuple[Listed, ...] = ()
    notes: tuple[str, ...] = ()
    family: Count = 0
    alpha: float = ALPHA
    strict: bool = False
    full_suite: bool = False
    about: tuple[str, ...] = ()
    unreported: Unreported = field(default_factory=Unreported)

    def select_rows(self, *outcomes: Outcome) -> tuple[Row, ...]:
        """Return the rows with one of these outcomes."""
        return tuple(row for row in self.rows if row.outcome in outcomes)

    def replace_rows(self, rows: Iterable[Row]) -> Comparison:
        """Return the comparison with these rows: by outcome, then by test."""
        order = list(Outcome)
        by_outcome = sorted(rows, key=lambda row: (order.index(row.outcome), row.nodeid, row.series, row.quantity))
        return replace(self, rows=tuple(by_outcome), family=sum(row.p is not None for row in by_outcome))

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows that differ between base and head."""
        return self.select_rows(*CHANGED)

    @property
    def missing(self) -> tuple[Listed, ...]:
        """The tests without a record that make it a regression: those that are gone, or cannot be collected."""
        gone = (listed for listed in self.removed if listed.uncollected or (self.full_suite and not listed.accepted))
        return tuple(listed for listed in gone if not listed.skipped)

    @property
    def verdict(self) -> Word:
        """The result in one word.

        Under strict a quantity that could not be judged, with too few launches for example, a test that fails in some
        launches of the head and in none of the base, or one that the head skipped makes it inconclusive. A base without
        a quantity, a machine or a version of the data is no baseline then. An added test is none of these.
        """
        if self.missing or self.unreported or self.select_rows(Outcome.REGRESSION):
            return Word.REGRESSION
        if self.strict and any(listed.skipped for listed in self.removed):
            return Word.INCONCLUSIVE
        if not self.head.checks:
            return Word.NOTHING
        if not self.base.checks:
            return Word.NO_BASELINE
        if self.strict and (self.select_rows(Outcome.INCONCLUSIVE) or any(row.advisory for row in self.rows)):
            return Word.INCONCLUSIVE
        return Word.NO_BASELINE if self.strict and self.select_rows(Outcome.NO_BASELINE) else Word.OK

    @property
    def exit_code(self) -> int:
        """The exit code that says the same: 1 for a regression, and under strict 3 or 4 for what cannot be decided."""
        verdict = self.verdict
        if verdict is Word.REGRESSION:
            return 1
        # A head without records beside a base that has some is no fault of the base.
        decided = verdict is Word.OK or (verdict is Word.NOTHING and self.base.checks)
        return 0 if decided or not self.strict else 3 if verdict is Word.INCONCLUSIVE else 4
