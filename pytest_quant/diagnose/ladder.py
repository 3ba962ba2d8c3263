"""At which stage of quantization an engine loses, by runs of its graph with some roundings off or other ranges.

The order follows what a wrong answer would cost: kernels and calibration first, since a layer that suffers from either
would be blamed in its place; then single sites, by halving; and nothing where the error is spread.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_quant.backends import Feeds, Outputs
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.errors import BuildError
from pytest_quant.result import RangeRow, SiteRow, Stage, Step

KERNELS_NOISE = 2.0
"""Kernels are blamed if the engine has so many times the squared error of its own graph in float: 3 dB."""

_UNLIKE = 0.1
"""The graph is another model if it has more than this share of the engine's squared error without rounding."""

_RECALIBRATED, _RECALIBRATED_THOUGH_NEAR = 0.56, 0.47
"""Calibration is blamed if ranges of other samples leave less of the squared error: where some range is off, and where
all are near what samples need. Sound engines keep more than 0.55 of it, and mostly all."""

_MARGIN = 1.1
"""By so much the largest value of a hundred samples may exceed that of another hundred."""

_FEW_RANGES = 0.2
"""Above this share of ranges that are off, no single one is blamed."""

_WORTH_SPLITTING, HALF = 0.25, 0.5
"""A group of sites is split if leaving it in float regains so much of the squared error; a site is blamed for half."""

_ODD_SQNR_DB, _DB_OF_BIT, _ODD_CHANNEL = 25.0, 6.02, 16.0
"""A site is odd if rounding to eight bits leaves it less, or if its largest channel is so many times the median one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The stage, and what mends it.

    Attributes
    ----------
    sites : that are blamed, by their places in the graph; of calibration, those whose ranges are off.
    ranges : other ranges that mend it; empty where leaving `sites` in float does.
    text : what is wrong, in a sentence.
    """

    stage: Stage
    sites: tuple[int, ...]
    ranges: Mapping[int, Range]
    text: str
    steps: tuple[Step, ...]
    range_rows: tuple[RangeRow, ...] = ()
    site_rows: tuple[SiteRow, ...] = ()


class OutOfTimeError(Exception):
    """There was no time for another run."""


