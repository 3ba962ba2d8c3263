"""One series as a picture: score, speedup and time over its commits, with intervals and changes of level."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import UsageError
from pytest_quant.history.change import Change
from pytest_quant.history.points import Point, SeriesSummary
from pytest_quant.printable import clean
from pytest_quant.report.text import count, figure, shorten
from pytest_quant.result import Status
from pytest_quant.whole_file import next_step, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL = 'pip install "pytest-quant[plot]"'
"""Command that installs what draws."""

_KINDS = (".png", ".svg")
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#999999")
"""Of machines in turn; told apart without red and green (Okabe and Ito 2008, Color Universal Design)."""
_WORSE, _BETTER, _NEITHER = "#d55e00", "#009e73", "#666666"
_GREY = "#888888"

_MOST_TICKS, _MOST_NOTES, _MOST_LEGENDS, _MOST_BORDERS = 8, 6, 8, 12
_MOST_MARKERS = 150
_COMMIT, _DATE = 10, 10
_TITLE = 110
_LARGEST = 1e100
"""A figure beyond it is left out: the range of an axis would not fit into a number."""


def draw(summary: SeriesSummary, points: Sequence[Point], changes: Iterable[Change], file: Path) -> None:
    """Write a picture of one series: a panel for each of score, speedup and p50 that was ever measured.

    Each machine has a line of its own, which ends where what is measured changes. The same points give the same SVG, to
    the byte, with one version of matplotlib.

    Parameters
    ----------
    summary : of the series.
    points : its checks, oldest first.
    changes : of the series, marked in the panel of their quantity where their commit is among the points.
    file : to write, PNG or SVG by its name.

    Raises
    ------
    UsageError : the name ends in something else, matplotlib is not installed, nothing was measured, or the file cannot
        be written.
    """
    kind = file.suffix.lower()
    if kind not in _KINDS:
        raise UsageError("a plot is a PNG or an SVG file", value=str(file), allowed="a name that ends in .png or .svg")
    if find_spec("matplotlib") is None:
        raise UsageError("a plot needs matplotlib, which is not installed", fix=INSTALL)
    drawn = {(point.commit, point.started_at) for point in points}
    shown = [change for change in changes if (change.first_bad, change.first_bad_at) in drawn]
    panels = [panel for panel in _panels(points, shown) if _any(panel.values)]
    if not panels:
        raise UsageError(
            "there is nothing to draw: no check of the series has a score or a time",
            value=shorten(clean(summary.nodeid), _TITLE),
            fix="pytest-quant history SERIES tells why its checks were not measured",
        )
    with _own_style():
        content = _image(_figure(summary, points, panels), kind, summary)
    try:
        write_whole(file, content)
    except OSError as error:
        raise UsageError(
            f"the plot cannot be written to {file}",
            value=error.strerror or str(error),
            fix=next_step(error, "name a file in a folder that you may write to"),
        ) from error


@dataclass(frozen=True, slots=True)
class _Panel:
    """One quantity over the points.

    Attributes
    ----------
    label : of the axis, with the unit.
    values, lows, highs : of each point; NaN where it was not measured. A point without both bounds has no band.
    machines : of each point, what must be equal for its value to be compared.
    versions : of each point, empty where nothing was measured.
    changes : of this quantity.
    reference : of each point, drawn thin; empty for none.
    """

    label: str
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    machines: Sequence[str]
    versions: Sequence[str]
    changes: Sequence[Change]
    reference: Sequence[float] = ()


def _panels(points: Sequence[Point], changes: Sequence[Change]) -> tuple[_Panel, ...]:
    versions = [point.version for point in points]
    machines = [point.identity for point in points]
    none = [math.nan] * len(points)

    def of(*quantities: str) -> list[Change]:
        return [change for change in changes if change.quantity in quantities]

    def column(name: str) -> list[float]:
        return [_drawable(getattr(point, name)) for point in points]

    metrics = [point for point in points if point.metric]
    named = f"{metrics[-1].metric} [{metrics[-1].unit}]" if metrics and metrics[-1].unit else "score"
    return (
        _Panel(
            shorten(clean(named), 30),
            column("candidate"),
            none,
            none,
            [point.isa for point in points],
            versions,
            of("score"),
            column("reference"),
        ),
        _Panel(
            "speedup [x]",
            column("speedup"),
            column("speedup_low"),
            column("speedup_high"),
            machines,
            versions,
            of("speedup"),
        ),
        _Panel(
            "p50 [ms]",
            column("candidate_p50_ms"),
            column("p50_low_ms"),
            column("p50_high_ms"),
            machines,
            versions,
            of("latency"),
        ),
    )


def _drawable(value: float | None) -> float:
    return value if value is not None and abs(value) <= _LARGEST else math.nan


def _any(values: Iterable[float]) -> bool:
    return not all(map(math.isnan, values))


@contextmanager
def _own_style() -> Iterator[None]:
    """Draw as matplotlib does out of the box, whatever the user's settings are, and the same each time."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes in a PNG, and is text in an SVG.
        warnings.filterwarnings("ignore", message="Glyph")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.size": 9.0,
                "svg.fonttype": "none",
                "svg.hashsalt": "pytest-quant",
                # Names hold dollars, which are no formula.
                "text.parse_math": False,
                "text.usetex": False,
            }
        )
        yield


