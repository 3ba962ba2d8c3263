"""A whole page: its figures are those of the records, its words are harmless, and its size is bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_quant.history import StoredCheck
from pytest_quant.history.compare.samples import answers_of
from pytest_quant.printable import clean
from pytest_quant.record import run_to_json
from pytest_quant.report.comparison_document import comparison_json
from pytest_quant.report.page.accuracy import LOST, WON
from pytest_quant.report.page.assemble import Sources, assemble
from pytest_quant.report.page.render import one_file
from tests.support.pages import (
    HOSTILE,
    ReadFigure,
    at,
    course,
    figures_of,
    opened,
    points,
    rich_record,
    sources,
    words_of,
    wrong_texts,
)
from tests.unit.record.examples import RUN

MOST_BYTES = 3_000_000
CHECKS = 200


def _html(found: Sources) -> str:
    return one_file(assemble(found)).decode()


@pytest.fixture(scope="module")
def figures() -> list[ReadFigure]:
    """Every figure of the page with everything."""
    return figures_of(_html(sources()))


def _documents(found: Sources) -> tuple[Any, Any]:
    records = [check.record for check in found.checks]
    assert found.compared is not None
    run = json.loads(json.dumps(run_to_json(found.checks[0].run, records)))
    return run, json.loads(json.dumps(comparison_json(found.compared.comparison, found.compared.ruling)))


def test_every_figure_is_that_of_its_document(figures: list[ReadFigure]) -> None:
    """At the place that it names: bit for bit the number that the JSON of the run, or of the comparison, has."""
    run, comparison = _documents(sources())
    assert len(figures) > 300
    for one in figures:
        assert one.place, one
        if not one.place.startswith((f"accuracy/{LOST}", f"accuracy/{WON}")):
            document = comparison if one.check is None else run["checks"][one.check]
            assert at(document, one.place) == one.value, one


def test_every_figure_is_shown_rounded(figures: list[ReadFigure]) -> None:
    """As many digits as it has are right."""
    assert list(wrong_texts(figures)) == []


def test_lost_and_won_samples_are_those_of_the_record(figures: list[ReadFigure]) -> None:
    """Their number and their indices, decoded from its bits."""
    record = rich_record()
    assert record.accuracy is not None
    reference, candidate = answers_of(record.accuracy, "")
    assert reference is not None
    assert candidate is not None
    for name, mask in ((LOST, reference & ~candidate), (WON, candidate & ~reference)):
        shown = {one.place: one.value for one in figures if one.check == 0 and one.place.startswith(f"accuracy/{name}")}
        assert shown.pop(f"accuracy/{name}/n") == mask.sum()
        assert sorted(shown.values()) == mask.nonzero()[0].tolist()


def test_no_section_of_a_record_is_left_out(figures: list[ReadFigure]) -> None:
    """Of the rich record, every figure that a reader may look for is on the page."""
    places = {one.place for one in figures if one.check == 0}
    assert places >= {
        "accuracy/reference", "accuracy/candidate", "accuracy/drop", "accuracy/drop_ci/0", "accuracy/drop_ci/1",
        "accuracy/agreement_pct", "accuracy/sqnr_db", "accuracy/cosine", "accuracy/kl", "accuracy/max_abs_error",
        "accuracy/max_abs_error_sample", "accuracy/p_value", "accuracy/worst_class/candidate", "accuracy/by_class/14/3",
        "accuracy/by_output/boxes~10~0x/sqnr_db", "latency/reference_p50_ms", "latency/candidate_p50_ms",
        "latency/candidate_p90_ms", "latency/speedup", "latency/speedup_ci/0", "latency/null_ratio_ci/1",
        "coverage/pct", "coverage/by_op/Conv/quantized_macs", "resources/size_mb", "resources/reference_size_mb",
        "verdicts/0/observed", "verdicts/0/allowed", "hints/0/before", "hints/0/after",
    }  # fmt: skip


def test_foreign_texts_are_shown_as_texts() -> None:
    """Names of tests, models, outputs, metrics, branches and messages; nothing of them becomes markup."""
    html = _html(sources(HOSTILE))
    assert words_of(html).count(clean(HOSTILE)) > 20
    html, plain = opened(html), opened(_html(sources()))
    for tag in ("<script", "</script", "<img", "<style", "</style", "-->"):
        assert html.count(tag) == plain.count(tag)
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_hostile_page_has_the_same_figures() -> None:
    """Foreign texts change no number."""
    hostile, plain = (figures_of(_html(sources(text))) for text in (HOSTILE, "-plain"))
    assert [(one.value, one.text) for one in hostile] == [(one.value, one.text) for one in plain]


def test_a_run_that_was_not_compared_says_so_and_how() -> None:
    """With the command that compares."""
    found = replace(
        sources(), compared=None, why_not_compared="This run was not compared.", next_step="pytest-quant compare"
    )
    said = words_of(_html(found))
    assert "This run was not compared." in said
    assert "pytest-quant compare" in said


def test_a_page_without_anything_is_a_page() -> None:
    """No check, no history, no comparison, no engine to compare: each is told."""
    found = Sources((), runs=(RUN,), why_not_compared="not compared", why_no_history="The history is turned off.")
    said = words_of(_html(found))
    for told in (
        "No test with a quant mark ran.",
        "not compared",
        "The history is turned off.",
        "at least two engines",
    ):
        assert told in said


def test_what_is_left_out_of_the_history_is_told() -> None:
    """How many points of how many, and where the rest is."""
    found = Sources(checks=(), courses=[course(points(40), total=5000)])
    said = words_of(_html(found))
    assert "40 of 5000 points of 1 series, the newest ones; pytest-quant report -o DIR" in said


def test_two_hundred_checks_with_their_history_take_three_megabytes() -> None:
    """At the most, with as many points of each series as fit into one file."""
    record = rich_record()
    records = [
        replace(
            record,
            nodeid=f"tests/test_models.py::test_{number}",
            series=json.dumps([f"tests/test_models.py::test_{number}"]),
        )
        for number in range(CHECKS)
    ]
    series = [course(points(100, seed=seed), nodeid=f"tests/test_models.py::test_{seed}") for seed in range(CHECKS)]
    found = Sources(tuple(StoredCheck(RUN, one) for one in records), courses=series)
    assert len(_html(found).encode()) <= MOST_BYTES
