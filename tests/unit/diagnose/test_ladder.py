"""The stage that is blamed is the one that was planted, in a network of two products whose roundings NumPy does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_quant.backends import Feeds, Outputs
from pytest_quant.backends.switchable import Range, Site, SwitchableGraph
from pytest_quant.diagnose.ladder import Finding, Ladder, OutOfTimeError, channel_ratio
from pytest_quant.errors import BuildError

LEVELS = 255


def rounded(values: np.ndarray, ends: Range) -> np.ndarray:
    """Return values on 256 levels from one end to the other, 0 among them."""
    step = (ends.high - ends.low) / LEVELS
    zero = np.rint(-ends.low / step)
    return np.asarray((np.clip(np.rint(values / step) + zero, 0, LEVELS) - zero) * step)


def ends_of(values: np.ndarray) -> Range:
    """Return the range that holds all values, and 0."""
    return Range(min(float(values.min()), 0.0), max(float(values.max()), 1e-9))


class TwoProducts(SwitchableGraph):
    """y = relu(x A) B, with x, A, the values between and B rounded: sites 0, 1, 2, 3."""

    def __init__(self, first: np.ndarray, second: np.ndarray, calibration: np.ndarray, **ranges: Range) -> None:
        self.weights = first, second
        between = np.maximum(calibration @ first, 0.0)
        known = {"x": ends_of(calibration), "between": ends_of(between)} | ranges
        self.sites = (
            Site("x", ("a",), is_weight=False, range=known["x"]),
            Site("A", ("a",), is_weight=True),
            Site("between", ("a", "b"), is_weight=False, range=known["between"]),
            Site("B", ("b",), is_weight=True),
        )

    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Return y."""
        known = {place: site.range for place, site in enumerate(self.sites)} | dict(ranges or {})

        def at(place: int, values: np.ndarray) -> np.ndarray:
            return values if place in off else rounded(values, known[place] or ends_of(values))

        first, second = self.weights
        between = at(2, np.maximum(at(0, feeds["x"]) @ at(1, first), 0.0))
        return {"y": (at(4, between) if len(self.sites) > 4 else between) @ at(3, second)}

    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return those of x and of the values between."""
        return {0: ends_of(feeds["x"]), 2: ends_of(np.maximum(feeds["x"] @ self.weights[0], 0.0))}

    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each tensor and what is left of it."""
        held = feeds["x"], self.weights[0], np.maximum(feeds["x"] @ self.weights[0], 0.0), self.weights[1]
        return [(held[place], rounded(held[place], self.sites[place].range or ends_of(held[place]))) for place in sites]

    def close(self) -> None:
        """Nothing to let go of."""


class HandedOn(TwoProducts):
    """The values between are rounded twice, by one range, as a pooling of them is; A loses nothing."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sites += (Site("again", ("a", "b"), is_weight=False, range=self.sites[2].range),)

    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Return y."""
        return super().run(feeds, {*off, 1}, ranges)

    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return those of x and twice that of the values between."""
        found = super().find_ranges(feeds)
        return found | {4: found[2]}

    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each tensor and what is left of it."""
        return super().values(feeds, [2 if place == 4 else place for place in sites])


