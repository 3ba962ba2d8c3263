"""A page of 20 checks with 10 000 points of history each: how soon it is written and drawn, and how large it is."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from pytest_quant.history.trends import MOST_POINTS
from pytest_quant.stats.ratio import Estimate
from tests.benchmarks.conftest import Large
from tests.benchmarks.history_records import CHECKS, RECORDS
from tests.benchmarks.limits import at_most
from tests.benchmarks.test_history_speed import compiled
from tests.benchmarks.yardstick import beside_yardstick
from tests.support.browser import Window
from tests.support.pages import words_of

MAX_S, MAX_BYTES = 5.0, 3_000_000
"""Seconds of a processor: those of the clock on an idle machine, and what else runs hardly adds to them."""

YARDSTICK_S = 0.15
"""Of the yardstick, of a processor, where the limits hold."""

_COMMAND = "from pytest_quant.cli import main; main()"


def _written(large: Large, file: Path) -> Estimate:
    """Return the processor's seconds of the command, in turns with the yardstick."""
    variables = compiled(file.parent)

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
    seen = window.open(file, "#run")
    expect(seen.page.locator("#check-0 button.open")).to_be_visible()
    show(f"from opening to the table: {time.perf_counter() - started:.2f} s")
    seen.page.locator("#tab-history").click()
    expect(seen.page.locator("#series-0 canvas")).to_be_visible(timeout=60_000)
    show(f"to the first chart: {time.perf_counter() - started:.2f} s")
    assert seen.problems == []
    assert file.stat().st_size <= MAX_BYTES
    at_most(seconds, MAX_S, "seconds of report -o FILE")
