"""Large files of scores: how long a check reads and judges them, in a process of its own, and in how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.table import Row

SAMPLES = 14_000
FILE_BYTES = 60_000_000
MOST_S, MOST_MB = 5.0, 500.0
TRIALS = 3

_KEY = "score files"
_READ = """
import json, resource, sys, time
from pathlib import Path
from tests.unit.measure.test_scored import measured, statuses
from pytest_quant.spec import Scores

started = time.perf_counter()
result = measured(Scores.from_lm_eval(sys.argv[1], sys.argv[2]), max_drop=1.0)
status = statuses(result)[0]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
print(json.dumps({"seconds": time.perf_counter() - started, "mb": peak, "n": result.accuracy.n, "status": status}))
"""


def write_side(folder: Path, wrong: int) -> Path:
    """Write the samples of one side as lm-eval does, with prompts as long as fill the file."""
    file = folder / "model" / "samples_mmlu_pro_2026-11-26T21-24-27.376241.jsonl"
    file.parent.mkdir(parents=True)
    prompt = "The question, and examples before it. " * (FILE_BYTES // SAMPLES // 38)
    with file.open("w", encoding="utf-8") as lines:
        for doc_id in range(SAMPLES):
            row = {"doc_id": doc_id, "arguments": {"gen_args_0": {"arg_0": prompt}}, "filter": "none"}
            hashes = {"doc_hash": f"{doc_id:064x}", "prompt_hash": f"{doc_id:064x}", "target_hash": "a" * 64}
            score = {"metrics": ["exact_match"], "exact_match": float(doc_id % 100 >= wrong)}
            lines.write(json.dumps(row | hashes | score) + "\n")
    return folder


def trial(folder: Path, _: int) -> Found:
    """Read and judge both files in a new process, whose imports are not counted as its time."""
    sides = [folder / "reference", folder / "candidate"]
    if not sides[1].exists():
        for side, wrong in zip(sides, (20, 25), strict=True):
            write_side(side, wrong)
    done = subprocess.run([sys.executable, "-c", _READ, *sides], check=True, capture_output=True, text=True)
    found: Found = json.loads(done.stdout)
    return found


def arms(folder: Path) -> list[Arm]:
    """The only one."""
    return [Arm(_KEY, TRIALS, partial(trial, folder / _KEY))]


def rows(ledger: Ledger) -> list[Row]:
    """Median time and memory."""
    trials: Sequence[Found] = ledger.trials(_KEY)
    figure = f"scores, {SAMPLES} samples, two files of {FILE_BYTES / 1e6:g} MB read and judged"
    must = f"<= {MOST_S:g} s, <= {MOST_MB:g} MB"
    if not trials:
        return [Row(figure, must, "not run", None)]
    seconds, mb = (median(float(str(each[name])) for each in trials) for name in ("seconds", "mb"))
    status = ", ".join(sorted({str(each["status"]) for each in trials}))
    reached = seconds <= MOST_S and mb <= MOST_MB
    return [Row(figure, must, f"{seconds:.2f} s, {mb:.0f} MB at the peak ({status}), n={len(trials)}", reached)]