def _figure(summary: SeriesSummary, points: Sequence[Point], panels: Sequence[_Panel]) -> Figure:
    # Without pyplot nothing is kept, and no window system is looked for.
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(10.0, 1.2 + 2.4 * len(panels)), dpi=150, layout="constrained")
    drawing.suptitle(_title(summary, points), fontsize=10.0)
    every = drawing.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0].tolist()
    for axes, panel in zip(every, panels, strict=True):
        _draw_panel(axes, panel, points)
        _mark_failures(axes, panel, points)
    ticks = _ticks(len(points))
    every[-1].set_xticks(ticks, [_tick(points[at]) for at in ticks])
    every[-1].set_xlim(-0.5, len(points) - 0.5)
    drawing.supxlabel(_legend(points, panels), fontsize=7.5, color="#555555")
    return drawing


def _title(summary: SeriesSummary, points: Sequence[Point]) -> str:
    parts = (summary.model, summary.engine_id, summary.metric)
    branches = list(dict.fromkeys(point.branch or "no branch" for point in points))
    where = branches[0] if len(branches) == 1 else f"{len(branches)} branches"
    told = (*(part for part in parts if part), where, count(len(points), "check"))
    return "\n".join(shorten(clean(line), _TITLE) for line in (summary.nodeid, "  ".join(told)))


def _legend(points: Sequence[Point], panels: Sequence[_Panel]) -> str:
    """Return what the marks mean that may be drawn."""
    shown = [
        ("band: interval", any(_any(panel.lows) for panel in panels)),
        ("dashed: reference", any(_any(panel.reference) for panel in panels)),
        ("x: FAIL", any(point.status is Status.FAIL for point in points)),
        ("upright: change of level", any(panel.changes for panel in panels)),
        (
            "dotted: another machine, other data or another metric",
            any(
                len({kind for kind in kinds if kind}) > 1
                for panel in panels
                for kinds in (panel.machines, panel.versions)
            ),
        ),
    ]
    return "   ".join(text for text, is_drawn in shown if is_drawn)


def _ticks(n: int) -> list[int]:
    shown = min(n, _MOST_TICKS)
    return sorted({round(at * (n - 1) / max(1, shown - 1)) for at in range(shown)})


def _tick(point: Point) -> str:
    commit = clean(point.commit)[:_COMMIT] if point.commit else "no commit"
    return f"{commit}{'+' if point.dirty else ''}\n{clean(point.started_at)[:_DATE]}"


def _draw_panel(axes: Axes, panel: _Panel, points: Sequence[Point]) -> None:
    axes.set_ylabel(panel.label)
    axes.grid(visible=True, axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.ticklabel_format(axis="y", useOffset=False)
    measured = [at for at, value in enumerate(panel.values) if not math.isnan(value)]
    machines = list(dict.fromkeys(panel.machines[at] for at in measured))
    marker, thickness = ("o", 1.0) if len(measured) <= _MOST_MARKERS else ("", 0.5)
    for number, machine in enumerate(machines):
        color = _COLORS[number % len(_COLORS)]
        own = [at for at in measured if panel.machines[at] == machine]
        label = f"machine {shorten(clean(machine), 16)}" if number < _MOST_LEGENDS else None
        for segment in _segments(own, panel.versions):
            values = [panel.values[at] for at in segment]
            axes.plot(segment, values, color=color, marker=marker, markersize=3.0, linewidth=thickness, label=label)
            label = None
            _draw_band(axes, segment, panel, color)
            _draw_reference(axes, segment, panel)
    _draw_borders(axes, measured, panel)
    _draw_changes(axes, panel, points)
    if len(machines) > 1:
        # Beside the panel: inside it would lie over points.
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7.0, frameon=False)


