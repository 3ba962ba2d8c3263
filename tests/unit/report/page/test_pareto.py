"""Which engines stand in a Pareto chart, where, and which of them no other one beats."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.record import Record
from pytest_quant.report.page.content import Dot, ParetoView
from pytest_quant.report.page.pareto import pareto_views
from pytest_quant.result import AccuracyResult
from tests.support.pages import ladder
from tests.unit.history.compare.launched import timed
from tests.unit.record.examples import ACCURACY, RESOURCES, a_check, a_record, unavailable


def _views(records: list[Record]) -> tuple[ParetoView, ...]:
    return pareto_views(records, [record.nodeid for record in records])


def _by_engine(view: ParetoView) -> dict[str, Dot]:
    return {dot.engine: dot for dot in view.dots}


def test_every_engine_has_a_dot_and_the_reference_one() -> None:
    """Three candidates share a reference; each figure is that of the record."""
    (view,) = _views(ladder())
    dots = _by_engine(view)
    assert set(dots) == {"ort-int8-static", "ort-int8-dynamic", "ort-int8-qat", "ort-fp32"}
    assert dots["ort-fp32"].reference
    assert dots["ort-int8-dynamic"].number == 1
    assert dots["ort-int8-dynamic"].score.value == 97.0
    assert dots["ort-int8-dynamic"].latency.value == 0.4
    assert dots["ort-fp32"].score.value == ACCURACY.reference
    assert [dot.letter for dot in view.dots] == ["A", "B", "C", "D"]


def test_faster_is_left_and_better_is_up() -> None:
    """Places go down in a drawing."""
    (view,) = _views(ladder())
    dots = _by_engine(view)
    assert dots["ort-int8-static"].x < dots["ort-int8-dynamic"].x < dots["ort-fp32"].x
    assert dots["ort-fp32"].y < dots["ort-int8-dynamic"].y < dots["ort-int8-static"].y


def test_the_front_is_what_no_other_engine_beats() -> None:
    """The engine that is slower and worse than another is not on it."""
    (view,) = _views(ladder())
    assert {dot.engine for dot in view.dots if dot.front} == {"ort-int8-static", "ort-int8-dynamic", "ort-fp32"}


def test_where_lower_is_better_low_is_up() -> None:
    """And the front is of the least errors."""
    records = [
        replace(record, accuracy=replace(ACCURACY, metric="wer", better="lower", reference=5.0, candidate=score))
        for record, score in zip(ladder(), (9.0, 6.0, 9.5), strict=True)
    ]
    (view,) = _views(records)
    dots = _by_engine(view)
    assert dots["ort-fp32"].y < dots["ort-int8-dynamic"].y < dots["ort-int8-static"].y
    assert not dots["ort-int8-qat"].front
    assert "lower is better" in view.y_label


def test_the_area_of_a_dot_is_its_size() -> None:
    """Four times the size has twice the radius."""
    records = [
        replace(record, resources=replace(RESOURCES, size_mb=size, reference_size_mb=64.0))
        for record, size in zip(ladder(), (16.0, 64.0, None), strict=True)
    ]
    (view,) = _views(records)
    dots = _by_engine(view)
    assert math.isclose(dots["ort-int8-dynamic"].radius, 2.0 * dots["ort-int8-static"].radius, abs_tol=0.1)
    assert dots["ort-int8-qat"].size.text == "-"


def test_no_letter_hides_another() -> None:
    """Also of engines that are as fast and as good as each other."""
    (view,) = _views([replace(record, nodeid=str(place)) for place, record in enumerate([ladder()[0]] * 5)])
    places = [dot.letter_at for dot in view.dots if dot.letter_at is not None]
    assert len(places) == 6
    for place, (x, y) in enumerate(places):
        assert all(abs(x - other) >= 10.0 or abs(y - line) >= 10.0 for other, line in places[:place])


def test_letters_stay_in_the_drawing() -> None:
    """Of a hundred engines alike only as many are named as there is room for; the table names them all."""
    (view,) = _views([replace(record, nodeid=str(place)) for place, record in enumerate([ladder()[0]] * 100)])
    lines = [dot.letter_at[1] for dot in view.dots if dot.letter_at is not None]
    assert 10 < len(lines) < len(view.dots)
    assert max(lines) < ParetoView.BOTTOM


def test_models_metrics_and_batches_have_charts_of_their_own() -> None:
    """Only what can be compared stands in one."""
    one, two, three = ladder()
    views = _views([one, replace(two, model="other"), replace(three, batch_size=8)])
    assert [view.title for view in views] == ["digits", "other", "digits, batches of 8"]


def test_what_was_not_timed_or_not_compared_has_no_dot() -> None:
    """Neither has an engine alone a chart."""
    assert _views([unavailable(), a_record(latency=None), a_record(accuracy=AccuracyResult(n=3))]) == ()
    assert _views([]) == ()


def test_without_a_metric_agreement_is_the_score() -> None:
    """Of candidates alone, for the reference agrees with itself."""
    records = [
        replace(record, accuracy=AccuracyResult(n=10, agreement_pct=share))
        for record, share in zip(ladder(), (90.0, 95.0, 99.0), strict=True)
    ]
    (view,) = _views(records)
    assert sorted(dot.score.text for dot in view.dots) == ["90.00", "95.00", "99.00"]
    assert not any(dot.reference for dot in view.dots)


def _figures(dot: Dot) -> tuple[float, float]:
    """Return two figures of which less is better."""
    assert dot.latency.value is not None
    assert dot.score.value is not None
    return dot.latency.value, -dot.score.value


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=9))
def test_the_front_agrees_with_its_definition(figures: list[tuple[int, int]]) -> None:
    """A dot is off it exactly when another is no slower and no worse, and one of both is better."""
    found = []
    for place, (ms, score) in enumerate(figures):
        record = timed(a_record(a_check(scheme="static")), float(ms), 100.0)
        accuracy = replace(ACCURACY, reference=None, candidate=float(score))
        found.append(replace(record, nodeid=str(place), accuracy=accuracy))
    (view,) = _views(found)
    for dot in view.dots:
        own = _figures(dot)
        others = list(map(_figures, view.dots))
        beaten = any(one != own and one[0] <= own[0] and one[1] <= own[1] for one in others)
        assert dot.front is not beaten
