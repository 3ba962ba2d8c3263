"""Rules of other tools: pytest-benchmark run for real, base and then head, and asv's and benchstat's on its times.

They are given what their documentation asks for: two processes, one after the other, of the same models in the same
minutes as ours.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from asv.commands.compare import _is_result_better
from asv_runner.statistics import compute_stats
from scipy.stats import mannwhitneyu

from tests.benchmarks.detection import bursts
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.models import WRITERS, model_file
from tests.benchmarks.detection.rates import rate

PAIRS = {("quiet", 0.0): 35, ("bursty", 0.0): 35, ("quiet", 5.0): 20, ("bursty", 5.0): 20}
"""Of processes, each with all models, by load and percent more work."""

MAX_S = 0.5
"""For each model and side, about what ours takes for all three engines."""

RULES = ("pytest-benchmark mean:5%", "pytest-benchmark median:5%", "asv -f 1.1", "asv -f 1.05", "benchstat")
SAMPLE_S = 0.01
"""One sample of asv is the mean of the runs of 10 ms, as its `sample_time` is by default."""

COUNT = 10
"""Of benchstat's samples, each a mean, as its documentation asks for."""

BENCHSTAT_ALPHA = 0.05
_HANGS_S = 300.0

SUITE = """
import os
import onnxruntime
import pytest
from tests.benchmarks.detection.models import WRITERS, feeds_of

@pytest.mark.parametrize("name", WRITERS)
def test_model(benchmark, name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{os.environ['MODELS']}/{name}-{os.environ['MORE']}.onnx", options)
    benchmark(session.run, None, feeds_of(name))
"""


def asv_worse(base_s: Sequence[float], head_s: Sequence[float], factor: float) -> bool:
    """Return whether `asv compare` marks the head as worse.

    Parameters
    ----------
    base_s, head_s : seconds of single runs, in the order of time.
    factor : of its option; its default is 1.1.
    """
    sides = [_in_samples(side, SAMPLE_S) for side in (base_s, head_s)]
    (base, of_base), (head, of_head) = (compute_stats(samples, number) for samples, number in sides)
    return bool(_is_result_better(base, head, (of_base, sides[0][0]), (of_head, sides[1][0]), factor))


def _in_samples(times_s: Sequence[float], sample_s: float) -> tuple[list[float], int]:
    number = max(1, round(sample_s / statistics.median(times_s)))
    starts = range(0, len(times_s) - number + 1, number)
    return [statistics.fmean(times_s[start : start + number]) for start in starts], number


def benchstat_worse(base_s: Sequence[float], head_s: Sequence[float]) -> bool:
    """Return whether benchstat shows a change for the worse: a Mann-Whitney U test at 5 % of ten samples a side.

    Exact without ties, as in golang.org/x/perf/benchmath, and no threshold on the size.
    """
    base, head = (_means(side) for side in (base_s, head_s))
    p_value = float(mannwhitneyu(base, head, alternative="two-sided").pvalue)
    return p_value < BENCHSTAT_ALPHA and statistics.median(head) > statistics.median(base)


def _means(times_s: Sequence[float]) -> list[float]:
    size = max(1, len(times_s) // COUNT)
    return [statistics.fmean(times_s[start : start + size]) for start in range(0, size * COUNT, size)][:COUNT]


_REGRESSED = re.compile(r"test_model\[(\w+)\] \([^)]*\) - Field '(mean|median)' has failed")


def regressed(output: str) -> set[tuple[str, str]]:
    """Return models and fields that pytest-benchmark says have regressed."""
    return {(model, field) for model, field in _REGRESSED.findall(output)}


def pair(folder: Path, load: str, more_pct: float, seed: int) -> Found:
    """Benchmark the models, and then those with more work, and return what each rule says of each model."""
    for name in WRITERS:
        for pct in (0.0, more_pct):
            model_file(folder, name, pct)
    with tempfile.TemporaryDirectory() as place:
        suite = Path(place, "test_models.py")
        suite.write_text(SUITE, "utf-8")
        with bursts.load(load, seed):
            base, _ = _benchmarked(suite, folder, 0.0, "--benchmark-save=base")
            compare = ("--benchmark-compare-fail", "mean:5%", "median:5%", "--benchmark-compare=0001")
            head, output = _benchmarked(suite, folder, more_pct, *compare)
    regressions = regressed(output)
    return {
        name: {
            "pytest-benchmark mean:5%": (name, "mean") in regressions,
            "pytest-benchmark median:5%": (name, "median") in regressions,
            "asv -f 1.1": asv_worse(base[name], head[name], 1.1),
            "asv -f 1.05": asv_worse(base[name], head[name], 1.05),
            "benchstat": benchstat_worse(base[name], head[name]),
        }
        for name in WRITERS
    }


def _benchmarked(suite: Path, folder: Path, more_pct: float, *options: str) -> tuple[dict[str, list[float]], str]:
    """Return the seconds of every run of each model, and what was printed."""
    written = suite.with_name("found.json")
    storage = f"--benchmark-storage=file://{suite.parent}/storage"
    timing = (f"--benchmark-max-time={MAX_S}", "--benchmark-warmup=on", "--benchmark-warmup-iterations=20")
    plugins = ("-p", "no:quant", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, f"--rootdir={suite.parent}", storage, *timing]
    done = subprocess.run(
        [*command, f"--benchmark-json={written}", *options, str(suite)],
        env=os.environ | {"MODELS": str(folder), "MORE": f"{more_pct:g}"},
        cwd=suite.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=_HANGS_S,
    )
    if not written.exists():
        raise RuntimeError(f"pytest-benchmark did not run:\n{done.stdout}{done.stderr}")
    result = json.loads(written.read_text("utf-8"))["benchmarks"]
    written.unlink()
    return {each["param"]: each["stats"]["data"] for each in result}, done.stdout + done.stderr


def arms(folder: Path) -> list[Arm]:
    """One for each load and size of a slow-down."""
    return [Arm(_key(load, pct), wanted, partial(pair, folder, load, pct)) for (load, pct), wanted in PAIRS.items()]


def _key(load: str, more_pct: float) -> str:
    return f"peers {load} +{more_pct:g}"


def worse_rates(ledger: Ledger, load: str, more_pct: float) -> str:
    """Return how often each rule said that something became worse."""
    return "; ".join(_worse_rates(ledger, load, more_pct))


def _worse_rates(ledger: Ledger, load: str, more_pct: float) -> Iterator[str]:
    answers = [trial[name] for trial in ledger.trials(_key(load, more_pct)) for name in WRITERS]
    for rule in RULES:
        result = rate(bool(answer[rule]) for answer in answers if isinstance(answer, dict))
        if result.n:
            yield f"{rule} {result}"
