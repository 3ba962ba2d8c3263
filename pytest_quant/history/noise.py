"""How far launches of equal engines differ: what each series shows, and what all series on one machine share."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from pytest_quant.history.summaries import CheckSummary
from pytest_quant.result import NOTHING_KNOWN, LaunchNoise
from pytest_quant.stats.launches import Launch, common_noise, days_of, moderated_noise, noise_of_steps


@dataclass(frozen=True, slots=True)
class LatencyNoise:
    """How launches differ in each figure of a latency: the speedup, and the times of candidate and reference."""

    speedup: LaunchNoise = NOTHING_KNOWN
    candidate: LaunchNoise = NOTHING_KNOWN
    reference: LaunchNoise = NOTHING_KNOWN

    @property
    def figures(self) -> tuple[LaunchNoise, LaunchNoise, LaunchNoise]:
        """All three, in their order."""
        return self.speedup, self.candidate, self.reference

    def moderated(self, prior: LatencyNoise) -> LatencyNoise:
        """Return this noise drawn to a `prior`, each figure by its degrees of freedom."""
        return LatencyNoise(*map(moderated_noise, self.figures, prior.figures))


NO_NOISE_KNOWN = LatencyNoise()


def shared_noise(series: Collection[LatencyNoise]) -> LatencyNoise:
    """Return what the noise of several series on one machine has in common, see `common_noise`."""
    return LatencyNoise(
        *(common_noise(list(figure)) for figure in zip(*(each.figures for each in series), strict=True))
    )


def noise_by_machine(points: Iterable[CheckSummary]) -> dict[str, dict[str, LatencyNoise]]:
    """Return the noise of each series, by identity of the machine and key of the series.

    Parameters
    ----------
    points : of all series, of the last commits of a branch, oldest first.
    """
    groups: dict[str, dict[str, list[CheckSummary]]] = {}
    for point in points:
        groups.setdefault(point.identity, {}).setdefault(point.series, []).append(point)
    return {identity: {key: _noise(group) for key, group in series.items()} for identity, series in groups.items()}


def _noise(points: Sequence[CheckSummary]) -> LatencyNoise:
    days = days_of(point.started_at for point in points)
    of_figures = []
    for figure in ("speedup", "candidate_p50_ms", "reference_p50_ms"):
        commits: dict[Hashable, list[Launch]] = {}
        for point in points:
            if value := getattr(point, figure):
                commits.setdefault(point.commit, []).append(Launch(math.log(value), days[point.started_at]))
        of_figures.append(noise_of_steps(list(commits.values())))
    return LatencyNoise(*of_figures)