class Ladder:
    """The questions to one graph over some samples.

    Parameters
    ----------
    graph : of the engine.
    batches : that errors are measured on, under the graph's names.
    others : batches of other samples, which ranges are taken from.
    calibration : batches that the engine was calibrated on; none where that is not known.
    outputs : names of the outputs that count.
    reference, engine : outputs of the float model and of the engine for `batches`, by the graph's names.
    ask : called before each run over the batches with what is asked; raises `OutOfTimeError` if there is no time.
    """

    def __init__(
        self,
        graph: SwitchableGraph,
        batches: Sequence[Feeds],
        others: Sequence[Feeds],
        calibration: Iterable[Feeds],
        outputs: Collection[str],
        reference: Sequence[Outputs],
        engine: Iterable[Outputs],
        ask: Callable[[str], None],
    ) -> None:
        self.graph, self._batches, self._names, self._ask = graph, batches, outputs, ask
        self._others, self._calibration = others, calibration
        self.runs = 0
        self._every = range(len(graph.sites))
        self._reference = reference
        self._signal = {name: sum(_power(run[name]) for run in reference) or 1.0 for name in outputs}
        self.engine_noise = self._noise_of(engine)
        self._steps: list[Step] = []

    def _noise_of(self, runs: Iterable[Outputs]) -> float:
        """Return noise / signal in power, summed over the outputs."""
        total = 0.0
        for ours, theirs in zip(self._reference, runs, strict=True):
            for name in self._names:
                if ours[name].shape != theirs[name].shape:
                    return math.inf
                total += _power(ours[name].astype(np.float64) - theirs[name]) / self._signal[name]
        return total if math.isfinite(total) else math.inf

    def noise(self, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None, asked: str = "") -> float:
        """Return noise / signal in power with some sites in float and other ranges."""
        self._ask(asked or f"{len(off)} of {len(self._every)} roundings in float")
        self.runs += 1
        found = self._noise_of(self.graph.run(feeds, off, ranges) for feeds in self._batches)
        if asked:
            self._note(asked, found)
        return found

    def _note(self, asked: str, noise: float) -> None:
        if noise < math.inf:
            self._steps.append(Step(asked, _sqnr_db(noise)))

    @property
    def _asked(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def climb(self) -> Finding:
        """Ask until the stage is known.

        Raises
        ------
        OutOfTimeError : from `ask`.
        BuildError : the graph without rounding is not the float model.
        """
        self._note("the engine", self.engine_noise)
        nothing = self.noise(self._every, asked="nothing rounded")
        if nothing > _UNLIKE * self.engine_noise:
            if self.graph.unseen:
                what = f"the float model cannot be made of the engine, without {self.graph.unseen}"
                raise BuildError(what, value=f"SQNR {_decibels(nothing)}")
            text = f"even without rounding the engine's graph is another model: SQNR {_decibels(nothing)}"
            return Finding("export", (), {}, text, self._asked)
        on = self.noise(asked="everything rounded, computed in float")
        if self.engine_noise > KERNELS_NOISE * on and not self.graph.unseen:
            text = (
                f"the engine computes other values than its own graph does in float: SQNR "
                f"{_decibels(self.engine_noise)} against {_decibels(on)}"
            )
            return Finding("kernels", (), {}, text, self._asked)
        sites = self.graph.sites
        weights = [place for place in self._every if sites[place].is_weight]
        if weights and len(weights) < len(sites):
            self.noise([place for place in self._every if place not in weights], asked="weights alone rounded")
            self.noise(weights, asked="activations alone rounded")
        needed = self._find_ranges(self._others, "ranges of other evaluation samples")
        rows = {
            place: RangeRow(sites[place].nodes, sites[place].range or (0.0, 0.0), needed[place]) for place in needed
        }
        fitted = {place: _fit(row) for place, row in rows.items()}
        refitted = self.noise(ranges=fitted, asked="ranges of other evaluation samples") if needed else on
        is_off = any(row.is_off for row in rows.values())
        if refitted < (_RECALIBRATED if is_off else _RECALIBRATED_THOUGH_NEAR) * on:
            return self._blame_ranges(on, refitted, rows, fitted)
        if HALF * self.engine_noise > on:
            spread = f"most of the error is {self.graph.unseen}"
            return Finding("none", (), {}, spread, self._asked, tuple(rows.values()))
        return self._blame_sites(on, tuple(rows.values()))

    def _find_ranges(self, batches: Iterable[Feeds], asked: str) -> dict[int, Range]:
        """Return what the tensors of these batches need, 0 included, which integers always stand for."""
        found: dict[int, Range] = {}
        for feeds in batches:
            self._ask(asked)
            for place, own in self.graph.find_ranges(feeds).items():
                low, high = found.get(place, (0.0, 0.0))
                found[place] = Range(min(low, own.low), max(high, own.high))
        self.runs += bool(found)
        return found

    def _blame_ranges(
        self, on: float, refitted: float, rows: Mapping[int, RangeRow], fitted: Mapping[int, Range]
    ) -> Finding:
        """Blame one range if it alone regains half of what all do and few are off, else the calibration."""
        # What hands values on, as pooling does, shares its range with what made them.
        alike: defaultdict[object, list[int]] = defaultdict(list)
        for place, row in rows.items():
            alike[row.engine].append(place)
        order = sorted(rows, key=lambda place: -_distance(rows[place]))
        off = [place for place in order if rows[place].is_off]
        firsts = list({rows[place].engine: place for place in reversed(off)}.values())[::-1]
        given = self._find_ranges(self._calibration, "ranges of the calibration samples")
        # What the calibration samples gave is no fault of one range, however few show it.
        strange = [place for place in firsts if place not in given or replace(rows[place], data=given[place]).is_off]
        few = min(max(2, _FEW_RANGES * len(alike)), len(alike) - 1)
        known = tuple(rows.values())
        for place in strange[:3] if len(firsts) <= few else ():
            row = rows[place]
            group, called = {each: fitted[each] for each in alike[row.engine]}, _called(row.nodes)
            if self.noise(ranges=group, asked=f"the range at {called} of other samples") <= on - HALF * (on - refitted):
                ends = f"{show_range(row.engine)}, and evaluation samples reach {show_range(row.data)}"
                return Finding("range", tuple(group), group, f"the range at {called} is {ends}", self._asked, known)
        fit = f"{len(off)} of {len(rows)} ranges do not fit the evaluation samples"
        text = fit if off else "evaluation samples reach beyond the ranges"
        return Finding("calibration", tuple(off or order[:3]), fitted, text, self._asked, known)

    def _blame_sites(self, on: float, known: tuple[RangeRow, ...]) -> Finding:
        """Halve groups of sites that regain a share, and blame what regains half and is odd."""
        regained: dict[tuple[int, ...], float] = {}

        def regains(group: Sequence[int]) -> float:
            key = tuple(sorted(group))
            if key not in regained:
                regained[key] = 1.0 - self.noise(key) / on if on else 0.0
            return regained[key]

        def harms(group: Sequence[int]) -> float:
            return self.noise([place for place in self._every if place not in group]) / on

        single = self._halve(regains, _WORTH_SPLITTING) if on else {}
        # What is lost twice comes back by no site alone.
        twice = on and not single
        if twice:
            single = self._halve(harms, HALF)
        found = sorted(single, key=lambda place: -single[place])
        near = [at for at in self._every if at not in single and any(self._are_near(at, each) for each in found)]
        rows_of = dict(zip([*found, *near], self._describe([*found, *near], single), strict=True)) if found else {}
        site_rows = tuple(rows_of[place] for place in found)
        odd = [place for place, row in rows_of.items() if self._is_odd(row)]
        for place in (each for each in found if each in odd):
            blamed = [place]
            if single[place] < HALF or twice:
                blamed += [each for each in odd if each != place and self._are_near(each, place)]
            if regains(blamed) >= HALF:
                return self._blame(blamed, rows_of[place], site_rows, known)
        bits = f"{self.graph.bits} bits are not enough here"
        spread = f"{bits}: of {len(self._every)} roundings none stands out"
        return Finding("none", (), {}, spread, self._asked, known, site_rows)

    def _halve(self, share: Callable[[Sequence[int]], float], least: float) -> dict[int, float]:
        """Return the single sites that have at least this share of the error, by halving groups that do."""
        waiting, single = [tuple(self._every)], dict[int, float]()
        while waiting:
            group = waiting.pop(0)
            middle = len(group) // 2
            for half in (group[:middle], group[middle:]):
                found = share(half) if half else 0.0
                if found >= least and len(half) > 1:
                    waiting.append(half)
                elif found >= least:
                    single[half[0]] = found
        return single

    def _blame(
        self, blamed: Sequence[int], row: SiteRow, site_rows: tuple[SiteRow, ...], known: tuple[RangeRow, ...]
    ) -> Finding:
        sites = self.graph.sites
        stage: Stage = "weights" if all(sites[place].is_weight for place in blamed) else "layer"
        why = (
            f"its largest channel is {row.channel_ratio:.3g} times the median one"
            if row.channel_ratio >= _ODD_CHANNEL
            else f"rounding leaves it an SQNR of {row.sqnr_db:.3g} dB"
        )
        nodes = sites[blamed[0]].nodes
        what = "the weights of" if stage == "weights" else "the values at" if len(nodes) < 2 else "the values between"
        return Finding(stage, tuple(blamed), {}, f"{what} {_called(nodes)}: {why}", self._asked, known, site_rows)

    def _is_odd(self, row: SiteRow) -> bool:
        least_db = _ODD_SQNR_DB - _DB_OF_BIT * (8 - self.graph.bits)
        return (row.sqnr_db is not None and row.sqnr_db < least_db) or row.channel_ratio >= _ODD_CHANNEL

    def _are_near(self, one: int, other: int) -> bool:
        return not set(self.graph.sites[one].nodes).isdisjoint(self.graph.sites[other].nodes)

    def _describe(self, places: Sequence[int], regained: Mapping[int, float]) -> tuple[SiteRow, ...]:
        self._ask("the tensors that lose most")
        self.runs += 1
        rows = []
        for place, (real, rounded) in zip(places, self.graph.values(self._batches[0], places), strict=True):
            site = self.graph.sites[place]
            difference = _power(real.astype(np.float64) - rounded) / (_power(real) or 1.0)
            kind = "weights" if site.is_weight else "activations"
            ratio = channel_ratio(real)
            rows.append(SiteRow(site.nodes, kind, 100.0 * regained.get(place, 0.0), _sqnr_db(difference), ratio))
        return tuple(rows)


def channel_ratio(values: np.ndarray) -> float:
    """Return the largest channel in units of the median one, by largest magnitude, over axis 1 or the last one."""
    ratios = [0.0]
    for axis in {1, values.ndim - 1} if values.ndim > 1 else ():
        largest = np.max(np.abs(values), axis=tuple(each for each in range(values.ndim) if each != axis))
        median = float(np.median(largest))
        ratios.append(float(largest.max()) / median if median else 0.0)
    return max(ratios)


def _power(array: np.ndarray) -> float:
    return float(np.sum(np.square(array, dtype=np.float64)))


def _sqnr_db(noise: float) -> float | None:
    return -10.0 * math.log10(noise) if 0.0 < noise < math.inf else None


def _decibels(noise: float) -> str:
    return f"{-10.0 * math.log10(noise):.3g} dB" if 0.0 < noise < math.inf else "not finite" if noise else "equal"


def _fit(row: RangeRow) -> Range:
    """Return a range for other samples too: one that is off is that of the samples and a margin, any other is wider."""
    if row.is_off:
        return Range(_MARGIN * row.data[0], _MARGIN * row.data[1])
    return Range(min(row.engine[0], row.data[0]), max(row.engine[1], row.data[1]))


def _distance(row: RangeRow) -> float:
    """Return how far a range is off, in powers of e of its ends."""
    reach = [max(map(abs, ends)) for ends in (row.engine, row.data)]
    return abs(math.log(reach[0] / reach[1])) if min(reach) > 0.0 else math.inf


def _called(nodes: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in nodes[:3]) or "an input"


def show_range(ends: tuple[float, float]) -> str:
    """Return a range in words."""
    return f"[{ends[0]:.3g}, {ends[1]:.3g}]"
