"""The engines of a measurement: closed while others are timed, and opened again for who asks for more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_quant.measure.bench import reopened
from pytest_quant.spec import LatencyPlan
from tests.unit.measure import test_pipeline

bench = test_pipeline.bench


def test_at_most_three_engines_are_open_while_two_are_timed(bench: test_pipeline.Bench) -> None:
    """A session of the candidate and two of the reference; both engines of the check are opened again after that."""
    plan = LatencyPlan(max_s=0.3, pages="small")
    most = 0

    def play(feeds: Any) -> Any:
        nonlocal most
        most = max(most, sum(not one.closed for one in bench.backend.engines)) if timing else 0
        return {"y": feeds["x"]}

    timing = False
    bench.candidate = bench.reference = play

    @contextmanager
    def step(text: str) -> Iterator[None]:
        nonlocal timing
        timing = text.startswith("timing")
        yield
        timing = False

    bench.steps.show = step  # type: ignore[method-assign]
    found = bench.measure(latency=plan)
    assert most == 3
    assert [engine.closed for engine in bench.backend.engines] == [1] * 5
    again = reopened(found)
    assert [one.closed for one in bench.backend.engines[5:]] == [0, 0]
    assert again.bench is not None
    assert again.bench.candidate.engine is again.engine
    assert again.bench.compare(again.bench.candidate, again.bench.data) == found.accuracy
