"""Trials of remedies for a broken limit, and their effect: other engines of a check are built, run and judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pytest_quant.backends.offer import Remedy, calibrate_on_all, exclude_nodes
from pytest_quant.clocks import REAL
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.files import temporary_folder
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import Tools, build_apart
from pytest_quant.measure.engines import open_engine
from pytest_quant.measure.pipeline import EnginePair, Measurement, read_back
from pytest_quant.measure.portability import find_portability
from pytest_quant.result import AccuracyResult, Hint, OutputError, Status, Verdict
from pytest_quant.spec import ARRIVING, LIMITS, PARTS, EngineSpec, limits_on
from pytest_quant.verdict import Judge
from pytest_quant.verdict.processors import CPUS

(_COVERAGE,) = limits_on("coverage")
_REPAIRABLE = frozenset({"outputs", *limits_on("score", "accuracy", "output", "coverage"), "max_size_mb", CPUS})
"""Limits whose figure depends on how a model is quantized."""

KEEPS_FLOATS = frozenset({"min_coverage", "max_size_mb"})
"""Limits that break because too much is in float, whatever the ranges."""

_LEAST_GAIN = 0.05
"""A remedy helps when it closes at least this share of the distance to a limit."""

_NOT_HELD = (Status.FAIL, Status.INCONCLUSIVE)
"""A figure that was not measured repairs nothing."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """An engine's verdicts, and figures that no limit may have.

    Attributes
    ----------
    coverage_pct : of all eligible compute, whatever its limit refers to.
    sqnr_db : against the reference on this processor.
    size_mb : of the engine's file; 0 if it has none.
    """

    verdicts: Sequence[Verdict]
    coverage_pct: float | None = None
    sqnr_db: float | None = None
    size_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """A remedy that was tried, and the verdicts before and with it on the same samples."""

    remedy: Remedy
    before: TrialResult
    after: TrialResult

    @property
    def limits(self) -> tuple[str, ...]:
        """The broken limits that another way to quantize may mend."""
        return broken(self.before.verdicts)

    @property
    def mends(self) -> bool:
        """Whether no limit is broken with the remedy, but such as no way to quantize mends."""
        afters = (self._both(limit)[1] for limit in self.limits)
        return not self._list_worsened and all(verdict is None or verdict.status not in _NOT_HELD for verdict in afters)

    @property
    def gain(self) -> float:
        """The closed share of the distance to the limit, the least over all limits; 1 mends, below 0 is worse."""
        return min((self._gain(limit) for limit in self.limits), default=0.0)

    @property
    def helps(self) -> bool:
        """Whether a broken limit comes closer, none moves away, and no other limit is broken."""
        return bool(self._closer) and not self._list_worsened

    @property
    def trades(self) -> bool:
        """Whether a broken limit comes closer, and another limit moves away or is broken now."""
        return bool(self._closer and self._list_worsened)

    @property
    def _closer(self) -> list[str]:
        return [limit for limit in self.limits if self._gain(limit) >= _LEAST_GAIN]

    @property
    def _list_worsened(self) -> list[str]:
        failed = {verdict.limit for verdict in self.before.verdicts if verdict.status is Status.FAIL}
        broken_now = (verdict.limit for verdict in self.after.verdicts if verdict.status is Status.FAIL)
        further = (limit for limit in self.limits if self._gain(limit) < 0.0)
        return [*further, *(limit for limit in broken_now if limit not in failed)]

    def _gain(self, limit: str) -> float:
        before, after = self._both(limit)
        if before is None or after is None or after.status not in _NOT_HELD:
            return 1.0
        if before.observed is None or after.observed is None or before.allowed is None:
            return 0.0
        way = before.allowed - before.observed
        gone = after.observed - before.observed
        return gone / way if math.isfinite(gone) and way else 0.0

    def trade(self, samples: str) -> Hint:
        """Return a hint that says which figures gain and which lose, measured on `samples`; nothing to paste."""
        gained = ", ".join(show_change(limit, *self._both(limit)) for limit in self._closer)
        lost = [
            f"{show_change(name, *self._both(name))} {'is further from' if name in self.limits else 'breaks'} {name}"
            for name in self._list_worsened
        ]
        return Hint(f"{self.remedy.paste}: {gained}, but {' and '.join(lost)}, on {samples}")

    def hint(self, samples: str) -> Hint:
        """Return a hint that describes the change, measured on `samples`."""
        limit = self.limits[0]
        changes = [show_change(name, *self._both(name)) for name in self.limits]
        text = f"{', '.join(changes)} on {samples}"
        if self.mends:
            text += ", which repairs it"
        text += self._cost()
        if any(verdict.limit.startswith(limits_on("latency")) for verdict in self.before.verdicts):
            text += "; not timed"
        before, after = (None if verdict is None else verdict.observed for verdict in self._both(limit))
        return Hint(text, self.remedy.paste, limit, before, after)

    def _cost(self) -> str:
        """Describe the change of coverage, unless it is among the changes of limits already, and of the error here."""
        sqnr_db, here = (self.before.sqnr_db, self.after.sqnr_db), ""
        if CPUS in self.limits and None not in sqnr_db:
            here = f"; SQNR here {sqnr_db[0]:.4g} -> {sqnr_db[1]:.4g} dB"
        figures = self.before.coverage_pct, self.after.coverage_pct
        shown = tuple(None if verdict is None else verdict.observed for verdict in self._both(_COVERAGE))
        if None in figures or figures[0] == figures[1] or (_COVERAGE in self.limits and shown == figures):
            return here
        sizes = self.before.size_mb, self.after.size_mb
        size = f", size {sizes[0]:.3g} -> {sizes[1]:.3g} MB" if 0.0 not in sizes else ""
        return f"{here}; coverage {figures[0]:.2f} -> {figures[1]:.2f} % of all compute{size}"

    def _both(self, limit: str) -> tuple[Verdict | None, Verdict | None]:
        """Return the verdicts on a limit; for two schemes, coverage counts all compute on both sides."""
        sides = (self.before, self.after)
        before, after = (next((each for each in side.verdicts if each.limit == limit), None) for side in sides)
        if limit != _COVERAGE or before is None or after is None:
            return before, after
        of_all = [verdict.observed == side.coverage_pct for verdict, side in zip((before, after), sides, strict=True)]
        if of_all[0] == of_all[1]:
            return before, after
        return _scale_to_all(before, self.before), _scale_to_all(after, self.after)


def _scale_to_all(verdict: Verdict, side: TrialResult) -> Verdict:
    holds = side.coverage_pct is not None and side.coverage_pct >= (verdict.allowed or 0.0)
    return replace(verdict, observed=side.coverage_pct, status=Status.PASS if holds else Status.FAIL)


def broken(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the broken limits whose figure depends on how a model is quantized."""
    failed = (verdict.limit for verdict in verdicts if verdict.status is Status.FAIL)
    return tuple(limit for limit in failed if _kind(limit) in _REPAIRABLE)


