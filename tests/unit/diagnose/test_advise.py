"""Advice is what was tried and helped, the best first, within the time; nodes are ranked in few trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.offer import Remedy, exclude_nodes, set_option
from pytest_quant.diagnose.advise import Advice, Budget, rank_nodes
from pytest_quant.diagnose.next_steps import next_steps
from pytest_quant.diagnose.trials import EngineTrials, TrialResult
from pytest_quant.errors import BuildError
from pytest_quant.result import Cause, Hint, Stage, Status, Verdict
from pytest_quant.spec import Calibration, EngineSpec, LatencyPlan, Model
from tests.unit.record.examples import LATENCY, a_measurement

SPEC = EngineSpec("any", "int8", "static", Model("net"))
NODES = tuple(f"conv{i}" for i in range(20))


class Clock:
    """A clock that goes on only when told."""

    def __init__(self, per_trial_s: float = 1.0) -> None:
        self.now = 0.0
        self.per_trial_s = per_trial_s

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class AdditiveTrials:
    """A network whose error is the sum of its quantized nodes' errors; a trial takes a second, or what the clock says.

    `options` gives by the paste what share of the error each of them leaves; ``None`` cannot be built.
    """

    def __init__(self, clock: Clock, noise: dict[str, float], options: dict[str, float | None] | None = None) -> None:
        self.spec = SPEC
        self.samples = "all 100 samples"
        self.clock = clock
        self.of_node = noise
        self.options = options or {}
        self.before = self._found(SPEC)

    def remedies(self) -> Sequence[Remedy]:
        """One for each option."""
        return [Remedy(name, replace(SPEC, options=((name, 1),))) for name in self.options]

    def nodes(self) -> tuple[str, ...]:
        """All of them."""
        return NODES

    def noise(self, spec: EngineSpec) -> float | None:
        """The sum over what is not excluded."""
        self.clock.now += self.clock.per_trial_s
        return self._error(spec)

    def judged(self, spec: EngineSpec) -> TrialResult:
        """The largest error allowed is 1; coverage falls with each node that is excluded."""
        self.clock.now += self.clock.per_trial_s
        if any(self.options[name] is None for name, _ in spec.options):
            raise BuildError("the runtime refused it", value="for a reason")
        return self._found(spec)

    def _error(self, spec: EngineSpec) -> float:
        whole = sum(noise for name, noise in self.of_node.items() if name not in spec.exclude)
        for name, _ in spec.options:
            whole *= self.options[name] or 0.0
        return whole

    def _found(self, spec: EngineSpec) -> TrialResult:
        error, covered = self._error(spec), 100.0 * (1.0 - len(spec.exclude) / len(NODES))
        verdicts = (
            Verdict("max_abs_error", 1.0, error, Status.PASS if error <= 1.0 else Status.FAIL, ""),
            Verdict("min_coverage", 50.0, covered, Status.PASS if covered >= 50.0 else Status.FAIL, ""),
        )
        return TrialResult(verdicts, covered)


def _advice(trials: AdditiveTrials, seconds: float = 100.0, cause: Cause | None = None) -> tuple[Hint, ...]:
    return Advice(cast(EngineTrials, trials), Budget(seconds, 0.0, trials.clock), cause).hints()


@pytest.mark.parametrize("stage", ["calibration", "range"])
def test_no_node_is_left_in_float_where_the_ranges_are_the_cause(stage: Stage) -> None:
    """That would hide what is wrong; other options are tried as ever."""
    trials = AdditiveTrials(Clock(), {"conv3": 5.0}, {"a=1": 0.01})
    result = _advice(trials, cause=Cause(stage, ("conv3",), 4.0, "wrong"))
    assert [hint.paste for hint in result] == ["a=1"]
    assert trials.clock.now == 1.0


def test_the_search_for_nodes_begins_with_those_of_the_cause() -> None:
    """They mend it, so that none is ranked: one engine is built in place of some thirty."""
    noise = {"conv3": 5.0, "conv11": 8.0, "conv17": 0.5}
    trials = AdditiveTrials(Clock(), noise)
    result = _advice(trials, cause=Cause("layer", ("conv3", "conv11"), 13.0, "odd"))
    assert (result[0].paste, trials.clock.now) == ("exclude=['conv3', 'conv11']", 1.0)
    other = AdditiveTrials(Clock(), noise)
    assert _advice(other, cause=Cause("layer", ("conv5",), 13.0, "odd"))[0].paste == "exclude=['conv3', 'conv11']"


def test_the_shortest_list_that_mends_is_advised() -> None:
    """Two nodes give nearly all of the error; the third one is within the limit."""
    result = _advice(AdditiveTrials(Clock(), {"conv3": 5.0, "conv11": 8.0, "conv17": 0.5}))
    assert result[0].paste == "exclude=['conv3', 'conv11']"
    cost = "coverage 100.00 -> 90.00 % of all compute"
    assert result[0].text == f"largest error 13.5 -> 0.5 on all 100 samples, which repairs it; {cost}"


def test_options_that_help_are_ranked_and_others_are_only_named() -> None:
    """What mends comes before what helps; what changes nothing is named, and what cannot be built apart from it."""
    options = {"a=1": 0.5, "b=1": 0.01, "c=1": 1.0, "d=1": None}
    result = _advice(AdditiveTrials(Clock(), dict.fromkeys(NODES, 1.0), options))
    assert result[0].paste == "b=1"
    assert "a=1" in [hint.paste for hint in result]
    assert not {"c=1", "d=1"} & {hint.paste for hint in result}
    assert result[-2].text == "could not be measured: d=1: the runtime refused it"
    assert result[-1].text == "tried on all 100 samples without gain: c=1"


def test_what_the_mark_has_is_not_advised() -> None:
    """A backend may name the options of the mark again: no such engine is built, and nothing is said of it."""
    trials = AdditiveTrials(Clock(), dict.fromkeys(NODES, 1.0), {"a=1": 0.5})
    trials.spec = replace(SPEC, options=(("a=1", 1),))
    assert not any("a=1" in f"{hint.paste} {hint.text}" for hint in _advice(trials))


def test_a_list_that_repairs_one_limit_and_breaks_another_is_no_useless_one() -> None:
    """Twelve of twenty nodes give all of the error: without them coverage is 40 %, and half is asked for."""
    result = _advice(AdditiveTrials(Clock(), {**dict.fromkeys(NODES[:12], 50.0)}))
    (trade,) = [hint for hint in result if "breaks" in hint.text]
    lost = "coverage 100.00 -> 40.00 % breaks min_coverage"
    assert trade.text == f"exclude={list(NODES[:12])}: largest error 600 -> 0, but {lost}, on all 100 samples"
    assert not any("without gain" in hint.text for hint in result)


def test_what_repairs_every_broken_limit_comes_before_what_helps_a_little() -> None:
    """An option that closes 7 % of the way is told after the list that repairs the limit and breaks another one."""
    trials = AdditiveTrials(Clock(), dict.fromkeys(NODES[:12], 50.0), {"a=1": 0.93, "b=1": 0.5})
    texts = [hint.paste or hint.text for hint in _advice(trials)]
    assert texts[0].startswith(f"exclude={list(NODES[:12])}: largest error 600 -> 0, but ")
    assert texts[-2:] == ["b=1", "a=1"]


def test_that_there_was_nothing_to_try_is_told() -> None:
    """No node, no option: the failure says so in place of saying nothing."""

    class Nothing(AdditiveTrials):
        def nodes(self) -> tuple[str, ...]:
            return ()

    (hint,) = _advice(Nothing(Clock(), {"conv3": 5.0}))
    assert hint.text == "nothing was tried: 'any' has no other way to int8 for this model"


def test_the_time_is_kept_and_told() -> None:
    """A trial takes a second: what did not fit is named with its share, and the time asked for is enough."""
    clock = Clock()
    result = _advice(AdditiveTrials(clock, {"conv3": 5.0}, {"a=1": 0.5, "b=1": 0.5, "c=1": 0.5}), seconds=5.0)
    assert clock.now <= 5.0
    late = next(hint for hint in result if "diagnose-time" in hint.paste)
    words = "running the candidate again took 0 s, 5 other engines 5 s, and another engine of about 1 s would not "
    assert late.text.startswith(f"{words}have ended within the first 2 of 5 s: ")
    # Two engines ranked nodes in 2 s; 15 nodes and their 5 groups take 22 s in all, which is 40 % of 55 s.
    assert late.paste == "--quant-diagnose-time=60"
    again = _advice(AdditiveTrials(Clock(), {"conv3": 5.0}, {"a=1": 0.5, "b=1": 0.5, "c=1": 0.5}), seconds=60.0)
    assert not [hint for hint in again if "diagnose-time" in hint.paste]
    # Two quarters of the nodes were tried: the bad one's five are known together, ten not at all.
    assert "15 of 20 nodes were not ranked" in late.text
    assert "c=1 was not tried" in late.text


def test_nothing_is_begun_that_is_known_to_take_too_long() -> None:
    """The candidate took a minute to build, and there are five seconds."""
    clock = Clock()
    trials = AdditiveTrials(clock, {"conv3": 5.0}, {"a=1": 0.5})
    result = Advice(cast(EngineTrials, trials), Budget(5.0, 60.0, clock)).hints()
    assert clock.now == 0.0
    # Twenty nodes and their 6 groups, each a minute, rank in 40 % of the time.
    assert [hint.paste for hint in result] == ["--quant-diagnose-time=3900"]
    words = "running the candidate again took 0 s, and another engine of about 60 s would not have ended within the "
    assert result[0].text.startswith(f"{words}first 2 of 5 s: ")


@pytest.mark.parametrize("seconds", [1.0, 10.0, 20.0, 40.0])
def test_an_option_that_did_not_fit_is_tried_in_the_time_that_is_asked_for(seconds: float) -> None:
    """Whichever share was too short: the advice is followed once, and what was left out is tried."""

    def late(within: float) -> list[Hint]:
        trials = AdditiveTrials(Clock(), dict.fromkeys(NODES[::3], 5.0), dict.fromkeys("abc", 1.0))
        return [hint for hint in _advice(trials, within) if "diagnose-time" in hint.paste]

    (first,) = late(seconds)
    assert late(float(first.paste.partition("=")[2])) == []


@pytest.mark.parametrize("trial_s", [0.1, 5.0, 17.0])
def test_the_time_that_is_asked_for_is_by_the_time_that_engines_took(trial_s: float) -> None:
    """A runtime that compiles builds in 5 ms, and takes its time in the first run, of the candidate and of each trial.

    Where ranking was never begun, an option that was tried since says what an engine takes.
    """

    def late(within: float) -> list[Hint]:
        clock = Clock(per_trial_s=trial_s)
        budget = Budget(within, 0.005, clock)
        clock.now += 20.0
        trials = AdditiveTrials(clock, dict.fromkeys(NODES[::3], 5.0), dict.fromkeys("abc", 1.0))
        return [hint for hint in Advice(cast(EngineTrials, trials), budget).hints() if "diagnose-time" in hint.paste]

    (first,) = late(30.0)
    assert f"and another engine of about {trial_s:.3g} s would not have ended within the first 12 of 30 s" in first.text
    assert first.text.startswith("running the candidate again took 20 s, ")
    assert late(float(first.paste.partition("=")[2])) == []


def test_a_remedy_says_the_whole_key_of_the_mark() -> None:
    """What the mark says already stays: pasting replaces the key."""
    spec = replace(SPEC, exclude=("conv1",), options=(("threads", 2),), calibration=Calibration(samples=50))
    assert exclude_nodes(spec, ["conv2"]).paste == "exclude=['conv1', 'conv2']"
    assert [each.paste for each in set_option(spec, "preset", "mixed")] == ["options={'threads': 2, 'preset': 'mixed'}"]
    assert list(set_option(spec, "threads", 2)) == []


def _names(n: int) -> tuple[str, ...]:
    return tuple(f"node{i}" for i in range(n))


class _Noise:
    """Independent errors add up in power; `by_node` holds those that are not 0. Counts the trials."""

    def __init__(self, by_node: dict[str, float]) -> None:
        self.by_node = by_node
        self.trials = 0

    def __call__(self, nodes: tuple[str, ...]) -> float:
        self.trials += 1
        return sum(self.by_node.get(name, 0.0) for name in nodes)


def _for(trials: int) -> Callable[[], bool]:
    """Allow so many trials."""
    left = iter([True] * trials)
    return lambda: next(left, False)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_one_bad_node_is_found_in_a_logarithmic_number_of_trials(case: tuple[int, int]) -> None:
    """Each step tries four parts and takes one of them apart: at most 4 (1 + log4 n) trials, rounded up."""
    n, bad = case
    noise = _Noise({f"node{bad}": 0.5})
    groups, mixed = rank_nodes(_names(n), noise, lambda: True)
    assert [group.nodes for group in groups] == [(f"node{bad}",)]
    steps = 1
    while 4**steps < n:
        steps += 1
    assert noise.trials <= 4 * (steps + 1)
    assert mixed == 0


@given(st.dictionaries(st.integers(0, 39), st.floats(0.1, 1.0), min_size=1, max_size=5))
def test_bad_nodes_are_ranked_by_their_error(errors: dict[int, float]) -> None:
    """The largest error first, whatever their places in the graph."""
    by_node = {f"node{place}": error for place, error in errors.items()}
    groups, _ = rank_nodes(_names(40), _Noise(by_node), lambda: True)
    single = {group.nodes[0]: group.noise for group in groups if len(group.nodes) == 1}
    assert single == by_node
    assert [group.noise for group in groups] == sorted((group.noise for group in groups), reverse=True)


@pytest.mark.parametrize(("trials", "left"), [(0, None), (4, slice(16, 32)), (5, slice(20, 32))])
def test_when_the_time_is_over_the_rest_is_told_as_mixed(trials: int, left: slice | None) -> None:
    """Four trials of 64 nodes tell which sixteen hold the bad one; the fifth tries the first quarter of those."""
    groups, mixed = rank_nodes(_names(64), _Noise({"node30": 0.5}), _for(trials))
    rest = [] if left is None else [_names(64)[left]]
    assert [group.nodes for group in groups] == rest
    assert mixed == sum(map(len, rest or [_names(64)]))


def test_nodes_that_cannot_be_built_alone_are_left_out() -> None:
    """The others are ranked as ever."""

    def noise(nodes: tuple[str, ...]) -> float | None:
        return None if "node0" in nodes else float("node3" in nodes)

    assert [group.nodes for group in rank_nodes(_names(4), noise, lambda: True)[0]] == [("node3",)]


def _measured(float_bytes: dict[str, int] | None) -> Any:
    """Figures of a check, whose engine tells the bytes of its weights in float, or does not."""
    own = a_measurement()
    figures = {each.name: getattr(own, each.name) for each in fields(own)}
    return SimpleNamespace(**figures, engine=SimpleNamespace(float_bytes=lambda: float_bytes))


@pytest.mark.parametrize(
    ("limit", "status", "beginning"),
    [
        ("min_speedup", Status.FAIL, "pytest-quant profile 'tests/test_digits.py::test_int8[ort-int8-static]' shows"),
        ("max_latency_ms[p99]", Status.FAIL, "pytest-quant profile 'tests/test_digits.py"),
        ("max_size_mb", Status.FAIL, "what runs in float keeps the size of FP32: /conv1/Conv"),
        ("max_size_mb", Status.INCONCLUSIVE, ""),
        ("min_speedup", Status.INCONCLUSIVE, ""),
        ("max_drop", Status.FAIL, ""),
    ],
)
def test_a_broken_limit_on_speed_or_size_has_a_next_step(limit: str, status: Status, beginning: str) -> None:
    """No other engine is tried for it; what is only open needs another measurement, and no cure."""
    texts = [hint.text for hint in next_steps(_measured(None), [Verdict(limit, 1.0, 2.0, status, "")])]
    assert [text[: len(beginning)] for text in texts] == ([beginning] if beginning else [])


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({}, "0 MB of the 0.5 MB above the limit"),
        ({"scale (DequantizeLinear)": 52}, "5.2e-05 MB of the 0.5 MB above the limit"),
        ({"fc (MatMul)": 240_000, "embed (Gather)": 240_000}, "0.48 MB of the 0.5 MB above the limit"),
        ({"fc (MatMul)": 600_000, "scale (DequantizeLinear)": 52}, "0.6 MB: 0.6 MB for fc (MatMul)"),
        (
            {"norm (Mul)": 1_000, "nothing": 20_000, "fc (MatMul)": 109_000, "embed (Gather)": 600_000},
            "0.73 MB: 0.6 MB for embed (Gather), 0.109 MB for fc (MatMul), 0.02 MB for nothing",
        ),
    ],
)
def test_weights_in_float_are_told_by_their_readers(sizes: dict[str, int], told: str) -> None:
    """The three that take most, and the sum of all; none where all of them would not bring the file to its limit."""
    broken = [Verdict("max_size_mb", 1.5, 2.0, Status.FAIL, "")]
    assert [hint.text for hint in next_steps(_measured(sizes), broken)] == [f"weights in float take {told}"]


def test_too_few_rounds_ask_for_more_time_than_there_was() -> None:
    """Six times what was spent; any other reason asks for a quiet machine, and figures without one for nothing."""
    few = "too few rounds: 3 in the time allowed, and 95 % confidence needs 6"
    for rounds, reasons, expected in (
        (3, (few,), [("--quant-max-time=120", few)]),
        (6, ("the null is off: 1.2 times",), [("", "measure on a quiet machine: the null is off: 1.2 times")]),
        (6, (), []),
    ):
        measured = _measured(None)
        measured.check = replace(measured.check, latency=LatencyPlan(max_s=20.0))
        measured.latency = replace(LATENCY, rounds=rounds, reasons=reasons)
        hints = next_steps(measured, [Verdict("min_speedup", 1.0, None, Status.INCONCLUSIVE, "")])
        assert [(hint.paste, hint.text) for hint in hints] == expected
