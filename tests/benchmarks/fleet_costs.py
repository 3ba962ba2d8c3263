"""What a suite of many models costs on many runners, from the seconds that checks took: the table of the guide `fleet`.

``python -m tests.benchmarks.fleet_costs COLD.json WARM.json`` reads two runs of one suite, as ``--quant-json`` writes
them, the first with an empty cache and the second with a full one. Models are drawn from its checks. A model that the
commit changed costs what its check cost in the first run, any other what it cost in the second one.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each model, (models,): with an empty cache, with one that has what did not change, and expected."""

    cold: Seconds
    warm: Seconds
    expected: Seconds


def costs_of(file: Path, parts: Sequence[str]) -> dict[str, float]:
    """Return the seconds of some parts of each check that was measured, by its test."""
    checks = json.loads(file.read_text("utf-8"))["checks"]
    return {check["series"]: sum(check["cost"][part] for part in parts) for check in checks if check["cost"]}


def draw(cold: Path, warm: Path, parts: Sequence[str], *, models: int, changed: float, seed: int = 0) -> Costs:
    """Draw `models` checks, of which a share is changed; the same ones for every choice of `parts`."""
    first, second = costs_of(cold, parts), costs_of(warm, parts)
    names = sorted(first.keys() & second.keys())
    rng = np.random.default_rng(seed)
    drawn, is_changed = rng.integers(len(names), size=models), rng.random(models) < changed
    built, kept = (np.array([of[name] for name in names])[drawn] for of in (first, second))
    return Costs(built, np.where(is_changed, built, kept), kept)


def longest(seconds: Seconds, runners: int) -> float:
    """Return when the last runner ends, where each gets as many models as the others."""
    return max(float(part.sum()) for part in np.array_split(seconds, runners))


def longest_by_cost(seconds: Seconds, expected: Seconds, runners: int) -> float:
    """Return when the last runner ends, where the model expected to cost most goes to who has least, and so on."""
    heap = [(0.0, 0.0) for _ in range(runners)]
    for index in np.argsort(-expected):
        planned, real = heapq.heappop(heap)
        heapq.heappush(heap, (planned + float(expected[index]), real + float(seconds[index])))
    return max(real for _, real in heap)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cold", type=Path)
    parser.add_argument("warm", type=Path)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runners", type=int, default=50)
    parser.add_argument("--changed", type=float, default=0.05, help="share of models that a commit changes")
    options = parser.parse_args()
    sizes = {"models": options.models, "changed": options.changed}
    whole = draw(options.cold, options.warm, ("build_s", "evaluation_s", "timing_s"), **sizes)
    timing = draw(options.cold, options.warm, ("timing_s",), **sizes)
    rows = [
        ("none of it", whole.cold, longest(whole.cold, options.runners)),
        ("a shared cache", whole.warm, longest(whole.warm, options.runners)),
        ("and shards by cost", whole.warm, longest_by_cost(whole.warm, whole.expected, options.runners)),
        (
            "and two passes: what is left for them",
            timing.warm,
            longest_by_cost(timing.warm, timing.expected, options.runners),
        ),
    ]
    lines = [
        f"{options.models} models on {options.runners} runners, {options.changed:.0%} changed",
        "| with | runner-hours | minutes until the last runner ends |",
        "| --- | --- | --- |",
        *(f"| {name} | {seconds.sum() / 3600:.1f} | {last_s / 60:.1f} |" for name, seconds, last_s in rows),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
