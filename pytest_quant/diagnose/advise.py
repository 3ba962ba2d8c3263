"""Advice about a broken limit: remedies are tried within a time budget, and only those that helped are advised."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

from pytest_quant.backends.offer import Remedy, exclude_nodes
from pytest_quant.clocks import REAL
from pytest_quant.diagnose.cause_search import find_cause
from pytest_quant.diagnose.ladder import OutOfTimeError
from pytest_quant.diagnose.next_steps import explain_float, next_steps
from pytest_quant.diagnose.trials import KEEPS_FLOATS, Effect, EngineTrials, broken
from pytest_quant.errors import QuantError
from pytest_quant.measure.build import Tools
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.result import Cause, Hint, Verdict
from pytest_quant.verdict import Judge
from pytest_quant.verdict.accuracy_limits import reference_falls_short
from pytest_quant.verdict.processors import CPUS

_PARTS = 4
_ENOUGH = 8
"""Number of worst groups that are split further; nobody pastes a longer list of nodes."""

_SMALL = 0.01
"""A group whose error is below this share of the largest is not split."""


class Group(NamedTuple):
    """Neighbouring nodes and their error: noise / signal in power when they alone are quantized."""

    nodes: tuple[str, ...]
    noise: float


def rank_nodes(
    nodes: tuple[str, ...], noise: Callable[[tuple[str, ...]], float | None], may_go_on: Callable[[], bool]
) -> tuple[list[Group], int]:
    """Rank nodes by the error of quantizing them alone, by splitting the worst group again and again.

    Parameters
    ----------
    nodes : names in the graph's order.
    noise : quantizes the given nodes only and returns noise / signal in power, infinite for outputs that cannot be
        compared, ``None`` when that engine cannot be built; such nodes are left out.
    may_go_on : whether there is time for another call of `noise`.

    Returns
    -------
    Groups of nodes by their error, the largest first, without those that have none: single nodes, or several where the
    time was over, or the error too small, to split them; and the number of nodes whose separate errors are unknown
    because the time was over.
    """
    groups: list[Group] = []
    late: list[str] = []
    whole = Group(nodes, 0.0) if nodes else None
    while whole is not None and not late:
        parts = []
        for part in _split(whole.nodes):
            if late or not may_go_on():
                late += part
                continue
            power = noise(part)
            if power is not None:
                parts.append(Group(part, power))
        # Nodes that there was no time for keep the error of the group that they belong to.
        parts += [Group(tuple(late), whole.noise)] if late else []
        groups = sorted((group for group in (*groups, *parts) if group is not whole), key=lambda group: -group.noise)
        # The worst group of several nodes that matters.
        least = _SMALL * groups[0].noise if groups else 0.0
        whole = next((group for group in groups[:_ENOUGH] if len(group.nodes) > 1 and group.noise >= least), None)
    bad = [group for group in groups if group.noise > 0.0]
    unsplit = {name for group in bad if len(group.nodes) > 1 for name in group.nodes} | set(late)
    return bad, len(unsplit) if late else 0


def _split(nodes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return up to `_PARTS` runs of neighbours of nearly equal length."""
    parts = min(_PARTS, len(nodes))
    ends = [round(len(nodes) * part / parts) for part in range(parts + 1)]
    return [nodes[begin:end] for begin, end in pairwise(ends)]


