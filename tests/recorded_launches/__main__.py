"""Records launches and what is judged of them: ``python -m tests.recorded_launches [--launches | --verdicts]``.

With ``--launches`` two hundred processes time models for a quarter of an hour, which wants a machine that nobody else
uses. With ``--verdicts`` what is recorded is judged anew: only where a verdict is to change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends import Engine, Feeds
from pytest_quant.clocks import REAL
from pytest_quant.measure.engine_trio import EngineTrio
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.timing_process import TimingJob
from tests.benchmarks.detection import bursts
from tests.benchmarks.detection.launches import check_file
from tests.recorded_launches import LEAST_SPEEDUP, PLAN, RECORDED, histories, rows

ARMS = {
    **{
        (name, load, pct): 10 for name in ("products", "convolutions") for load in ("quiet", "bursty") for pct in (0, 5)
    },
    **{("magika", load, pct): 10 for load in ("quiet", "bursty") for pct in (0, 2, 5)},
    **{("memory_24", "quiet", pct): 20 for pct in (0, 5)},
    **{("memory_24", "bursty", pct): 10 for pct in (0, 5)},
}
"""Launches of each model, load and percent more of the same work."""


@dataclass(frozen=True, slots=True)
class _Watched(TimingSubject):
    """An engine whose runs are written down, in a list for each time that it is opened."""

    opened: list[tuple[int, int, list[int]]] = field(default_factory=list)

    def open(self, opened: ExitStack) -> Engine:
        """Open it."""
        began = REAL.perf_counter_ns()
        engine = TimingSubject.open(self, opened)
        prepare, runs_ns = engine.prepare, list[int]()

        def watched(feeds: Feeds) -> Callable[[], object]:
            call = prepare(feeds)

            def run() -> object:
                started = REAL.perf_counter_ns()
                returned = call()
                runs_ns.append(REAL.perf_counter_ns() - started)
                return returned

            return run

        engine.prepare = watched  # type: ignore[method-assign]
        self.opened.append((engine.size_bytes, REAL.perf_counter_ns() - began, runs_ns))
        return engine


def record_launch(file: Path, seed: int) -> dict[str, Any]:
    """Time a check until its limit is decided, and once more without one, so that a replay has runs to spare."""
    job = TimingJob.load(file)
    reference, candidate = (
        _Watched(**{name: getattr(each, name) for name in TimingSubject.__dataclass_fields__})
        for each in (job.reference, job.candidate)
    )
    plan = replace(PLAN, seed=seed, max_s=1.5)
    with EngineTrio(reference, candidate, plan.pages) as sessions:
        sessions.measure(replace(plan, least_speedup=LEAST_SPEEDUP))
        sessions.measure(replace(plan, precision=0.0))
    sets = []
    pairs = zip(reference.opened[::2], reference.opened[1::2], candidate.opened, strict=True)
    for sides in pairs:
        # The first run of each moves it to other pages.
        runs = [runs_ns[1:] for *_, runs_ns in sides]
        sets.append({"opening_ns": sum(opening_ns for _, opening_ns, _ in sides), "runs": runs})
    return {"weights_bytes": max(size for size, *_ in reference.opened + candidate.opened), "sets": sets}


def record_launches() -> None:
    """Make all launches, those of an arm far apart from each other."""
    listed, runs_ns = [], list[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(max(ARMS.values())):
            for (model, load, pct), wanted in ARMS.items():
                if number >= wanted:
                    continue
                file = check_file(folder, model, pct)
                with bursts.load(load, number):
                    command = [sys.executable, "-m", f"{__package__}", "--launch", str(file), str(number)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                for of_set in found["sets"]:
                    for side in of_set["runs"]:
                        runs_ns.extend(side)
                    of_set["runs"] = [len(side) for side in of_set["runs"]]
                listed.append({"model": model, "load": load, "more_pct": pct, **found})
            sys.stdout.write(f"{len(listed)} of {sum(ARMS.values())} launches\n")
            sys.stdout.flush()
    np.savez_compressed(RECORDED / "runs.npz", runs_ns=np.array(runs_ns, np.uint32))
    lines = ",\n".join(json.dumps(each) for each in listed)
    (RECORDED / "launches.json").write_text(f"[\n{lines}\n]\n", "utf-8")


def write_verdicts() -> None:
    """Judge what is recorded."""
    lines = (json.dumps(row) + "\n" for each in (rows(), histories.rows()) for row in each)
    (RECORDED / "verdicts.jsonl").write_text("".join(lines), "utf-8")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--launches", action="store_true")
parser.add_argument("--verdicts", action="store_true")
parser.add_argument("--launch", nargs=2, help=argparse.SUPPRESS)
given = parser.parse_args()
if given.launch:
    sys.stdout.write(json.dumps(record_launch(Path(given.launch[0]), int(given.launch[1]))) + "\n")
if given.launches:
    record_launches()
if given.verdicts:
    write_verdicts()