def _kind(limit: str) -> str:
    """Return the limit without the output that it names, ``min_sqnr_db`` of ``min_sqnr_db[scores]``."""
    return limit.partition("[")[0]


def noise_of(limit: str, accuracy: AccuracyResult) -> float:
    """Return noise / signal in power, infinite for what cannot be compared, of the output that a broken limit is about.

    That is the output that it names, or the worst by its own figure; of a score, all outputs that the mark names.
    """
    kind, name = _kind(limit), limit.partition("[")[2].rstrip("]")
    row = LIMITS[kind] if kind in limits_on("output") else None
    if kind == "min_agreement":
        name = next(iter(accuracy.agreement_outputs), "")
    judged: list[AccuracyResult | OutputError] = [accuracy]
    if name and (row or name not in PARTS):
        judged = [output for output in accuracy.by_output if name in (output.name, output.group_of)]
    elif row and not accuracy.identical:
        worst = getattr(accuracy, row.attribute)
        judged = [output for output in accuracy.by_output if getattr(output, row.attribute) == worst]
    errors = [each.sqnr_db for each in judged if not each.identical]
    powers = [math.inf if error is None else 10.0 ** (-error / 10.0) for error in errors]
    return math.inf if accuracy.faults or not judged else max(powers, default=0.0)


