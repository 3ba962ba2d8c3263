"""The effect of another engine on broken limits, and its description as a hint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_quant.backends.offer import Remedy
from pytest_quant.result import Hint, Status, Verdict
from pytest_quant.spec import LIMITS, limits_on

FIGURES: Mapping[str, tuple[str, str]] = {
    "outputs": ("outputs that cannot be compared", ""),
    **{name: (limit.called, f" {limit.unit}".rstrip()) for name, limit in LIMITS.items()},
}
"""The name and the unit of the figure of each limit. One that names an output is written ``min_sqnr_db[scores]``."""

_REPAIRABLE = frozenset({"outputs", *limits_on("score", "accuracy", "output", "coverage")})
"""Limits whose figure depends on how a model is quantized."""

_LEAST_GAIN = 0.05
"""A remedy helps when it closes at least this share of the distance to a limit."""

_NOT_HELD = (Status.FAIL, Status.INCONCLUSIVE)
"""A figure that was not measured repairs nothing."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """An engine's verdicts, and its coverage in percent of all eligible compute, whatever its limit refers to."""

    verdicts: Sequence[Verdict]
    coverage_pct: float | None = None


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
        return not self._worsened and all(verdict is None or verdict.status not in _NOT_HELD for verdict in afters)

    @property
    def gain(self) -> float:
        """The closed share of the distance to the limit, the least over all limits; 1 mends, below 0 is worse."""
        return min((self._gain(limit) for limit in self.limits), default=0.0)

    @property
    def lost_coverage(self) -> float:
        """Percentage points of coverage that the remedy costs."""
        return (self.before.coverage_pct or 0.0) - (self.after.coverage_pct or 0.0)

    @property
    def helps(self) -> bool:
        """Whether a broken limit comes closer, none moves away, and no other limit is broken."""
        return bool(self._closer) and not self._worsened

    @property
    def trades(self) -> bool:
        """Whether a broken limit comes closer, and another one moves away or is broken now."""
        return bool(self._closer and self._worsened)

    @property
    def _closer(self) -> list[str]:
        return [limit for limit in self.limits if self._gain(limit) >= _LEAST_GAIN]

    @property
    def _worsened(self) -> list[str]:
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
        if math.isinf(gone) or math.isnan(gone) or way == 0.0:
            return 0.0
        return gone / way

    def trade(self, samples: str) -> Hint:
        """Return a hint that says which figures gain and which lose, measured on `samples`; nothing to paste."""
        gained = ", ".join(_change(limit, *self._both(limit)) for limit in self._closer)
        lost = [
            f"{_change(limit, *self._both(limit))} {'is further from' if limit in self.limits else 'breaks'} {limit}"
            for limit in self._worsened
        ]
        return Hint(f"{self.remedy.paste}: {gained}, but {' and '.join(lost)}, on {samples}")

    def hint(self, samples: str) -> Hint:
        """Return a hint that describes the change, measured on `samples`."""
        limit = self.limits[0]
        changes = [_change(name, *self._both(name)) for name in self.limits]
        text = f"{', '.join(changes)} on {samples}"
        if self.mends:
            text += ", which repairs it"
        text += self._cost()
        if any(verdict.limit.startswith(limits_on("latency")) for verdict in self.before.verdicts):
            text += "; not timed"
        before, after = (None if verdict is None else verdict.observed for verdict in self._both(limit))
        return Hint(text, self.remedy.paste, limit, before, after)

    def _cost(self) -> str:
        """Describe the change of coverage, unless it is among the changes of limits already."""
        figures = self.before.coverage_pct, self.after.coverage_pct
        shown = tuple(None if verdict is None else verdict.observed for verdict in self._both("min_coverage"))
        if None in figures or figures[0] == figures[1] or ("min_coverage" in self.limits and shown == figures):
            return ""
        return f"; coverage {figures[0]:.2f} -> {figures[1]:.2f} % of all compute"

    def _both(self, limit: str) -> tuple[Verdict | None, Verdict | None]:
        """Return the verdicts on a limit; coverage of two schemes is that of all compute on both sides."""
        sides = (self.before, self.after)
        before, after = (_named(side.verdicts, limit) for side in sides)
        if limit != "min_coverage" or before is None or after is None:
            return before, after
        of_all = [verdict.observed == side.coverage_pct for verdict, side in zip((before, after), sides, strict=True)]
        if of_all[0] == of_all[1]:
            return before, after
        return _of_all_compute(before, self.before), _of_all_compute(after, self.after)


def _of_all_compute(verdict: Verdict, side: TrialResult) -> Verdict:
    holds = side.coverage_pct is not None and side.coverage_pct >= (verdict.allowed or 0.0)
    return replace(verdict, observed=side.coverage_pct, status=Status.PASS if holds else Status.FAIL)


def broken(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the broken limits whose figure depends on how a model is quantized."""
    failed = (verdict.limit for verdict in verdicts if verdict.status is Status.FAIL)
    return tuple(limit for limit in failed if _kind(limit) in _REPAIRABLE)


def _kind(limit: str) -> str:
    return limit.partition("[")[0]


def _named(verdicts: Iterable[Verdict], limit: str) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict.limit == limit), None)


def _change(limit: str, before: Verdict | None, after: Verdict | None) -> str:
    name, unit = FIGURES[_kind(limit)]
    where = limit.removeprefix(_kind(limit))
    return f"{name}{where} {_figure(limit, before)} -> {_figure(limit, after)}{unit}"


def _figure(limit: str, verdict: Verdict | None) -> str:
    if verdict is None:
        return "0" if limit == "outputs" else "-"
    value = verdict.observed
    if value is None:
        return "-"
    return f"{value + 0.0:.2f}" if FIGURES[_kind(limit)][1] == " %" else f"{value + 0.0:.6g}"
