"""At which stage of quantization an engine loses, by runs of its graph with some roundings off or other ranges.

The order follows what a wrong answer would cost: kernels and calibration first, since a layer that suffers from either
would be blamed in its place; then single sites, by halving; and nothing where the error is spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Feeds, Outputs
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.errors import BuildError
from pytest_quant.result import RangeRow, SiteRow, Stage, Step

_Ranges: TypeAlias = Mapping[int, Range]
_Noises: TypeAlias = NDArray[np.float64]
_Share: TypeAlias = Callable[[tuple[int, ...]], float]

KERNELS_NOISE = 2.0
"""Kernels are blamed if the engine has so many times the squared error of its own graph in float: 3 dB."""

_UNLIKE = 0.1
"""The graph is another model if it has more than this share of the engine's squared error without rounding."""

_RECALIBRATED, _FOUND_OTHERWISE = 0.62, 0.3
"""Ranges are blamed if those of other samples leave less of the squared error, and how they were found if ranges of the
calibration samples do. Sound engines keep 0.69 of the first."""

_MARGIN = 1.1
"""By so much the largest value of a hundred samples may exceed that of another hundred."""

_WORTH_SPLITTING, _BLAMED, _HALF = 0.25, 0.4, 0.5
"""Of the squared error: what a group of sites regains in float to be split, what odd ones do to be blamed, and half."""

_ODD_SQNR_DB, _DB_OF_BIT, _ODD_CHANNEL = 28.0, 6.02, 8.0
"""A site is odd if rounding to eight bits leaves it less, or if its largest channel is so many times the median one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The stage, and what mends it.

    Attributes
    ----------
    text : what is wrong, in a sentence.
    sites : that are blamed, by their places in the graph; of calibration, those whose ranges are off.
    ranges : other ranges that mend it; empty where leaving `sites` in float does.
    """

    stage: Stage
    text: str
    sites: tuple[int, ...]
    ranges: _Ranges
    steps: tuple[Step, ...]
    range_rows: tuple[RangeRow, ...]
    site_rows: tuple[SiteRow, ...]


class OutOfTimeError(Exception):
    """There was no time for another run."""


