"""A series as its chart is drawn: what is read back is what the history holds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from pytest_quant.report.page.series import FIGURES, accepted_in_words, changes_in_words, series_data
from tests.support.pages import STEP, history_of, points


def test_every_figure_is_that_of_its_point() -> None:
    """With its interval, where both ends are known; nothing where nothing was measured."""
    measured = points(15)
    measured[3] = replace(measured[3], speedup=None, candidate=None)
    data: Any = series_data(history_of(measured))
    for drawn, point in zip(data["points"], measured, strict=True):
        for quantity, names in FIGURES.items():
            figure, *interval = (getattr(point, name) for name in names)
            if figure is None:
                assert drawn[quantity] is None
            else:
                assert drawn[quantity] == ([figure] if None in interval else [figure, *interval])


def test_a_point_names_its_run() -> None:
    """Commit, branch and time, whether the tree was dirty, status and instruction set."""
    (point,) = points(1)
    data: Any = series_data(history_of([replace(point, dirty=True)]))
    run = {name: data["points"][0][name] for name in ("commit", "branch", "started", "dirty", "status", "isa")}
    assert run == {
        "commit": "00000000cccc",
        "branch": "main",
        "started": "2026-01-01 00:00",
        "dirty": True,
        "status": "PASS",
        "isa": "avx2",
    }
    data = series_data(history_of([replace(point, commit=None, branch=None)]))
    assert (data["points"][0]["commit"], data["points"][0]["branch"], data["branch"]) == ("", "", "")


def test_machines_have_letters_and_versions_of_the_data_numbers() -> None:
    """In the order in which they first come; a version that is not known has none."""
    measured = [replace(point, version=version) for point, version in zip(points(6, machines=3), "vvw wv", strict=True)]
    data: Any = series_data(history_of([replace(point, version=point.version.strip()) for point in measured]))
    assert [point["machine"] for point in data["points"]] == ["A", "B", "C", "A", "B", "C"]
    assert [point["data"] for point in data["points"]] == [1, 1, 2, 0, 2, 1]


def test_a_figure_has_its_unit() -> None:
    """That of a score is the one of the newest point that has one; a drop of percentages is in points of them."""
    measured = points(3)
    data: Any = series_data(
        history_of([measured[0], replace(measured[1], unit="logit"), replace(measured[2], unit=None)])
    )
    assert data["units"] == {"speedup": "x", "latency": "ms", "score": "logit", "drop": "logit"}
    data = series_data(history_of(measured))
    assert (data["units"]["score"], data["units"]["drop"]) == ("%", "pp")


def test_a_change_stands_at_its_first_point() -> None:
    """The planted step is found where it was planted, and said in words."""
    history = history_of(points(60))
    data: Any = series_data(history)
    (mark,) = data["changes"]
    assert (mark["at"], mark["quantity"]) == (30, "speedup")
    assert math.isclose(float(mark["text"].split()[0]), 100.0 * (STEP - 1.0), abs_tol=1.5)
    (text,) = changes_in_words(history)
    assert text.startswith("WORSE, speedup ")
    assert "  " not in text


def test_a_change_of_a_score_in_percent_is_of_points() -> None:
    """97 % to 68 % is 29 points less, which is 30 % of 97 %."""
    measured = [replace(point, candidate=97.0 if place < 5 else 68.0) for place, point in enumerate(points(10))]
    data: Any = series_data(history_of(measured))
    (mark,) = (change for change in data["changes"] if change["quantity"] == "score")
    assert mark["text"] == "-29 pp at 00000005cccc"


def test_a_change_of_a_dirty_point_is_not_mistaken() -> None:
    """A run with uncommitted changes has the commit's id, and takes no part."""
    measured = points(60)
    dirty = replace(measured[30], dirty=True, run_id="dirty")
    data: Any = series_data(history_of([*measured[:30], dirty, *measured[30:]]))
    assert [mark["at"] for mark in data["changes"]] == [31]


def test_what_was_accepted_is_a_level_and_a_line() -> None:
    """Of score, drop, speedup and time."""
    accepted = history_of(points(5), accepted=True)
    levels = {"score": [93.5], "drop": [4.25], "speedup": [1.95], "latency": [0.51]}
    assert series_data(accepted)["accepted"] == levels
    assert accepted_in_words(accepted) == "score 93.50 %, x1.95 of acce97edacce accepted on 2026-01-01: the release"
    assert accepted_in_words(history_of(points(5))) == ""


def test_the_points_of_this_run_are_marked() -> None:
    """Another run of the commit is not this one."""
    measured = points(5)
    data: Any = series_data(
        history_of(measured), {(measured[3].started_at, measured[3].commit), ("another", measured[1].commit)}
    )
    assert [point["now"] for point in data["points"]] == [False, False, False, True, False]
