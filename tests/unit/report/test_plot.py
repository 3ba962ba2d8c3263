"""The picture of a series: what it holds, what it says of names from outside, and that it is the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from PIL import Image

from pytest_quant.errors import UsageError
from pytest_quant.history.change import Change
from pytest_quant.history.points import Point, SeriesSummary
from pytest_quant.history.trends import find_changes
from pytest_quant.printable import clean
from pytest_quant.report.plot import _figure, _own_style, _panels, draw
from pytest_quant.result import Status
from tests.unit.history.points import a_point

_SUMMARY = SeriesSummary(
    "key", "tests/test_digits.py::test_int8", "digits", "ort-int8-static", "top1", 40, "2026-02-09"
)
_HOSTILE = "a$b_{1}^$ <script>&amp;\x1b[31m\ufffe\u202e%\n]]>"


def _history(n: int = 40, slower_from: int = 25) -> list[Point]:
    """Return points whose candidate becomes slower by a quarter, with intervals."""
    random = np.random.default_rng(0)
    points = []
    for number in range(n):
        p50 = (1.0 if number < slower_from else 1.25) * float(np.exp(0.01 * random.standard_normal()))
        speedup = 2.0 / p50
        points.append(
            a_point(
                number,
                reference=97.5,
                candidate=97.0,
                drop=0.5,
                candidate_p50_ms=p50,
                p50_low_ms=0.98 * p50,
                p50_high_ms=1.02 * p50,
                speedup=speedup,
                speedup_low=0.98 * speedup,
                speedup_high=1.02 * speedup,
            )
        )
    return points


def _svg(file: Path, points: Sequence[Point], changes: Sequence[Change] = (), summary: SeriesSummary = _SUMMARY) -> str:
    draw(summary, points, changes, file)
    return file.read_text("utf-8")


def _texts(svg: str) -> list[str]:
    """Return every text of the picture, which no reader of XML takes exception to."""
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own


def test_a_picture_names_series_quantities_commits_and_the_change(tmp_path: Path) -> None:
    """Where, and by how much: the speedup fell by a fifth at the 26th commit."""
    points = _history()
    (change,) = find_changes(points)
    texts = _texts(_svg(tmp_path / "x.svg", points, [change]))
    assert _SUMMARY.nodeid in texts
    assert "digits  ort-int8-static  top1  main  40 checks" in texts
    assert {"top1 [%]", "speedup [x]", "p50 [ms]"} <= set(texts)
    assert change.first_bad == points[25].commit
    (note,) = [text for text in texts if "worse" in text]
    assert re.fullmatch(rf"{points[25].commit} worse -(19|20)(\.\d)? %", note)
    assert {points[0].commit, points[-1].commit, "2026-01-01", "2026-02-12"} <= set(texts)
    commits = [text for text in texts if text.startswith("c0000") and text != note]
    assert len(commits) <= 8


@pytest.mark.parametrize("suffix", [".svg", ".PNG"])
def test_the_same_points_give_the_same_file(tmp_path: Path, suffix: str) -> None:
    """To the byte, whatever the user's own settings of matplotlib are, which stay as they were."""
    points = _history()
    files = [tmp_path / f"{number}{suffix}" for number in range(2)]
    draw(_SUMMARY, points, find_changes(points), files[0])
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 20.0, "svg.hashsalt": "other"}):
        before = dict(matplotlib.rcParams)
        draw(_SUMMARY, points, find_changes(points), files[1])
        assert dict(matplotlib.rcParams) == before
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_svg_has_no_date(tmp_path: Path) -> None:
    """So that a file under version control changes with its figures only."""
    assert "dc:date" not in _svg(tmp_path / "x.svg", _history())


