"""What the plugin adds to the start of pytest when no test is marked."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.limits import at_most
from tests.benchmarks.yardstick import median_interval

ROUNDS = 101
MAX_ADDED_MS = 15.0
STARTS = Path(__file__).with_name("start_times.py")


def _undisturbed(times_ms: list[float]) -> float:
    """Return the mean of the shortest quarter: other processes only ever lengthen a start."""
    return statistics.mean(sorted(times_ms)[: len(times_ms) // 4])


def test_the_plugin_adds_little_to_a_start_without_marks(tmp_path: Path, show: Callable[[str], None]) -> None:
    """Both starts take turns; the one with the plugin is at most 15 ms longer, as the interval tells."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Every start but the first finds compiled modules; a prefix keeps them out of the checkout.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "compiled")
    command = [sys.executable, str(STARTS), str(ROUNDS)]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    times_ms = json.loads(result.stdout)
    before_ms, after_ms = _undisturbed(times_ms["bare"]), _undisturbed(times_ms["ours"])
    added_ms = after_ms - before_ms
    show(
        f"start of pytest, interpreter and pytest's imports apart: {before_ms:.0f} ms without the plugin, "
        f"{after_ms:.0f} ms with it: {added_ms:+.1f} ms"
    )
    added = [ours - bare for bare, ours in zip(times_ms["bare"], times_ms["ours"], strict=True)]
    at_most(median_interval(added), MAX_ADDED_MS, "milliseconds that the plugin adds to a start")