class Budget:
    """A time budget for trials; a trial is started only when it is likely to end in time.

    Parameters
    ----------
    seconds : for all trials together, from now on.
    expected_s : expected seconds of the first trial; later ones are expected to take as long as the longest of their
        kind so far, or of all kinds.
    clock : seconds.

    Attributes
    ----------
    taken_s : seconds that all trials of a kind took.
    """

    def __init__(self, seconds: float, expected_s: float = 0.0, clock: Callable[[], float] = REAL.perf_counter) -> None:
        self.seconds = seconds
        self._expected_s = expected_s
        self._longest_s: dict[str, float] = {}
        self.taken_s: dict[str, float] = defaultdict(float)
        self._clock = clock
        self._started = clock()

    def allows(self, kind: str, *, share: float = 1.0, more_s: float = 0.0) -> bool:
        """Whether a trial is likely to end in time.

        Parameters
        ----------
        kind : of the trial; trials of a kind take similarly long.
        share : of the budget in which it must end, 0..1.
        more_s : seconds that it takes longer than others of its kind.
        """
        return self.spent_s + self.expected_s(kind) + more_s <= share * self.seconds

    @property
    def spent_s(self) -> float:
        """Seconds since the budget began."""
        return self._clock() - self._started

    def expected_s(self, kind: str) -> float:
        """Return the seconds that the next trial of a kind is expected to take."""
        return self._longest_s.get(kind, max(self._longest_s.values(), default=self._expected_s))

    @contextmanager
    def trial(self, kind: str, *, more_s: float = 0.0) -> Iterator[None]:
        """Time one trial; `more_s` of it are particular to it and not expected of the next."""
        began = self._clock()
        try:
            yield
        finally:
            took_s = self._clock() - began
            self.taken_s[kind] += took_s
            self._longest_s[kind] = max(self._longest_s.get(kind, 0.0), took_s - more_s)


_CAUSE = 0.4
"""Share of the time within which the cause must be known; what follows from it saves more."""

_SHARES = {"nodes": 0.4, "list": 0.6, "option": 1.0}
"""Kinds of trials in their order, and the shares of the time within which they must end: splitting groups of nodes,
lists of nodes, other options."""

_LONGEST_LIST = 16
_WORTH_MORE_NODES = 0.05
"""A longer list is advised only where it closes this much more of the distance to the limit."""


_NOT_NODES = ("calibration", "range")
"""Stages of a cause for which leaving nodes in float would only hide what is wrong."""