def network(seed: int, width: int = 48) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both matrices, and samples (2200, 32)."""
    random = np.random.default_rng(seed)
    first, second = random.normal(size=(32, width)) / 6, random.normal(size=(width, 10)) / 7
    return first, second, random.normal(size=(2200, 32))


def climb(
    graph: SwitchableGraph, samples: np.ndarray, engine: Sequence[Outputs] | None = None, **given_: Any
) -> Finding:
    """Ask about samples of which every second is compared, in two batches."""
    batches = [{"x": samples[0:64:2]}, {"x": samples[64:128:2]}]
    reference = [graph.run(feeds, range(len(graph.sites))) for feeds in batches]
    ran = engine or [graph.run(feeds) for feeds in batches]
    ask = given_.get("ask", lambda _: None)
    given = given_.get("calibration", ())
    return Ladder(graph, batches, [{"x": samples[128:1000]}], given, ["y"], reference, ran, ask).climb()


seeds = st.integers(0, 10_000)


@given(seed=seeds)
@settings(max_examples=25)
def test_nothing_is_blamed_in_a_sound_engine(seed: int) -> None:
    """Whatever the weights are: the error is spread, and calibration on other samples of the kind is no cause."""
    first, second, samples = network(seed)
    finding = climb(TwoProducts(first, second, samples[1000:]), samples)
    assert (finding.stage, finding.sites) == ("none", ())


@given(seed=seeds, scale=st.sampled_from([0.05, 0.2, 8.0, 255.0]))
@settings(max_examples=25)
def test_samples_of_another_scale_make_it_the_calibration(seed: int, scale: float) -> None:
    """Their ranges are put right, and all ranges that are off are named."""
    first, second, samples = network(seed)
    finding = climb(TwoProducts(first, second, samples[1000:] * scale), samples)
    assert (finding.stage, set(finding.sites)) == ("calibration", {0, 2})
    assert set(finding.ranges) == {0, 2}


@given(seed=seeds, n=st.integers(1, 4))
@settings(max_examples=25)
def test_no_single_range_is_blamed_for_what_the_calibration_samples_gave(seed: int, n: int) -> None:
    """However much one of them mends, as the values between do: of a few samples, the calibration is the cause."""
    first, second, samples = network(seed)
    samples[1000 : 1000 + n] /= 4.0
    calibration = samples[1000 : 1000 + n]
    ranges = {"x": Range(-6.0, 6.0)}
    finding = climb(TwoProducts(first, second, calibration, **ranges), samples, calibration=[{"x": calibration}])
    assert finding.stage == "calibration"


@given(seed=seeds, factor=st.sampled_from([0.1, 0.3, 8.0, 30.0]), is_known=st.booleans())
@settings(max_examples=25)
def test_one_range_that_is_off_is_named(seed: int, factor: float, *, is_known: bool) -> None:
    """The values between have a range of their own that is wrong, and x has its own: whether or not it is known why."""
    first, second, samples = network(seed)
    high = factor * float(np.maximum(samples[1000:] @ first, 0.0).max())
    sound = climb(TwoProducts(first, second, samples[1000:]), samples).steps[0].sqnr_db or 0.0
    graph = TwoProducts(first, second, samples[1000:], between=Range(0.0, high))
    finding = climb(graph, samples, calibration=[{"x": samples[1000:]}] if is_known else ())
    assume(sound - (finding.steps[0].sqnr_db or 0.0) > 4.0)
    assert (finding.stage, finding.sites) == ("range", (2,))


@given(seed=seeds, channel=st.integers(0, 47), factor=st.sampled_from([64.0, 256.0]))
@settings(max_examples=25)
def test_one_channel_that_outgrows_the_others_is_a_layer(seed: int, channel: int, factor: float) -> None:
    """Multiplied before and divided after: in float nothing changes, and in eight bits the other channels are lost."""
    first, second, samples = network(seed)
    first[:, channel] *= factor
    second[channel] /= factor
    finding = climb(TwoProducts(first, second, samples[1000:]), samples)
    assert finding.stage in ("layer", "weights")
    assert {1, 2} & set(finding.sites)


@given(seed=seeds, channel=st.integers(0, 47))
@settings(max_examples=10)
def test_values_that_are_handed_on_are_one_place(seed: int, channel: int) -> None:
    """Neither rounding of the two gives anything back by itself."""
    first, second, samples = network(seed)
    first[:, channel] *= 256.0
    second[channel] /= 256.0
    finding = climb(HandedOn(first, second, samples[1000:]), samples)
    assert finding.stage == "layer"
    assert {2, 4} <= set(finding.sites)


@given(seed=seeds)
@settings(max_examples=10)
def test_one_odd_sample_makes_no_wrong_calibration(seed: int) -> None:
    """One of the samples that are compared, and one of the others, are larger than all that calibrated."""
    first, second, samples = network(seed)
    samples[[2, 500]] *= 2.0
    assert climb(TwoProducts(first, second, samples[1000:]), samples).stage not in ("range", "calibration")


@given(seed=seeds)
@settings(max_examples=10)
def test_ranges_are_no_cause_where_they_mend_the_least_part(seed: int) -> None:
    """They are too wide for all samples but one, and what that one loses beyond them is most of the error."""
    first, second, samples = network(seed)
    samples[2] *= 6.0
    wide = Range(0.0, 2.5 * float(np.maximum(samples[1000:] @ first, 0.0).max()))
    assert climb(TwoProducts(first, second, samples[1000:], between=wide), samples).stage not in (
        "range",
        "calibration",
    )


@given(seed=seeds)
@settings(max_examples=10)
def test_kernels_that_compute_something_else_are_named_first(seed: int) -> None:
    """The engine's outputs are not those of its graph, whatever the graph loses by itself."""
    first, second, samples = network(seed)
    graph = TwoProducts(first, second, samples[1000:])
    engine = [{"y": np.roll(graph.run({"x": samples[start : start + 64 : 2]})["y"], 1, axis=1)} for start in (0, 64)]
    assert climb(graph, samples, engine).stage == "kernels"


def test_a_graph_that_is_another_model_without_rounding_was_not_exported_right() -> None:
    """Unless not all of its rounding has a switch: then nothing is known."""
    first, second, samples = network(0)
    graph, other = TwoProducts(first, second, samples[1000:]), TwoProducts(first, 2 * second, samples[1000:])
    batches = [{"x": samples[:64]}]
    reference, engine = ([one.run(batches[0], off)] for one, off in ((other, range(4)), (graph, ())))
    ladder = Ladder(graph, batches, batches, (), ["y"], reference, engine, lambda _: None)
    assert ladder.climb().stage == "export"
    ladder.graph.unseen = "what has no switch"
    with pytest.raises(BuildError, match="without what has no switch"):
        ladder.climb()


def test_values_far_from_0_need_a_range_from_0_on() -> None:
    """Integers stand for 0 in any range, so that one from 0 to 11 is not too wide for values of 7 to 11."""
    first, second, samples = network(0)
    first, samples = np.abs(first), np.abs(samples) + 3.0
    finding = climb(TwoProducts(first, second, samples[1000:]), samples)
    lows = [row.data[0] for row in finding.range_rows]
    assert (finding.stage, lows, [row.is_off for row in finding.range_rows]) == ("none", [0.0, 0.0], [False, False])


def test_no_run_begins_after_the_time() -> None:
    """Who asks says when: the search ends there."""
    first, second, samples = network(0)
    asked: list[str] = []

    def ask(what: str) -> None:
        asked.append(what)
        if len(asked) == 3:
            raise OutOfTimeError

    with pytest.raises(OutOfTimeError):
        climb(TwoProducts(first, second, samples[1000:]), samples, ask=ask)
    assert asked[0] == "nothing rounded"


def test_the_ratio_of_channels_is_of_the_axis_that_has_the_odd_one() -> None:
    """Channels of pictures lie on axis 1, those of tokens on the last; samples are none."""
    pictures = np.ones((3, 5, 4, 4))
    pictures[:, 2] *= 20.0
    tokens = np.ones((3, 7, 5))
    tokens[..., 4] *= 30.0
    samples = np.ones((9, 4))
    samples[3] *= 50.0
    ratios = [channel_ratio(values) for values in (pictures, tokens, samples, np.ones(4))]
    assert ratios == [20.0, 30.0, 1.0, 0.0]
