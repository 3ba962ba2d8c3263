"""The self-test of a runner as a page: what was measured, what this machine can hold, what to write into a mark."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_quant.history.rows import describe_identity
from pytest_quant.printable import clean
from pytest_quant.report.text import align
from pytest_quant.result import SelfTest

_MOST_PCT = 50.0
"""A limit that lets a model become half as slow again guards nothing."""


def selftest_page(selftest: SelfTest) -> str:
    """Return the page that ``pytest-quant selftest`` prints, which needs nothing else to be understood."""
    return "\n".join([*_describe_measured(selftest), *_noise(selftest), *_advice(selftest)])


def describe_held(selftest: SelfTest) -> str:
    """Return on one line when a runner was tested, and which limits it holds."""
    kinds = sorted(selftest.kinds, key=lambda kind: kind.one_pct)
    ends = dict.fromkeys(f"{_limit(kind.one_pct)} ({kind.name} models)" for kind in (kinds[0], kinds[-1]))
    return f"self-test of {selftest.measured_at[:10]}: smallest limit in one launch {' to '.join(ends)}"


def _describe_measured(selftest: SelfTest) -> Iterator[str]:
    minutes, seconds = divmod(round(selftest.seconds), 60)
    yield f"self-test of {clean(', '.join(describe_identity(selftest.identity)))}"
    yield (
        f"{selftest.launches} of {selftest.planned} launches, {clean(selftest.backend)} on {clean(selftest.device)}, "
        f"{minutes} min {seconds} s"
    )
    if selftest.notes:
        yield f"{clean('; '.join(selftest.notes))}: the figures hold for this machine under that load"
    yield ""
    yield "Each launch (a fresh process) timed a model in FP32, in a second session of that, and in INT8, interleaved"
    yield "as a check does. Nothing changed in between, so what differs is the noise of this machine."


def _noise(selftest: SelfTest) -> Iterator[str]:
    """Yield how far equal engines lie apart, and the limits that this leaves."""
    yield from (
        "",
        "Noise of the speedup, as standard deviations: between two sessions in one process, and between launches. Then",
        "the smallest limits that this machine holds: unchanged code passes in 80 % of the runs and fails in 1 % at",
        "most, and what became slower by twice the limit fails in 80 %.",
    )
    rows: list[tuple[str, ...]] = [
        ("", "sd of sessions", "sd of launches", "held by 1 launch", "by 5", "by 5 against a baseline of 5")
    ]
    for kind in selftest.kinds:
        noise = (f"{percent:.2f} %" for percent in (kind.session_sd_pct, kind.launch_sd_pct))
        held = map(_limit, (kind.one_pct, kind.five_pct, kind.five_each_pct))
        rows.append((kind.name, *noise, *held))
    yield from (f"  {line}" for line in align(rows))


def _advice(selftest: SelfTest) -> Iterator[str]:
    yield ""
    yield "What to write into a mark, for a model whose speedup is S:"
    for kind in selftest.kinds:
        single = f"min_speedup=S/{1.0 + round_limit(kind.one_pct) / 100.0:g} in one launch"
        five = f"max_slowdown={round_limit(kind.five_each_pct):g} with --quant-launches 5 in each run"
        likely = [
            text for text, percent in ((single, kind.one_pct), (five, kind.five_each_pct)) if percent <= _MOST_PCT
        ]
        yield f"  {kind.name}: {'; '.join(likely) or 'no limit on speed; measure again while nothing else runs'}"
    yield "Smaller differences are seen by --quant-against REV, which times two commits side by side."


def _limit(percent: float) -> str:
    if percent > _MOST_PCT:
        return f"none below {_MOST_PCT:g} %"
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


_STEPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0)


def round_limit(limit_pct: float) -> float:
    """Return the next round number of percent that is not below a limit; whole tens above 50."""
    return next((step for step in _STEPS if step >= limit_pct), 10.0 * math.ceil(limit_pct / 10.0))