class Advice:
    """One search for remedies of a broken limit, and its results so far."""

    def __init__(self, trials: EngineTrials, budget: Budget, cause: Cause | None = None) -> None:
        self._trials = trials
        self._cause = cause
        self._budget = budget
        self._built = 0
        self._mixed = ""
        self._late: list[str] = []
        self._late_engines: Counter[str] = Counter()
        self._late_more_s: dict[str, float] = defaultdict(float)
        self._begun_s = budget.spent_s
        self._useless: list[str] = []
        self._trades: dict[str, Effect] = {}
        self._failed: dict[str, list[str]] = defaultdict(list)

    def hints(self) -> tuple[Hint, ...]:
        """Try lists of nodes to leave in float, then other options; return what helped, the best first."""
        excluded = list(self._excluded())
        options = sorted(self._options(), key=_rank)[:2]
        samples = self._trials.samples
        effects = sorted([*excluded, *options, *self._trades.values()], key=_rank)
        found = [effect.trade(samples) if effect.trades else effect.hint(samples) for effect in effects]
        return (*found, *self._said())

    def _excluded(self) -> Iterator[Effect]:
        """Yield the best list of nodes to exclude, if one helps: the shortest that mends, else that with most gain."""
        is_elsewhere = self._cause is not None and self._cause.stage in _NOT_NODES
        nodes = () if self._ranges_do_not_matter() or is_elsewhere else self._trials.nodes()
        if len(nodes) < 2:
            return
        best: Effect | None = None
        effect: Effect | None = None
        for chosen in self._candidates(nodes):
            effect = self._tried(exclude_nodes(self._trials.spec, chosen), "list") or effect
            if effect is not None and effect.helps and (best is None or effect.gain >= best.gain + _WORTH_MORE_NODES):
                best = effect
            if best is not None and best.mends:
                break
        if best is not None:
            yield best
        elif effect is not None and not self._trades:
            self._useless.append(effect.remedy.paste)

    def _candidates(self, nodes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the nodes that the cause names, then lists of the worst ones, which takes an engine for each group."""
        named = tuple(name for name in nodes if self._cause is not None and name in self._cause.nodes)
        if named:
            yield named
        yield from _lists(self._ranking(nodes), nodes)

    def _ranking(self, nodes: tuple[str, ...]) -> list[Group]:
        spec = self._trials.spec

        def noise(quantized: tuple[str, ...]) -> float | None:
            others = [name for name in nodes if name not in quantized]
            self._built += 1
            with self._budget.trial("nodes"):
                return self._trials.noise(exclude_nodes(spec, others).spec)

        groups, mixed = rank_nodes(nodes, noise, lambda: self._budget.allows("nodes", share=_SHARES["nodes"]))
        if mixed:
            self._mixed = f"{mixed} of {len(nodes)} nodes were not ranked"
            # One engine for each node, and one for each group of them on the way.
            self._late_engines["nodes"] = min(mixed * _PARTS // (_PARTS - 1), _ENOUGH * _PARTS)
        return groups

    def _options(self) -> Iterator[Effect]:
        for remedy in self._trials.remedies():
            # Calibration has no influence on coverage, size, and the weights whose sums saturate.
            if self._ranges_do_not_matter() and remedy.spec.calibration != self._trials.spec.calibration:
                continue
            effect = self._tried(remedy, "option")
            if effect is not None and effect.helps:
                yield effect
            elif effect is not None and not effect.trades:
                self._useless.append(remedy.paste)

    def _ranges_do_not_matter(self) -> bool:
        return {*KEEPS_FLOATS, CPUS}.issuperset(broken(self._trials.before.verdicts))

    def _tried(self, remedy: Remedy, kind: str) -> Effect | None:
        """Return the effect of `remedy`; ``None`` if the mark has it, or there was no time, or it was not measured."""
        if remedy.spec == self._trials.spec:
            return None
        if not self._budget.allows(kind, share=_SHARES[kind], more_s=remedy.more_s):
            self._late.append(remedy.paste)
            self._late_engines[kind] += 1
            self._late_more_s[kind] += remedy.more_s
            return None
        self._built += 1
        with self._budget.trial(kind, more_s=remedy.more_s):
            try:
                after = self._trials.judged(remedy.spec)
            except QuantError as error:
                self._failed[error.what].append(remedy.paste)
                return None
        effect = Effect(remedy, self._trials.before, after)
        # Of the lists of nodes, and of the values of one option, the best is told.
        key = remedy.paste.partition("=")[0]
        if effect.trades and (key not in self._trades or effect.gain > self._trades[key].gain):
            self._trades[key] = effect
        return effect

    def _enough_s(self) -> float:
        """Return in what time all that was not begun would have been tried, by what the trials so far took."""
        needed_s, options_s, enough_s = self._begun_s, 0.0, 0.0
        for kind, share in _SHARES.items():
            late = self._late_engines[kind]
            options_s = self._budget.taken_s[kind] + late * self._budget.expected_s(kind) + self._late_more_s[kind]
            needed_s += options_s
            enough_s = max(enough_s, needed_s / share if late else 0.0)
        # With all nodes ranked, more lists may be tried, for as long as their share lasts.
        return max(enough_s, options_s / (1.0 - _SHARES["list"]))

    def _said(self) -> Iterator[Hint]:
        if self._late or self._mixed:
            left = [*([self._mixed] if self._mixed else []), *(f"{paste} was not tried" for paste in self._late)]
            seconds, kind = self._budget.seconds, next(iter(self._late_engines))
            engines = f"{self._built} other engine{'' if self._built == 1 else 's'}"
            tried = f", {engines} {self._budget.spent_s - self._begun_s:.3g} s" if self._built else ""
            within = f"the first {_SHARES[kind] * seconds:g} of {seconds:g} s" if kind != "option" else f"{seconds:g} s"
            yield Hint(
                f"running the candidate again took {self._begun_s:.3g} s{tried}, and another engine of about "
                f"{self._budget.expected_s(kind):.3g} s would not have ended within {within}: {'; '.join(left)}",
                f"--quant-diagnose-time={10 * math.ceil(self._enough_s() / 10)}",
            )
        for why, pastes in self._failed.items():
            yield Hint(f"could not be measured: {'; '.join(pastes)}: {why}")
        if self._useless:
            yield Hint(f"tried on {self._trials.samples} without gain: {'; '.join(self._useless)}")
        if not (self._built or self._late):
            spec = self._trials.spec
            yield Hint(f"nothing was tried: '{spec.backend}' has no other way to {spec.precision} for this model")


def _rank(effect: Effect) -> tuple[bool, bool, float, float]:
    """Return a sort key: what repairs all broken limits first, of that what breaks none and costs least coverage."""
    repairs = effect.gain == 1.0
    lost_pct = (effect.before.coverage_pct or 0.0) - (effect.after.coverage_pct or 0.0)
    return not repairs, effect.trades, lost_pct if repairs else 0.0, -effect.gain


def _lists(groups: Sequence[Group], nodes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield lists of the worst nodes, each longer than the list before, in the graph's order; never all nodes."""
    chosen: set[str] = set()
    for group in groups:
        chosen.update(group.nodes)
        if len(chosen) > _LONGEST_LIST or len(chosen) == len(nodes):
            return
        yield tuple(name for name in nodes if name in chosen)


def find_hints(
    measurement: Measurement, verdicts: Sequence[Verdict], judge: Judge, seconds: float, tools: Tools
) -> tuple[Cause | None, tuple[Hint, ...]]:
    """Return why a limit is broken, as far as that is found, and hints about the broken limits, the best first.

    Remedies are tried unless an engine is nondeterministic, which would make the results of trials meaningless, or the
    wrong file was given, or the reference breaks the limits too.

    Parameters
    ----------
    measurement : of the check, with open engines.
    verdicts : of all its limits.
    judge : of the check's limits.
    seconds : approximate budget for trials; 0 for none.
    tools : the cache, and the messages to the user.
    """
    others = tuple(next_steps(measurement, verdicts))
    limits = broken(verdicts)
    is_float = "min_coverage" in limits and measurement.coverage.most_pct == 0.0
    if is_float and (what := explain_float(measurement.check.candidate)):
        return None, (what, *others)
    if seconds == 0.0 or not limits:
        return None, others
    if measurement.accuracy_again is not None:
        return None, (Hint("nothing was tried: an engine gives other outputs in each run, as any trial would"), *others)
    too = [Hint(f"nothing was tried: FP32 breaks {', '.join(limits)} too")]
    falls_short = all(reference_falls_short(verdict, measurement.accuracy) for verdict in verdicts if broken([verdict]))
    if falls_short and measurement.original is None:
        return None, (*too, *others)
    built = measurement.bench.candidate.built
    doing = f"{built.name} breaks {', '.join(limits)}: trying for {seconds:g} s what repairs it"
    times = measurement.check.latency is not None
    devices = built.backend.device, measurement.bench.reference.built.backend.device
    cause = None
    with tools.steps.show(doing), tools.locks.shared(*devices, waits=times):
        try:
            budget = Budget(seconds, (built.build_s or 0.0) - (built.calibration_s or 0.0))
            try:
                cause = find_cause(measurement, limits, judge, _CAUSE * seconds, tools)
            except OutOfTimeError as error:
                late = f"the cause was not found within the first {_CAUSE * seconds:g} of {seconds:g} s"
                late = "; ".join([late, *error.__notes__])
                others = (*others, Hint(late, f"--quant-diagnose-time={4 * seconds:g}"))
            except QuantError as error:
                others = (*others, Hint(f"the cause was not looked for: {error.what}"))
            if falls_short:
                return cause if cause is not None and cause.stage == "export" else None, (*too, *others)
            tools.steps.describe(doing)
            trials = EngineTrials(measurement.bench, measurement, judge, tools, seconds)
            return cause, (*Advice(trials, budget, cause).hints(), *others)
        except Exception as error:
            # The verdict is known already: an error in a trial becomes a hint, and must not replace the verdict.
            broke_off = Hint(f"looking for what repairs it broke off with {type(error).__name__}: {error}")
            return cause, (broke_off, *others)
