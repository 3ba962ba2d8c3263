"""Series as columns of bytes: what is read back is what was put in, exactly."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import replace
from typing import Any

from pytest_quant.history import Point
from pytest_quant.report.page.tracks import FIGURES, Runs, accepted_in_words, changes_in_words, track
from tests.support.pages import STEP, course, points

_SIZES = {"f8": 8, "u4": 4, "u1": 1}
_FORMS = {"f8": "<d", "u4": "<I", "u1": "<B"}


def _read(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Read the columns back, byte by byte, by the rules that the module states."""
    content = zlib.decompress(base64.b64decode(document["bytes"]))
    found: dict[str, list[Any]] = {}
    n, start = document["n"], 0
    for name, kind in document["columns"]:
        size = _SIZES[kind]
        part = content[start : start + n * size]
        start += len(part)
        numbers = [
            struct.unpack(_FORMS[kind], bytes(part[byte * n + place] for byte in range(size)))[0] for place in range(n)
        ]
        found[name] = [None if math.isnan(number) else number for number in numbers]
    assert start == len(content)
    return found


def test_every_figure_is_read_back_exactly() -> None:
    """To the last bit, and nothing where nothing was measured."""
    kept = points(50, machines=3)
    kept[7] = replace(kept[7], speedup=None, candidate=None)
    read = _read(track(course(kept), Runs()))
    for name in FIGURES:
        assert read[name] == [getattr(point, name) for point in kept]


def test_a_figure_that_was_never_measured_has_no_column() -> None:
    """A chart does not offer it."""
    kept = [replace(point, speedup=None, speedup_low=None, speedup_high=None) for point in points(5)]
    assert not {"speedup", "speedup_low"} & set(_read(track(course(kept), Runs())))


def test_texts_stand_beside_their_codes() -> None:
    """Machines, versions of the data, instruction sets and statuses."""
    document: dict[str, Any] = track(course(points(9, machines=3)), Runs())
    read = _read(document)
    for name in ("identity", "version", "isa", "status"):
        texts = [document["texts"][name][code] for code in read[name]]
        assert texts == [str(getattr(point, name)) for point in points(9, machines=3)]


def test_more_texts_than_a_byte_tells() -> None:
    """Of 300 machines each has its code."""
    document: dict[str, Any] = track(course(points(300, machines=300)), Runs())
    assert ["identity", "u4"] in document["columns"]
    assert len(set(_read(document)["identity"])) == 300


def test_runs_are_listed_once_for_all_series() -> None:
    """With commit, branch, time and whether the tree was dirty."""
    runs = Runs()
    first = [*points(5), replace(points(1, branch="topic")[0], dirty=True, commit=None)]
    places = [_read(track(course(kept), runs))["run"] for kept in (first, points(5))]
    listed: Any = runs.to_json()
    assert places == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]
    assert listed["commit"] == [*(f"{number:08x}cccc" for number in range(5)), None]
    assert [listed["branches"][code] for code in listed["branch"]] == ["main"] * 5 + ["topic"]
    assert listed["started"][:2] == [1767225600, 1767229200]
    assert listed["dirty"] == [0, 0, 0, 0, 0, 1]


def test_a_time_that_is_none_stays_away() -> None:
    """A history that others wrote may hold any text there."""
    runs = Runs()
    track(course([replace(points(1)[0], started_at="yesterday")]), runs)
    listed: Any = runs.to_json()
    assert listed["started"] == [None]


def test_a_change_stands_at_its_first_point() -> None:
    """The planted step is found where it was planted, and said in words."""
    made = course(points(60))
    document: dict[str, Any] = track(made, Runs())
    (mark,) = document["changes"]
    assert (mark["at"], mark["figure"]) == (30, "speedup")
    assert math.isclose(float(mark["text"].split()[0]), 100.0 * (STEP - 1.0), abs_tol=1.5)
    (told,) = changes_in_words(made)
    assert told.startswith("WORSE, speedup ")
    assert "  " not in told


def test_a_change_of_a_score_in_percent_is_of_points() -> None:
    """97 % to 68 % is 29 points less, which is 30 % of 97 %."""
    kept = [replace(point, candidate=97.0 if place < 5 else 68.0) for place, point in enumerate(points(10))]
    document: dict[str, Any] = track(course(kept), Runs())
    (mark,) = (one for one in document["changes"] if one["figure"] == "candidate")
    assert mark["text"] == "-29 pp at 00000005cccc"


def test_a_change_of_a_dirty_point_is_not_mistaken() -> None:
    """A run with uncommitted changes has the commit's id, and takes no part."""
    kept = points(60)
    dirty = replace(kept[30], dirty=True, run_id="dirty")
    document: dict[str, Any] = track(course([*kept[:30], dirty, *kept[30:]]), Runs())
    assert [mark["at"] for mark in document["changes"]] == [31]


def test_what_was_accepted_is_a_level_and_a_line() -> None:
    """Of score, drop, speedup and time."""
    document: dict[str, Any] = track(course(points(5), accepted=True), Runs())
    levels = {one["figure"]: one["value"] for one in document["accepted"]}
    assert levels == {"candidate": 93.5, "drop": 4.25, "speedup": 1.95, "candidate_p50_ms": 0.51}
    told = accepted_in_words(course(points(5), accepted=True))
    assert told == "score 93.50 %, x1.95 of acce97edacce accepted on 2026-01-01: the release"
    assert accepted_in_words(course(points(5))) == ""


def test_the_points_of_this_run_are_marked() -> None:
    """By their places; another run of the commit is not this one."""
    kept: list[Point] = points(5)
    runs = Runs({(kept[3].started_at, kept[3].commit), ("another", kept[1].commit)})
    assert track(course(kept), runs)["now"] == [3]


def test_equal_values_take_little_room() -> None:
    """Of 5000 points the columns that repeat cost next to nothing: what is left are those that are noise."""
    document = track(course(points(5000)), Runs())
    noisy = 6 * 8 * 5000
    assert len(str(document["bytes"])) < 4 / 3 * (noisy + 5000) * 1.05