@dataclass
class Ladder:
    """The questions to one graph over some samples.

    Attributes
    ----------
    graph : of the engine.
    batches : that errors are measured on, under the graph's names.
    others : batches of other samples, which ranges are taken from.
    calibration : batches that the engine was calibrated on; none where that is not known.
    outputs : names of the outputs that count.
    reference, engine : outputs of the float model and of the engine for `batches`, by the graph's names.
    module : outputs of the torch module that the float model was exported from; ``None`` where there is none.
    ask : called before each run over the batches with what is asked; raises `OutOfTimeError` if there is no time.
    runs : of the graph, over about as many samples each.
    steps : what was asked so far.
    """

    graph: SwitchableGraph
    batches: Sequence[Feeds]
    others: Sequence[Feeds]
    calibration: Iterable[Feeds]
    outputs: Collection[str]
    reference: Sequence[Outputs]
    engine: Iterable[Outputs]
    ask: Callable[[str], None]
    module: Iterable[Outputs] | None = None
    runs: int = 0

    def __post_init__(self) -> None:
        self._every = range(len(self.graph.sites))
        self._signal = {name: sum(_power(run[name]) for run in self.reference) or 1.0 for name in self.outputs}
        self.steps: list[Step] = []
        self._range_rows: dict[int, RangeRow] = {}
        self._site_rows: dict[int, SiteRow] = {}

    def _noise_of(self, runs: Iterable[Outputs]) -> _Noises:
        """Return noise / signal in power for each batch, summed over the outputs."""
        found = []
        for ours, theirs in zip(self.reference, runs, strict=True):
            if any(ours[name].shape != theirs[name].shape for name in self.outputs):
                return np.array([math.inf])
            parts = (_power(ours[name].astype(np.float64) - theirs[name]) / self._signal[name] for name in self.outputs)
            found.append(sum(parts))
        return np.nan_to_num(found, nan=math.inf, posinf=math.inf)

    def _noises(self, off: Collection[int] = (), ranges: _Ranges | None = None, asked: str = "") -> _Noises:
        """Return noise / signal in power for each batch, with some sites in float and other ranges."""
        self.ask(asked or f"{len(off)} of {len(self._every)} roundings in float")
        self.runs += 1
        return self._note(asked, self._noise_of(self.graph.run(feeds, off, ranges) for feeds in self.batches))

    def _note(self, asked: str, noises: _Noises) -> _Noises:
        """Keep a question that has words, and its answer, which is returned."""
        if asked and noises.sum() < math.inf:
            self.steps.append(Step(asked, _sqnr_db(float(noises.sum()))))
        return noises

    def _noise(self, off: Collection[int] = (), ranges: _Ranges | None = None, asked: str = "") -> float:
        return float(self._noises(off, ranges, asked).sum())

    def _find(self, stage: Stage, text: str, sites: Sequence[int] = (), ranges: _Ranges | None = None) -> Finding:
        rows, site_rows = self._range_rows.values(), self._site_rows.values()
        return Finding(stage, text, tuple(sites), ranges or {}, tuple(self.steps), tuple(rows), tuple(site_rows))

    def climb(self) -> Finding:
        """Ask until the stage is known.

        Raises
        ------
        OutOfTimeError : from `ask`.
        BuildError : the graph without rounding is not the float model.
        """
        exported = 0.0
        if self.module is not None:
            self.ask("the torch module")
            exported = float(self._note("the torch module", self._noise_of(self.module)).sum())
        engine = float(self._note("the engine", self._noise_of(self.engine)).sum())
        if exported > engine:
            theirs, ours = _decibels(exported), _decibels(engine)
            other = "the torch module gives other outputs than what was exported from it"
            return self._find("export", f"{other}: SQNR {theirs}, where the engine has {ours}")
        return self._climb_graph(engine)

    def _climb_graph(self, engine: float) -> Finding:
        """Ask the graph, beside an engine of that noise."""
        nothing = self._noise(self._every, asked="nothing rounded")
        if nothing > _UNLIKE * engine:
            if self.graph.unseen:
                what = f"the float model cannot be made of the engine, without {self.graph.unseen}"
                raise BuildError(what, value=f"SQNR {_decibels(nothing)}")
            return self._find("export", f"unrounded, the engine's graph is another model: SQNR {_decibels(nothing)}")
        ons = self._noises(asked="everything rounded, computed in float")
        on = float(ons.sum())
        if engine > KERNELS_NOISE * on and not self.graph.unseen:
            theirs, ours = _decibels(engine), _decibels(on)
            text = f"the engine computes other values than its own graph does in float: SQNR {theirs} against {ours}"
            return self._find("kernels", text)
        sites = self.graph.sites
        weights = [place for place in self._every if sites[place].is_weight]
        if weights and len(weights) < len(sites):
            self._noise([place for place in self._every if place not in weights], asked="weights alone rounded")
            self._noise(weights, asked="activations alone rounded")
        needed = self._find_ranges(self.others, "ranges of other evaluation samples")
        for place, data in needed.items():
            self._range_rows[place] = RangeRow(sites[place].nodes, sites[place].range or (0.0, 0.0), data)
        fitted = {place: _fit(row) for place, row in self._range_rows.items()}
        if needed:
            refitted = self._noises(ranges=fitted, asked="ranges of other evaluation samples")
            if _left(ons, refitted) < _RECALIBRATED and (found := self._blame_ranges(ons, refitted, fitted)):
                return found
        if _HALF * engine > on:
            return self._find("none", f"most of the error is {self.graph.unseen}")
        return self._blame_sites(on) if on else self._find("none", "no rounding changes the outputs")

    def _find_ranges(self, batches: Iterable[Feeds], asked: str) -> dict[int, Range]:
        """Return what the tensors of these batches need, 0 included, which integers always stand for."""
        found: dict[int, Range] = {}
        for feeds in batches:
            self.ask(asked)
            for place, own in self.graph.find_ranges(feeds).items():
                low, high = found.get(place, (0.0, 0.0))
                found[place] = Range(min(low, own.low), max(high, own.high))
        self.runs += bool(found)
        return found

    def _blame_ranges(self, ons: _Noises, refitted: _Noises, fitted: _Ranges) -> Finding | None:
        """Blame one range if it alone regains half the decibels that all do, else the calibration.

        No single one is to blame for what the ranges of the calibration samples do not mend: it comes from those.
        """
        rows, mended = self._range_rows, math.sqrt(ons.sum() * refitted.sum())
        asked = "ranges of the calibration samples"
        given = self._find_ranges(self.calibration, asked)
        otherwise = self._noises(ranges=given, asked=asked) if given else refitted
        order = sorted(rows, key=lambda place: -_distance(rows[place].engine, given.get(place, rows[place].data)))
        is_followed = otherwise.sum() > mended
        # Those first that are farthest off.
        for group in [] if is_followed else self._alike(order)[:3]:
            row, called = rows[group[0]], _called(rows[group[0]].nodes)
            ranges = {place: fitted[place] for place in group}
            if self._noise(ranges=ranges, asked=f"the range at {called} of other samples") <= mended:
                ends = f"{show_range(row.engine)}, and evaluation samples reach {show_range(row.data)}"
                return self._find("range", f"the range at {called} is {ends}", group, ranges)
        if not is_followed and given and _left(ons, otherwise) >= _FOUND_OTHERWISE:
            return None
        off = tuple(place for place in order if rows[place].is_off)
        fit = f"{len(off)} of {len(rows)} ranges do not fit the evaluation samples"
        text = fit if off else "evaluation samples reach beyond the ranges"
        return self._find("calibration", text, off or tuple(order[:3]), fitted)

    def _alike(self, places: Iterable[int]) -> list[tuple[int, ...]]:
        """Group sites of one range: what hands values on, as pooling does, shares that of what made them."""
        kinds = {place: self.graph.sites[place].range or place for place in places}
        return [tuple(at for at in kinds if kinds[at] == kind) for kind in dict.fromkeys(kinds.values())]

    def _blame_sites(self, on: float) -> Finding:
        """Halve groups of sites that regain a share, and blame what is odd and regains enough, with what is near it."""

        @cache
        def regains(group: tuple[int, ...]) -> float:
            return 1.0 - self._noise(group) / on

        def harms(group: tuple[int, ...]) -> float:
            return self._noise([place for place in self._every if place not in group]) / on

        groups = self._alike(self._every)
        single = self._halve(regains, _WORTH_SPLITTING, groups)
        # What is lost twice comes back by no site alone.
        if twice := not single:
            single = self._halve(harms, _HALF, groups)
        found = sorted(single, key=lambda group: -single[group])
        shares = {group[0]: single[group] for group in found}
        near = [at for at in self._every if at not in shares and any(self._are_near(at, each) for each in shares)]
        rows_of = self._describe([*shares, *near], shares) if found else {}
        self._site_rows = {place: rows_of[place] for place in shares}
        telling = [at for at, row in rows_of.items() if at in shares or self._is_odd(row)]
        for blamed in (group for group in found if self._is_odd(rows_of[group[0]])):
            first, share = blamed[0], single[blamed]
            if share < _HALF or twice:
                blamed += tuple(at for at in telling if at not in blamed and self._are_near(at, first))
            if regains(blamed) >= _BLAMED:
                return self._blame(blamed, rows_of[first])
        bits = f"{self.graph.bits} bits are not enough here"
        return self._find("none", f"{bits}: of {len(self._every)} roundings none stands out")

    def _halve(self, share: _Share, least: float, groups: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        """Return the sites, or groups of one range, that have at least this share of the error, by halving."""
        found, middle = share(sum(groups, ())), len(groups) // 2
        if found < least:
            return {}
        if len(groups) == 1:
            return {groups[0]: found}
        return self._halve(share, least, groups[:middle]) | self._halve(share, least, groups[middle:])

    def _blame(self, blamed: Sequence[int], row: SiteRow) -> Finding:
        sites = self.graph.sites
        stage: Stage = "weights" if all(sites[place].is_weight for place in blamed) else "layer"
        why = f"its largest channel is {row.channel_ratio:.3g} times the median one"
        if row.channel_ratio < _ODD_CHANNEL:
            why = f"rounding leaves it an SQNR of {row.sqnr_db:.3g} dB"
        nodes = sites[blamed[0]].nodes
        what = "the weights of" if stage == "weights" else "the values at" if len(nodes) < 2 else "the values between"
        return self._find(stage, f"{what} {_called(nodes)}: {why}", tuple(blamed))

    def _is_odd(self, row: SiteRow) -> bool:
        least_db = _ODD_SQNR_DB - _DB_OF_BIT * (8 - self.graph.bits)
        return (row.sqnr_db is not None and row.sqnr_db < least_db) or row.channel_ratio >= _ODD_CHANNEL

    def _are_near(self, one: int, other: int) -> bool:
        return not set(self.graph.sites[one].nodes).isdisjoint(self.graph.sites[other].nodes)

    def _describe(self, places: Sequence[int], regained: Mapping[int, float]) -> dict[int, SiteRow]:
        self.ask("the tensors that lose most")
        self.runs += 1
        rows = {}
        for place, (real, rounded) in zip(places, self.graph.values(self.batches[0], places), strict=True):
            site = self.graph.sites[place]
            difference = _power(real.astype(np.float64) - rounded) / (_power(real) or 1.0)
            kind, share = "weights" if site.is_weight else "activations", 100.0 * regained.get(place, 0.0)
            rows[place] = SiteRow(site.nodes, kind, share, _sqnr_db(difference), channel_ratio(real))
        return rows


def channel_ratio(values: np.ndarray) -> float:
    """Return the largest channel in units of the median one, by largest magnitude, over axis 1 or the last one."""
    ratios = [0.0]
    for axis in {1, values.ndim - 1} if values.ndim > 1 else ():
        largest = np.max(np.abs(values), axis=tuple(each for each in range(values.ndim) if each != axis))
        ratios.append(float(largest.max() / median) if (median := np.median(largest)) else 0.0)
    return max(ratios)


def _power(array: np.ndarray) -> float:
    return float(np.sum(np.square(array, dtype=np.float64)))


def _sqnr_db(noise: float) -> float | None:
    return -10.0 * math.log10(noise) if 0.0 < noise < math.inf else None


def _decibels(noise: float) -> str:
    return f"{-10.0 * math.log10(noise):.3g} dB" if 0.0 < noise < math.inf else "not finite" if noise else "equal"


def _fit(row: RangeRow) -> Range:
    """Return a range for other samples too: only one that is off gets narrower."""
    low, high = (_MARGIN * end for end in row.data)
    return Range(low, high) if row.is_off else Range(min(row.engine[0], low), max(row.engine[1], high))


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how far two ranges are apart, in powers of e of their ends."""
    reach = [max(map(abs, ends)) for ends in (one, other)]
    return abs(math.log(reach[0] / reach[1])) if min(reach) > 0.0 else math.inf


def _left(before: _Noises, after: _Noises) -> float:
    """Return the share of noise that is left, in all batches or in all but the worst, whichever is more.

    One odd sample may have made the noise of a whole batch, and hide what the others lose or seem to regain.
    """
    rest = np.arange(len(before)) != np.argmax(before)
    return max(float(after[part].sum()) / (float(before[part].sum()) or 1.0) for part in (rest, ...))


def _called(nodes: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in nodes[:3]) or "an input"


def show_range(ends: tuple[float, float]) -> str:
    """Return a range in words."""
    return f"[{ends[0]:.3g}, {ends[1]:.3g}]"
