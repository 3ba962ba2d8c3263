"""Graphs that hypothesis draws: our figures equal independent ones, or the message is ours. Never a wrong figure.

Other graphs are drawn each night. A finding is written down as its plan, which goes into the examples below.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import pytest
from hypothesis import example, given

from tests.nightly.generated_graphs.checked import Independent, Outcome, check_graph
from tests.nightly.generated_graphs.drawn import Plan, build, plans


@pytest.fixture(scope="module")
def independent() -> Iterator[Independent]:
    """One process for all graphs."""
    with Independent() as process:
        yield process


def outcome_of(plan: Plan, independent: Independent) -> Outcome:
    """Build and check one graph in a folder of its own."""
    with TemporaryDirectory() as folder:
        return check_graph(build(plan), independent, Path(folder))


def test_figures_equal_independent_ones_or_the_message_is_ours(independent: Independent) -> None:
    """Whatever the layout: n, score, agreement, SQNR, cosine and largest error of each output.

    What is raised otherwise is a `QuantError`, for few of the graphs; anything else fails here as it is.
    """
    outcomes: list[Outcome] = []

    @hypothesis.settings(max_examples=60, database=None)
    @given(plan=plans())
    @example(Plan("static", "time-major", ("MatMul",)))
    @example(Plan("static", "time-major", ("LSTM", "MatMul"), head=False, extra="classes"))
    @example(Plan("static", "sequence", ("turn", "Add"), head=False, extra="middle"))
    @example(Plan("static", "vector", ("Relu", "If"), seed=3, extra="table"))
    @example(Plan("static", "vector", ("rate", "matrix"), constant_nodes=True))
    @example(Plan("static", "time-major", ("turn", "rate"), batch=1, second_input=True))
    @example(Plan("static", "time-major", ("state", "GRU"), batch=4))
    @example(Plan("dynamic", "sequence", ("If",), second_input=True, batch="batch_size"))
    @example(Plan("dynamic", "time-major", ("LSTM", "LSTM"), batch="N", seed=69))
    @example(Plan("dynamic", "vector", ("Clip",), opset=11, seed=18))
    def every(plan: Plan) -> None:
        outcomes.append(outcome_of(plan, independent))
        assert not outcomes[-1].wrong, outcomes[-1].wrong

    every()
    assert sum(bool(outcome.refusal) for outcome in outcomes) < len(outcomes) / 5


def test_an_output_that_a_fixed_batch_shares_is_compared_whole(independent: Independent) -> None:
    """Four samples share one table of anchors, which the user says: each has all of it, and the figures are right."""
    outcome = outcome_of(Plan("static", "vector", ("Gemm",), batch=4, extra="table"), independent)
    assert outcome == Outcome()
