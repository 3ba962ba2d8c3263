"""A page of 200 checks with 5000 points of history each: how soon it is written and drawn, and how large it is."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import expect

from pytest_quant.history.series_history import MOST_POINTS
from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.limits import at_most
from tests.benchmarks.wide_history import POINTS, SERIES, fill
from tests.benchmarks.yardstick import beside_yardstick
from tests.support.browser import Window
from tests.support.example import environment
from tests.support.pages import words_of

MAX_S, MAX_BYTES = 5.0, 3_000_000
"""Seconds of a processor: those of the clock on an idle machine, and what else runs hardly adds to them."""

MAX_SLOWER = 25.0
"""Times that a chart of 5000 points may take as long to draw anew as one of 50."""

YARDSTICK_S = 0.15
"""Of the yardstick, of a processor, where the limits hold."""

_COMMAND = "from pytest_quant.cli import main; main()"
_REDRAW = """async number => {
  const place = document.querySelector("#series-0 .chart");
  const values = Array.from({ length: number }, (_, index) => Math.sin(index) + index / number);
  const line = { name: "x", values, low: values.map(one => one - 0.1), high: values.map(one => one + 0.1) };
  const chart = { name: "x", lines: [line], labels: values.map(String), tell: () => [], marks: [], borders: [],
                  levels: [], rings: [] };
  const began = performance.now();
  const remove = charts.draw(place, chart);
  await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const taken = performance.now() - began;
  remove();
  return taken;
}"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the history; nothing else is in it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / ".quant").mkdir()
    fill(folder / ".quant" / "history.db")
    return folder


def _written(project: Path) -> Estimate:
    """Return the processor's seconds of the command, in turns with the yardstick."""
    variables = environment() | {"PYTHONPYCACHEPREFIX": str(project / "compiled")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)

    def write() -> None:
        command = [sys.executable, "-c", _COMMAND, "report", "-o", "page.html"]
        done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return beside_yardstick(write, variables, YARDSTICK_S, clock=_processor_s)


def _shown(seconds: Estimate) -> str:
    return f"{seconds.value:.2f} s [{seconds.low:.2f}, {seconds.high:.2f}] of a processor"


def _processor_s() -> float:
    """Return the seconds that processors were busy with the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_page_takes_five_seconds_and_three_megabytes(
    project: Path, window: Window, show: Callable[[str], None]
) -> None:
    """With as many points of a million as it has room for; table and charts are there soon after it is opened."""
    seconds = _written(project)
    file = project / "page.html"
    show(f"page of {SERIES} checks with {POINTS} points each: {_shown(seconds)}, {file.stat().st_size / 1e6:.2f} MB")
    assert f"{MOST_POINTS} of {SERIES * POINTS} points" in words_of(file.read_text("utf-8"))
    started = time.perf_counter()
    seen = window.open(file)
    expect(seen.page.locator("#check-0 button.open")).to_be_visible()
    show(f"from opening to the table: {time.perf_counter() - started:.2f} s")
    seen.page.locator("#tab-history").click()
    expect(seen.page.locator("#series-0 canvas")).to_be_visible(timeout=60_000)
    show(f"to the first chart: {time.perf_counter() - started:.2f} s")
    assert seen.problems == []
    assert file.stat().st_size <= MAX_BYTES
    at_most(seconds, MAX_S, "seconds of report -o FILE")


def test_a_chart_of_5000_points_stays_fluid(project: Path, window: Window, show: Callable[[str], None]) -> None:
    """Drawn in turns with one of 50 points, for which the browser is no slower on a busy machine."""
    seen = window.open(project / "page.html", "#history")
    expect(seen.page.locator("#series-0 canvas")).to_be_visible()
    taken: dict[int, list[float]] = {50: [], POINTS: []}
    for _ in range(15):
        for number, into in taken.items():
            into.append(float(seen.page.evaluate(_REDRAW, number)))
    few, many = (median(times) for times in taken.values())
    show(f"chart of {POINTS} points: {many:.0f} ms until it is on the screen, of 50 points {few:.0f} ms")
    at_most(many / few, MAX_SLOWER, f"a chart of {POINTS} points to one of 50")
