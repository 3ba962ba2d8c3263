"""A whole page: its figures are those of the records, its words are harmless, and its size is bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_quant.history import StoredCheck
from pytest_quant.printable import clean
from pytest_quant.record import run_to_json
from pytest_quant.report.page.assemble import Sources, assemble
from pytest_quant.report.page.render import one_file
from tests.support.pages import (
    HOSTILE,
    ReadFigure,
    figures_of,
    history_of,
    numbers_of,
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
    """Every number in the tables of the page with everything."""
    return figures_of(_html(sources()))


def test_every_figure_is_that_of_its_check(figures: list[ReadFigure]) -> None:
    """Bit for bit a number that the check has in the JSON of the run."""
    checks = sources().checks
    run = json.loads(json.dumps(run_to_json(checks[0].run, [check.record for check in checks])))
    numbers = [numbers_of(check) for check in run["checks"]]
    assert len(figures) > 50
    for figure in figures:
        assert figure.value in numbers[figure.check], figure


def test_every_figure_is_shown_rounded(figures: list[ReadFigure]) -> None:
    """As many digits as it has are right."""
    assert list(wrong_texts(figures)) == []


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
    assert [one.value for one in hostile] == [one.value for one in plain]
    assert list(wrong_texts(hostile)) == []


def test_what_is_left_out_of_the_history_is_told() -> None:
    """How many points of how many, and where the rest is."""
    found = Sources(checks=(), history=[history_of(points(40), total=5000)])
    said = words_of(_html(found))
    assert "40 of 5000 points of 1 series, the newest ones; pytest-quant history SERIES --csv" in said


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
    history = [
        history_of(points(100, seed=seed), nodeid=f"tests/test_models.py::test_{seed}") for seed in range(CHECKS)
    ]
    found = Sources(tuple(StoredCheck(RUN, one) for one in records), history=history)
    assert len(_html(found).encode()) <= MOST_BYTES
