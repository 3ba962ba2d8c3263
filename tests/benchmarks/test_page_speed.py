"""A page of 20 checks with 10 000 points of history each: how soon it is written and drawn, and how large it is."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from playwright.sync_api import expect

from pytest_quant.history.trends import MOST_POINTS
from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.conftest import Large
from tests.benchmarks.history_records import CHECKS, RECORDS
from tests.benchmarks.limits import at_most
from tests.benchmarks.yardstick import beside_yardstick
from tests.support.browser import Seen, Window
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
  const point = (_, at) => ({ speedup: [Math.sin(at), Math.sin(at) - 0.1, Math.sin(at) + 0.1], timed: "cpu",
                              day: `${at}`, branch: "main", data: "same", about: [] });
  const data = { points: Array.from({ length: number }, point), units: { speedup: "" }, changes: [], accepted: {},
                 branch: "" };
  place.replaceChildren();
  const began = performance.now();
  charts.draw(place, data);
  await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  return performance.now() - began;
}"""


def _written(large: Large, file: Path) -> Estimate:
    """Return the processor's seconds of the command, in turns with the yardstick."""
    variables = environment() | {"PYTHONPYCACHEPREFIX": str(file.parent / "compiled")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)

    def write() -> None:
        command = [sys.executable, "-c", _COMMAND, "report", "--history", str(large.place), "-o", str(file)]
        done = subprocess.run(command, cwd=large.root, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return beside_yardstick(write, variables, YARDSTICK_S, clock=_processor_s)


def _processor_s() -> float:
    """Return the seconds that processors were busy with the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_page_is_written_in_five_seconds_and_stays_fluid(
    large: Large, tmp_path: Path, window: Window, show: Callable[[str], None]
) -> None:
    """With as many points of 200 000 as it has room for; table and charts are there soon after it is opened."""
    file = tmp_path / "page.html"
    seconds = _written(large, file)
    size_mb = file.stat().st_size / 1e6
    show(f"page of {CHECKS} checks with {RECORDS // CHECKS} points each: {seconds.value:.2f} s, {size_mb:.2f} MB")
    assert f"{MOST_POINTS} of {RECORDS} points" in words_of(file.read_text("utf-8"))
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
    _judge_charts(seen, show)


def _judge_charts(seen: Seen, show: Callable[[str], None]) -> None:
    """Draw a chart of 5000 points in turns with one of 50, for which the browser is no slower on a busy machine."""
    taken: dict[int, list[float]] = {50: [], 5000: []}
    for _ in range(15):
        for number, into in taken.items():
            into.append(float(seen.page.evaluate(_REDRAW, number)))
    few, many = (median(times) for times in taken.values())
    show(f"chart of 5000 points: {many:.0f} ms until it is on the screen, of 50 points {few:.0f} ms")
    at_most(many / few, MAX_SLOWER, "a chart of 5000 points to one of 50")
