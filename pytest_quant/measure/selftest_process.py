"""A fresh process of a self-test: it times each kind of model, one after the other, and writes the rounds to a file."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from pytest_quant.measure.launch import Launchable
from pytest_quant.measure.sessions import open_sessions
from pytest_quant.result import LatencyResult

SIDES = ("reference", "null", "candidate")


def rounds_of(latency: LatencyResult) -> dict[str, list[float]]:
    """Return the median run of each round in nanoseconds, by engine."""
    return {name: list(getattr(latency, name).medians_ns) for name in SIDES}


def main(found: Path, files: list[Path]) -> None:
    """Time the engines that each of `files` describes, in sessions of their own; rounds and notes go to `found`."""
    # Ctrl-C reaches the whole group of a terminal; whoever asked ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rounds: list[dict[str, list[float]]] = []
    notes: list[str] = []
    for file in files:
        launchable = Launchable.load(file)
        with open_sessions(launchable.reference, launchable.candidate, launchable.plan.pages) as sessions:
            latency = sessions.measure(launchable.plan)
        rounds.append(rounds_of(latency))
        notes += latency.notes
    found.write_text(json.dumps({"rounds": rounds, "notes": notes}), encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