def show_change(limit: str, before: Verdict | None, after: Verdict | None) -> str:
    """Return the figure of a limit before and after, with its name and unit."""
    if limit == CPUS:
        return f"{limit} {' -> '.join('-' if verdict is None else verdict.status for verdict in (before, after))}"
    row = LIMITS.get(_kind(limit))
    name, unit = (row.called, f" {row.unit}".rstrip()) if row else ("broken outputs", "")
    where = limit.removeprefix(_kind(limit))
    both = [None if verdict is None else verdict.observed for verdict in (before, after)]
    places = _decimals([value for value in both if value is not None])
    figures = [
        "0" if verdict is None and limit == "outputs" else "-" if value is None else _figure(value, unit, places)
        for verdict, value in zip((before, after), both, strict=True)
    ]
    return f"{name}{where} {figures[0]} -> {figures[1]}{unit}"


def _figure(value: float, unit: str, places: int) -> str:
    return f"{value + 0.0:.2f}" if unit == " %" else f"{round(value, places) + 0.0:.15g}"


def _decimals(values: Sequence[float]) -> int:
    """Return the decimals that a reader wants: four digits of the largest, or as many as show how far two are apart."""
    largest = max(map(abs, values), default=0.0)
    if not 0.0 < largest < math.inf:
        return 4
    apart = max(values) - min(values) or largest
    return max(3 - math.floor(math.log10(largest)), 1 - math.floor(math.log10(apart)))


_FEW = 64
_FEW_CALIBRATION = 16
_WHOLE_SHARE = 0.1
"""A trial is judged on the whole evaluation set where running it takes at most this share of the time."""


