"""The self-test of a runner as a page: what was measured, what this machine can hold, what to write into a mark."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.printable import clean
from pytest_quant.report.text import aligned, figure
from pytest_quant.result import Interval, KindNoise, SelfTest, SlowdownSeen
from pytest_quant.stats.runner import to_write

_MOST_PCT = 50.0
"""A limit that lets a model become half as slow again guards nothing."""

_SHOWN = ("cpu", "gpu", "isa", "cores")


def selftest_page(found: SelfTest) -> str:
    """Return the page that ``pytest-quant selftest`` prints, which needs nothing else to be understood."""
    return "\n".join([*_measured(found), *_noise(found), *_seen(found), *_held(found), *_advice(found)])


def held_line(found: SelfTest) -> str:
    """Return on one line when a runner was tested, and which limits it holds."""
    return f"self-test of {found.measured_at[:10]}: smallest limit in one launch {_range(found)}"


FIVE = 5
"""Launches for which a self-test tells the smallest limits beside those of one."""


def smallest_pct(kind: KindNoise, launches: int) -> float:
    """Return the smallest limit in percent that so many launches hold for a kind of model."""
    return kind.five_pct if launches >= FIVE else kind.one_pct


def remedy(found: SelfTest, launches: int = 1) -> str:
    """Return what so many launches hold on a runner, and what can be done, as the end of a sentence."""
    kinds = sorted(found.kinds, key=lambda kind: smallest_pct(kind, launches))
    limits = [smallest_pct(kind, launches) for kind in kinds]
    ends = {kind.name: f"{_percent(limit)} ({kind.name} models)" for kind, limit in zip(kinds, limits, strict=True)}
    held = " to ".join(dict.fromkeys([ends[kinds[0].name], ends[kinds[-1].name]]))
    among = "five launches" if launches >= FIVE else "one launch"
    likely = [limit for limit in (limits[0], limits[-1]) if limit <= _MOST_PCT]
    choices = [f"allow {to_write(likely[-1]):g} %"] if likely else []
    if launches < FIVE:
        choices.append(f"take --quant-launches {FIVE} (it holds {_percent(min(kind.five_pct for kind in kinds))})")
    choices.append("compare commits by --quant-against REV")
    return f"{held} in {among}, by its self-test of {found.measured_at[:10]}; {', or '.join(choices)}"


def _range(found: SelfTest) -> str:
    best, worst = found.best, found.worst
    first = f"{_percent(best.one_pct)} ({best.name} models)"
    return first if worst.name == best.name else f"{first} to {_percent(worst.one_pct)} ({worst.name} models)"


def _measured(found: SelfTest) -> Iterator[str]:
    machine = [
        found.identity[name] + (" cores" if name == "cores" else "") for name in _SHOWN if name in found.identity
    ]
    minutes, seconds = divmod(round(found.seconds), 60)
    yield f"self-test of {clean(', '.join(machine))}"
    yield (
        f"{found.processes} of {found.asked} fresh processes, {clean(found.backend)} on {clean(found.device)}, "
        f"{minutes} min {seconds} s"
    )
    if found.notes:
        yield f"{clean('; '.join(found.notes))}: the figures are those of this machine under that load"
    yield ""
    yield "Each process timed an FP32 reference, a second session of it (the null) and an INT8 engine, interleaved as a"
    yield "check does; then that engine, a second session of it, and one with 5 % more of the same work. So what should"
    yield "differ is known, and the rest is this machine."


def _noise(found: SelfTest) -> list[str]:
    """Return how far figures that should be equal lie apart, as standard deviations in percent."""
    rows = [("", "reference ms", "INT8 ms", "rounds %", "neighbours r", "sessions % [95 %]", "launches % [95 %]")]
    rows += [
        (
            kind.name,
            figure(kind.reference_p50_ms),
            figure(kind.candidate_p50_ms),
            f"{kind.round_sd_pct:.2f}",
            f"{kind.autocorrelation:.2f}",
            f"{kind.session_sd_pct:.2f} {_span(kind.session_sd_ci)}",
            f"{kind.launch_sd_pct:.2f} {_span(kind.launch_sd_ci)}",
        )
        for kind in found.kinds
    ]
    return [
        "",
        "Noise of the speedup, as standard deviations: between rounds, between sessions in one process, and between",
        "processes (launches). r is how much a round resembles the one before it.",
        *(f"  {line}" for line in aligned(rows)),
    ]


def _seen(found: SelfTest) -> list[str]:
    heads = ("", "slower by", "at a limit of", "it fails", "unchanged code passes", "runs")
    rows = [heads, *(_seen_row(kind, one) for kind in found.kinds for one in kind.slowdowns)]
    alarms = (
        f"False alarms: unchanged code failed a limit of {found.gate_pct:g} % in {found.alarms} of {found.processes} "
        "processes"
    )
    below = f"{found.alarms_below_pct:.0f} %"
    proven = f"the rate may be up to {below}" if found.alarms else f"that proves only a rate below {below}"
    return [
        "",
        "What one launch sees of a slowdown, at a limit of half of it. Planted: an engine with 5 % more work, and what",
        "that takes; else the rounds of unchanged code, made longer.",
        *(f"  {line}" for line in aligned(rows)),
        "",
        f"{alarms}; {proven}.",
    ]


def _seen_row(kind: KindNoise, one: SlowdownSeen) -> tuple[str, ...]:
    slower = f"{one.slowdown_pct:.1f} % planted" if one.is_planted else f"{one.slowdown_pct:g} %"
    rates = (f"{one.failed_pct:.0f} %", f"{one.passed_pct:.0f} %")
    return (kind.name, slower, f"{one.limit_pct:g} %", *rates, str(one.runs))


def _held(found: SelfTest) -> list[str]:
    rows = [("", "one launch", "5 launches", "5 against a baseline of 5")]
    rows += [
        (kind.name, _percent(kind.one_pct), _percent(kind.five_pct), _percent(kind.five_each_pct))
        for kind in found.kinds
    ]
    return [
        "",
        "Smallest limits that this runner holds: unchanged code passes in 80 % of the runs and fails in 1 % at most,",
        "and what became slower by twice the limit fails in 80 %.",
        *(f"  {line}" for line in aligned(rows)),
    ]


def _advice(found: SelfTest) -> Iterator[str]:
    yield ""
    yield "What to write into a mark, for a model whose speedup is S:"
    for kind in found.kinds:
        one = f"min_speedup=S/{1.0 + to_write(kind.one_pct) / 100.0:g} in one launch"
        five = f"max_slowdown={to_write(kind.five_each_pct):g} with --quant-launches {FIVE} in each run"
        likely = [text for text, percent in ((one, kind.one_pct), (five, kind.five_each_pct)) if percent <= _MOST_PCT]
        yield f"  {kind.name}: {'; '.join(likely) or 'no limit on speed; measure again while nothing else runs'}"
    yield "Smaller differences are seen by --quant-against REV, which times two commits side by side."


def _percent(value: float) -> str:
    if value > _MOST_PCT:
        return f"none below {_MOST_PCT:g} %"
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def _span(span: Interval) -> str:
    return f"[{span.low:.2f}, {span.high:.2f}]"