def _segments(own: Sequence[int], versions: Sequence[str]) -> Iterator[list[int]]:
    """Yield neighbouring points of one machine for which the same was measured."""
    segment: list[int] = []
    for at in own:
        if segment and versions[at] != versions[segment[-1]]:
            yield segment
            segment = []
        segment.append(at)
    if segment:
        yield segment


def _draw_band(axes: Axes, segment: Sequence[int], panel: _Panel, color: str) -> None:
    whole = [panel.lows[at] <= panel.highs[at] for at in segment]
    lows, highs = (
        [side[at] if known else math.nan for at, known in zip(segment, whole, strict=True)]
        for side in (panel.lows, panel.highs)
    )
    if not any(whole):
        return
    axes.fill_between(segment, lows, highs, color=color, alpha=0.2, linewidth=0.0)
    # An area needs two points next to each other.
    around = zip([False, *whole], whole, [*whole[1:], False], strict=False)
    alone = [place for place, (before, known, after) in enumerate(around) if known and not before and not after]
    axes.vlines(
        [segment[place] for place in alone],
        [lows[place] for place in alone],
        [highs[place] for place in alone],
        color=color,
        alpha=0.4,
        linewidth=4.0,
    )


def _draw_reference(axes: Axes, segment: Sequence[int], panel: _Panel) -> None:
    if panel.reference:
        known = [panel.reference[at] for at in segment]
        marker = "_" if len(segment) == 1 else ""
        axes.plot(segment, known, color=_GREY, marker=marker, markersize=12.0, linewidth=0.8, linestyle="--")


def _draw_borders(axes: Axes, measured: Sequence[int], panel: _Panel) -> None:
    """Draw a line where the machine or what is measured is another than before; not where machines take turns."""
    for kinds in (panel.versions, panel.machines):
        borders = [at - 0.5 for before, at in itertools.pairwise(measured) if kinds[before] != kinds[at]]
        for border in borders if len(borders) <= _MOST_BORDERS else ():
            axes.axvline(border, color=_GREY, linewidth=0.8, linestyle=":")


def _draw_changes(axes: Axes, panel: _Panel, points: Sequence[Point]) -> None:
    """Draw a line at the first commit of each new level; the latest ones have a note of commit and size."""
    places = {(point.commit, point.started_at): at for at, point in enumerate(points)}
    latest = sorted(panel.changes, key=lambda change: change.first_bad_at, reverse=True)
    for number, change in enumerate(latest):
        at = places[change.first_bad, change.first_bad_at]
        color = {True: _BETTER, False: _WORSE, None: _NEITHER}[change.improved]
        axes.axvline(at, color=color, linewidth=1.2)
        if number < _MOST_NOTES:
            right = at > len(points) / 2
            axes.annotate(
                _note(change),
                (at, 0.97 - 0.13 * (number % 3)),
                xycoords=("data", "axes fraction"),
                xytext=(-4 if right else 4, 0),
                textcoords="offset points",
                ha="right" if right else "left",
                va="top",
                fontsize=7.5,
                color=color,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )


def _note(change: Change) -> str:
    word = {True: "better", False: "worse", None: "changed"}[change.improved]
    unit = clean(change.unit) if change.quantity == "score" else "%"
    unit = "points" if unit == "%" and change.quantity == "score" else unit
    sign = "+" if change.size > 0.0 else ""
    return f"{clean(change.first_bad)[:_COMMIT]} {word} {sign}{figure(change.size, 3)} {shorten(unit, 12)}".rstrip()


def _mark_failures(axes: Axes, panel: _Panel, points: Sequence[Point]) -> None:
    failed = [at for at, point in enumerate(points) if point.status is Status.FAIL and not math.isnan(panel.values[at])]
    values = [panel.values[at] for at in failed]
    axes.plot(failed, values, color=_WORSE, marker="x", markersize=5.0, linestyle="none")


def _image(drawing: Figure, kind: str, summary: SeriesSummary) -> bytes:
    written = io.BytesIO()
    about = {"Date": None, "Title": shorten(clean(summary.nodeid), _TITLE)} if kind == ".svg" else {}
    drawing.savefig(written, format=kind.removeprefix("."), metadata=about)
    return written.getvalue()