class EngineTrials:
    """The trials of one check; the engine of a trial is closed after it.

    Parameters
    ----------
    bench : the candidate whose limits are broken, the data, and the comparison with the reference.
    measured : figures of the candidate on all of the data.
    judge : of the check's limits; a trial keeps the candidate's latency.
    tools : the cache, and the messages to the user.
    seconds : time budget, which determines the number of samples that trials are judged on.

    Attributes
    ----------
    spec : of the candidate.
    samples : description of the samples that `before` and `judged` refer to, ``64 of 1797 samples``.
    before : the candidate's verdicts on these samples.
    """

    def __init__(self, bench: EnginePair, measured: Measurement, judge: Judge, tools: Tools, seconds: float) -> None:
        whole = bench.data
        self.spec = bench.candidate.spec
        self._few = whole.some(_FEW)
        self._bench = bench
        self._judge = judge
        self._tools = tools
        # A trial is evaluated once; nondeterministic engines get no trials.
        self._measured = replace(measured, accuracy_again=None, unsteady=())
        started = REAL.perf_counter()
        on_few = bench.compare(bench.candidate, self._few)
        predicted_s = (REAL.perf_counter() - started) * whole.n / self._few.n
        self._data = whole if predicted_s <= _WHOLE_SHARE * seconds else self._few
        accuracy = measured.accuracy if self._data is whole else on_few
        verdicts = judge.verdicts(replace(self._measured, accuracy=accuracy))
        self.before = TrialResult(verdicts, measured.coverage.pct, accuracy.sqnr_db, measured.resources.size_mb or 0.0)
        self.samples = f"all {whole.n} samples" if self._data is whole else f"{self._data.n} of {whole.n} samples"

    def remedies(self) -> Sequence[Remedy]:
        """Return remedies: no ``exclude`` for coverage or size, all calibration samples, and what the backend offers.

        In place of a model that is given quantized, that is each of its own ways to quantize the float model; of one
        that ran in int8, the precision that it has.
        """
        backend, spec, data = self._bench.candidate.built.backend, self.spec, self._data
        remedies: list[Remedy] = []
        if spec.exclude and not KEEPS_FLOATS.isdisjoint(broken(self.before.verdicts)):
            remedies.append(Remedy("exclude=[]", replace(spec, exclude=())))
        samples = spec.calibration.samples
        if samples is not None and samples < data.n_calibration and backend.calibration_ingredients(spec) is not None:
            remedies.append(calibrate_on_all(spec, data.n_calibration))
        if spec.scheme in ARRIVING and self._measured.coverage.int8_pct:
            remedies.append(Remedy("precision='int8'", replace(spec, precision="int8")))
        remedies += backend.remedies(spec)
        for own in backend.offer.precisions[spec.precision] if spec.quantized is not None else ():
            if own and own not in ARRIVING:
                remedies.append(Remedy(f"quantized=None, scheme={own!r}", replace(spec, quantized=None, scheme=own)))
        is_large = "max_size_mb" in broken(self.before.verdicts)
        return [each for each in remedies if self._is_offered(each.spec) and (is_large or not each.is_smaller)]

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the candidate quantizes, in the graph's order; none without ``exclude``."""
        names = self._bench.candidate.built.backend.quantized_nodes(self.spec)
        return names if names and self._is_offered(exclude_nodes(self.spec, names[:1]).spec) else ()

    def noise(self, spec: EngineSpec) -> float | None:
        """Build `spec`, and return noise / signal in power on a few samples; ``None`` when it cannot be built.

        Where excluded nodes need other ranges, few calibration samples are used, since this only ranks nodes.
        """
        backend, calibration = self._bench.candidate.built.backend, spec.calibration
        if backend.calibration_ingredients(spec) != backend.calibration_ingredients(self.spec):
            few = min(calibration.samples or _FEW_CALIBRATION, _FEW_CALIBRATION)
            spec = replace(spec, calibration=replace(calibration, samples=few))
        limit = next(iter(broken(self.before.verdicts)), "")
        try:
            with self._opened(spec) as side:
                return noise_of(limit, self._bench.compare(side, self._few))
        except QuantError:
            return None

    def judged(self, spec: EngineSpec) -> TrialResult:
        """Judge `spec` on `samples`. Raises `QuantError` if it cannot be built or run."""
        with self._opened(spec) as side:
            accuracy = self._bench.compare(side, self._data)
            size = side.batch_size if side.pads else 1
            coverage = read_back(side, self._data, side.feeds(self._data.first(size)), size)
            resources = replace(self._measured.resources, size_mb=side.engine.size_bytes / 1e6)
            check = replace(self._measured.check, candidate=side.spec)
            trial = replace(self._measured, check=check, accuracy=accuracy, coverage=coverage, resources=resources)
            if check.candidate.cpus:
                trial = replace(trial, portability=find_portability(trial, side, self._judge, self._tools))
            return TrialResult(self._judge.verdicts(trial), coverage.pct, accuracy.sqnr_db, resources.size_mb or 0.0)

    def _is_offered(self, spec: EngineSpec) -> bool:
        """Whether the backend supports `spec`; that samples to calibrate on are missing is what its trial says."""
        try:
            self._bench.candidate.built.backend.check(spec)
        except UsageError:
            return False
        return True

    @contextmanager
    def _opened(self, spec: EngineSpec) -> Iterator[OpenEngine]:
        """Build and open `spec` as the check does its engines, for the block."""
        ours, tools = self._bench.candidate, self._tools
        with temporary_folder() as work, ExitStack() as opened:
            built = build_apart(spec, ours.built, self._few, tools, work)
            engine = open_engine(built.evaluation_engine, tools, opened)
            yield replace(ours, built=built, engine=engine)
