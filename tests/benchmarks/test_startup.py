"""What the plugin adds to the start of pytest when no test is marked."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 41
MAX_ADDED_MS = 15.0
BARE = ("-p", "no:quant")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")


def _start_ms(folder: Path, args: tuple[str, ...]) -> float:
    """Return the milliseconds of one whole run of pytest in `folder`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Every start but the first finds compiled modules; a prefix keeps them out of the checkout.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    started = time.perf_counter_ns()
    subprocess.run([*PYTEST, *args], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter_ns() - started) / 1e6


def _undisturbed(times_ms: list[float]) -> float:
    """Return the mean of the shortest quarter.

    Other processes only ever lengthen a start, and the shortest one alone varies by some 5 ms, the median by 9.
    """
    return statistics.mean(sorted(times_ms)[: len(times_ms) // 4])


def test_the_plugin_adds_little_to_a_start_without_marks(tmp_path: Path, show: Callable[[str], None]) -> None:
    """Both starts take turns, and an undisturbed one with the plugin is at most 15 ms longer than one without."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    for args in (BARE, ()):
        _start_ms(tmp_path, args)
    bare: list[float] = []
    ours: list[float] = []
    for turn in range(ROUNDS):
        for args in (BARE, ()) if turn % 2 else ((), BARE):
            (bare if args else ours).append(_start_ms(tmp_path, args))
    before_ms, after_ms = _undisturbed(bare), _undisturbed(ours)
    added_ms = after_ms - before_ms
    show(f"start of pytest: {before_ms:.0f} ms without the plugin, {after_ms:.0f} ms with it: {added_ms:+.1f} ms")
    assert added_ms <= MAX_ADDED_MS