def test_a_png_is_a_picture(tmp_path: Path) -> None:
    """Pillow reads it; it is as wide as it is said to be, and no panel is empty."""
    draw(_SUMMARY, _history(), [], tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size == (1500, 1260)
        pixels = np.asarray(picture.convert("RGB"), np.int64)
    blue = np.abs(pixels - np.array([0x00, 0x72, 0xB2])).sum(axis=2) < 30
    assert all(part.any() for part in np.array_split(blue, 3))


def test_a_name_from_outside_is_text(tmp_path: Path) -> None:
    """No formula, no markup, no character that XML or a terminal would act upon; shown as messages show it."""
    summary = replace(_SUMMARY, nodeid=_HOSTILE, model=_HOSTILE, metric=_HOSTILE)
    points = [
        a_point(number, candidate=float(number), commit=_HOSTILE, branch=_HOSTILE, metric=_HOSTILE, identity=_HOSTILE)
        for number in range(3)
    ]
    svg = _svg(tmp_path / "x.svg", points, find_changes(points), summary)
    texts = _texts(svg)
    assert clean(_HOSTILE) in texts
    assert any("a$b_{1}^$" in text and "main" not in text and "3 checks" in text for text in texts)
    assert "<script>" not in svg
    draw(summary, points, [], tmp_path / "x.png")


def test_names_in_any_script_can_be_drawn(tmp_path: Path) -> None:
    """A font without them is no error; an SVG has them as text."""
    summary = replace(_SUMMARY, nodeid="t.py::test_模型[é]", model="сеть")
    assert "t.py::test_模型[é]" in _texts(_svg(tmp_path / "x.svg", _history(3), (), summary))
    draw(summary, _history(3), [], tmp_path / "x.png")


def _drawn(points: Sequence[Point], changes: Sequence[Change] = ()) -> list[Axes]:
    """Return the panels of the picture."""
    panels = [panel for panel in _panels(points, changes) if not np.isnan(panel.values).all()]
    with _own_style():
        return list(_figure(_SUMMARY, points, panels).axes)


def _lines(axes: Axes, style: str = "-") -> list[list[float]]:
    """Return the places on the x axis of each line over several commits."""
    shown = [line for line in axes.get_lines() if line.get_linestyle() == style]
    return [np.asarray(line.get_xdata()).tolist() for line in shown if len(np.asarray(line.get_xdata())) != 2]


def test_a_line_ends_where_what_is_measured_changes() -> None:
    """And there is a border between both, in every panel."""
    points = [replace(point, version="v" if at < 7 else "w") for at, point in enumerate(_history(12))]
    for axes in _drawn(points):
        assert [place for place in _lines(axes) if place] == [list(range(7)), list(range(7, 12))]
        assert [line.get_xdata()[0] for line in axes.get_lines() if line.get_linestyle() == ":"] == [6.5]  # type: ignore[index]


def test_each_machine_has_a_line() -> None:
    """With a name and a colour of its own, also where they take turns; a score belongs to an instruction set."""
    points = [replace(point, identity=f"m{at % 2}") for at, point in enumerate(_history(30))]
    score, speedup, p50 = _drawn(points)
    assert [place for place in _lines(score) if place] == [list(range(30))]
    for axes in (speedup, p50):
        assert [place for place in _lines(axes) if place] == [list(range(0, 30, 2)), list(range(1, 30, 2))]
        legend = axes.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == ["machine m0", "machine m1"]
        assert len({line.get_color() for line in axes.get_lines() if line.get_linestyle() == "-"}) >= 2
        assert not [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert score.get_legend() is None


def test_a_band_is_the_interval() -> None:
    """Of the speedup and of p50; a point without both bounds has none, and a score has none at all."""
    points = _history(4)
    points[1] = replace(points[1], p50_low_ms=None)
    bounds = [(point.p50_low_ms, point.p50_high_ms) for point in points]
    score, _, p50 = _drawn(points)
    area, alone = p50.collections
    corners = np.concatenate([np.asarray(path.vertices) for path in area.get_paths()])
    assert {(x, y) for x, y in corners.tolist() if x >= 2.0} == {(float(at), y) for at in (2, 3) for y in bounds[at]}
    assert 1.0 not in corners[:, 0]
    assert [np.asarray(path.vertices).tolist() for path in alone.get_paths()] == [
        [[0.0, bounds[0][0]], [0.0, bounds[0][1]]]
    ]
    assert len(score.collections) == 0


def test_a_change_is_marked_in_the_panel_of_its_quantity() -> None:
    """At the first commit of the new level."""
    points = _history()
    score, speedup, p50 = _drawn(points, find_changes(points))
    assert [text.xy[0] for text in speedup.texts if isinstance(text, Annotation)] == [25]
    assert (len(score.texts), len(p50.texts)) == (0, 0)


def test_a_change_of_other_checks_is_left_out(tmp_path: Path) -> None:
    """Of a history of which the last checks are drawn."""
    points = _history()
    texts = _texts(_svg(tmp_path / "x.svg", points[30:], find_changes(points)))
    assert not [text for text in texts if "worse" in text or "change of level" in text]


def test_what_was_never_measured_has_no_panel() -> None:
    """A check without a latency has its score; one that never came to be is passed over."""
    points = [a_point(number, candidate=float(number), speedup=None) for number in range(3)]
    points[1] = a_point(1, status=Status.ERROR, version="")
    (score,) = _drawn(points)
    assert score.get_ylabel() == "top1 [%]"
    assert [np.asarray(line.get_xdata()).tolist() for line in score.get_lines() if line.get_linestyle() == "-"] == [
        [0, 2]
    ]


@pytest.mark.parametrize("value", [0.0, 1e-300, 1e300, -5.0])
def test_any_figure_can_be_drawn(tmp_path: Path, value: float) -> None:
    """One check alone, too; those that no axis can hold are left out."""
    points = [a_point(0, candidate=50.0, speedup=value, speedup_low=value, speedup_high=value)]
    assert "1 check" in " ".join(_texts(_svg(tmp_path / "x.svg", points)))


def test_a_long_history_is_a_small_file(tmp_path: Path) -> None:
    """Of 5000 checks: a line without markers, and eight commits by name."""
    svg = _svg(tmp_path / "x.svg", _history(5000, slower_from=4000))
    assert len(svg) < 1_500_000
    assert sum(re.fullmatch(r"c\d+", text) is not None for text in _texts(svg)) == 8


@pytest.mark.parametrize("name", ["x.pdf", "x", "svg", "x.svg.gz"])
def test_another_kind_of_file_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is drawn, with what is possible."""
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        draw(_SUMMARY, _history(), [], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is optional."""
    monkeypatch.setattr("pytest_quant.report.plot.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r'pip install "pytest-quant\[plot\]"'):
        draw(_SUMMARY, _history(), [], tmp_path / "x.png")


def test_a_series_without_figures_is_an_error(tmp_path: Path) -> None:
    """An empty picture would say that nothing changed."""
    for points in ([], [a_point(0, status=Status.ERROR)]):
        with pytest.raises(UsageError, match="nothing to draw"):
            draw(_SUMMARY, points, [], tmp_path / "x.png")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """With the reason; nothing is left half-written."""
    with pytest.raises(UsageError, match="cannot be written"):
        draw(_SUMMARY, _history(3), [], tmp_path / "no folder" / "x.svg")
