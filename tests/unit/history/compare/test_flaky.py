"""A test whose launches disagree at the head, and did not at the base, is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_quant.history.compare import Comparison, Flaky, compare, rule
from pytest_quant.report.comparison_document import comparison_json
from pytest_quant.report.comparison_markdown import comparison_markdown
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.result import Better, Status
from tests.unit.history.compare.launched import answered, answers, launch, launches, record_of

_GOOD = record_of()
_WORSE = answered(_GOOD, answers(range(26)))
_FAILED = replace(_GOOD, status=Status.FAIL)


def _named(found: Comparison) -> list[tuple[str, str, str, bool]]:
    return [(one.quantity, one.base, one.head, one.worse) for one in found.flaky]


def test_a_score_that_one_launch_of_three_loses_is_named() -> None:
    """6.5 points: the row of the score says that nothing changed, and rightly so of the launches that agree."""
    found = compare(launches([_GOOD] * 3), launches([_GOOD, _WORSE, _GOOD], commit="head"))
    assert found.changed == ()
    head = "100 % in 2, 93.5 % in 1 of 3 launches"
    assert _named(found) == [("accuracy", "100 % in 3 of 3 launches", head, True)]


def test_a_failure_in_one_launch_of_three_is_named() -> None:
    """ERROR and FAIL are alike broken, and a broken test that passes once is better, not worse."""
    error = replace(_GOOD, status=Status.ERROR)
    there = compare(launches([_GOOD] * 3), launches([_GOOD, _FAILED, _GOOD], commit="head"))
    assert _named(there) == [("status", "PASS in 3 of 3 launches", "PASS in 2, FAIL in 1 of 3 launches", True)]
    back = compare(launches([error, _FAILED]), launches([_GOOD, _FAILED], commit="head"))
    assert _named(back) == [
        ("status", "ERROR in 1, FAIL in 1 of 2 launches", "PASS in 1, FAIL in 1 of 2 launches", False)
    ]


def test_what_varied_at_the_base_too_is_no_news() -> None:
    """Neither the status nor the score."""
    varying = [_GOOD, replace(_WORSE, status=Status.FAIL), _GOOD]
    assert compare(launches(varying), launches(varying, commit="head")).flaky == ()


def test_noise_of_a_machine_and_a_machine_that_is_missing_are_not_flaky() -> None:
    """INCONCLUSIVE and UNAVAILABLE tell nothing of the test."""
    for status in (Status.INCONCLUSIVE, Status.UNAVAILABLE, Status.NO_BASELINE):
        head = launches([_GOOD, replace(_GOOD, status=status)], commit="head")
        assert compare(launches([_GOOD] * 2), head).flaky == ()


def test_another_score_on_another_machine_or_other_data_is_not_flaky() -> None:
    """INT8 rounds otherwise there; what varies on one machine is."""
    base = launch(_GOOD, cpu="one")
    here, there = launch(_GOOD, run="1", commit="head", cpu="one"), launch(_WORSE, run="2", commit="head", cpu="two")
    assert compare(base, [*here, *there]).flaky == ()
    other = replace(_WORSE, digests={"data": "other"})
    assert compare(base, [*here, *launch(other, run="2", commit="head", cpu="one")]).flaky == ()
    again = launch(_WORSE, run="3", commit="head", cpu="one")
    assert [one.worse for one in compare(base, [*here, *there, *again]).flaky] == [True]


def _mae(scores: Sequence[float], better: Better = "lower") -> list[Flaky]:
    assert _GOOD.accuracy is not None
    accuracy = replace(_GOOD.accuracy, better=better, unit="", candidate_correct=None, reference_correct=None)
    head = [replace(_GOOD, accuracy=replace(accuracy, candidate=score)) for score in scores]
    base = [replace(_GOOD, accuracy=replace(accuracy, candidate=0.5))] * 2
    return list(compare(launches(base), launches(head, commit="head")).flaky)


def test_worse_is_what_the_metric_says() -> None:
    """A lower score is the better one of an error, and a rounding of floats is no difference."""
    assert [one.worse for one in _mae([0.5, 0.4])] == [False]
    assert [one.worse for one in _mae([0.5, 0.6])] == [True]
    assert [one.worse for one in _mae([0.5, 0.4], "higher")] == [True]
    assert _mae([0.5, 0.5 * (1.0 + 1e-9)]) == []


def test_it_has_a_section_of_its_own() -> None:
    """In the headline, in text, unfolded in Markdown, and in JSON."""
    found = compare(launches([_GOOD] * 3), launches([_GOOD, _WORSE, _GOOD], commit="head"))
    ruling = rule(found)
    text = comparison_text(found, ruling, 120)
    scores = "100 % in 3 of 3 launches -> 100 % in 2, 93.5 % in 1 of 3 launches"
    line = f"{_GOOD.nodeid} ort-int8-static accuracy: {scores}"
    assert "NO REGRESSION: 1 test NEWLY FLAKY, " in text
    assert f"NEWLY FLAKY (1): {line}" in " ".join(text.split())
    markdown = comparison_markdown(found, ruling)
    assert markdown.index("**NEWLY FLAKY (1)**\n\n- ") < markdown.index("<details>")
    listed = comparison_json(found, ruling)["flaky"]
    assert isinstance(listed, list)
    (only,) = listed
    assert isinstance(only, dict)
    assert (only["quantity"], only["worse"]) == ("accuracy", True)
