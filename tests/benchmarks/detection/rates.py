"""Shares of trials with their exact interval, as the table prints them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scipy.stats import binomtest

from pytest_quant.result import Status
from tests.benchmarks.detection.ledger import Found, Ledger

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `n` trials."""

    hits: int
    n: int

    @property
    def pct(self) -> float:
        """The share in percent; 0 without a trial."""
        return 100.0 * self.hits / self.n if self.n else 0.0

    @property
    def interval_pct(self) -> tuple[float, float]:
        """The two-sided exact interval (Clopper and Pearson 1934, Biometrika 26, 404-413), in percent."""
        if not self.n:
            return 0.0, 100.0
        result = binomtest(self.hits, self.n).proportion_ci(CONFIDENCE, method="exact")
        return 100.0 * float(result.low), 100.0 * float(result.high)

    def __str__(self) -> str:
        """The share, its interval and the number of trials."""
        if not self.n:
            return "not run"
        low, high = self.interval_pct
        return f"{self.pct:.3g} % [{low:.1f}, {high:.1f}] n={self.n}"


def rate(outcomes: Iterable[bool]) -> Rate:
    """Count outcomes."""
    result = list(outcomes)
    return Rate(sum(result), len(result))


def counted(ledger: Ledger, arm: str, hits: str) -> Rate:
    """Add up what the batches of an arm counted under the name `hits`, and their trials under ``n``."""
    trials = ledger.trials(arm)
    return Rate(*(sum(int(str(trial[what])) for trial in trials) for what in (hits, "n")))


def having(trials: Iterable[Found], status: Status) -> Rate:
    """Count the trials that ended with a status."""
    return rate(trial["status"] == status.value for trial in trials)
