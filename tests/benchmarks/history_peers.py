"""As many results as the history has records, in the files of pytest-benchmark and of asv.

Both keep a file for each run: pytest-benchmark 10 000 of 20 results; asv, which keeps one a commit, 2 000 of 100.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.history_records import CHECKS, COMMITS, LAUNCHES

_COLUMNS = (
    *("result", "params", "version", "started_at", "duration"),
    *("stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat"),
)


def write_pytest_benchmark(storage: Path) -> tuple[str, str]:
    """Write the files below `storage`; returns the names of the two last runs, as ``compare`` takes them."""
    folder = storage / "Linux-CPython-3.11-64bit"
    folder.mkdir(parents=True)
    document = json.dumps(
        {
            "machine_info": {"node": "", "machine": "x86_64", "python_version": "3.11"},
            "commit_info": {"id": "0" * 40, "dirty": False, "branch": "main"},
            "benchmarks": [_pytest_benchmark(number) for number in range(CHECKS)],
            "datetime": "2026-01-01T00:00:00+00:00",
            "version": "5.2.0",
        }
    )
    runs = COMMITS * LAUNCHES
    for number in range(runs):
        (folder / f"{number:05}_run.json").write_text(document, encoding="utf-8")
    return f"{runs - 2:05}", f"{runs - 1:05}"


def _pytest_benchmark(number: int) -> dict[str, object]:
    times = dict.fromkeys(("min", "max", "mean", "median", "q1", "q3", "iqr", "stddev", "total"), 1e-4)
    counts = {"rounds": 100, "iterations": 1, "ops": 1e4, "outliers": "1;1", "iqr_outliers": 1, "stddev_outliers": 1}
    return {
        "group": None,
        "name": f"test_model_{number:02}",
        "fullname": f"test_models.py::test_model_{number:02}",
        "params": None,
        "param": None,
        "extra_info": {},
        "options": {"disable_gc": False, "timer": "perf_counter", "min_rounds": 5, "warmup": False},
        "stats": times | counts | {"ld15iqr": 1e-4, "hd15iqr": 1e-4},
    }


def write_asv(folder: Path, repository: Path, commits: list[str]) -> Path:
    """Write the files of asv below `folder`; returns its configuration."""
    results = folder / "results" / "machine"
    results.mkdir(parents=True)
    names = [f"suite.time_model_{number:03}" for number in range(CHECKS * LAUNCHES)]
    known = {name: _asv_benchmark(name) for name in names}
    (results.parent / "benchmarks.json").write_text(json.dumps(known | {"version": 2}), encoding="utf-8")
    (results / "machine.json").write_text(json.dumps({"machine": "machine", "version": 1}), encoding="utf-8")
    row = [[1e-4], [], "1", 1704067200000, 0.1, [0.99e-4], [1.01e-4], [0.99e-4], [1.01e-4], [10], [10]]
    document = {
        "env_name": "python",
        "params": {"machine": "machine", "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": _COLUMNS,
        "results": dict.fromkeys(names, row),
        "durations": {},
        "version": 2,
    }
    for number, commit in enumerate(commits):
        own = {"commit_hash": commit, "date": 1704067200000 + 3_600_000 * number}
        (results / f"{commit[:8]}-python.json").write_text(json.dumps(own | document), encoding="utf-8")
    configuration = folder / "asv.conf.json"
    settings = {"project": "models", "repo": str(repository), "branches": ["main"], "environment_type": "existing"}
    configuration.write_text(json.dumps(settings | {"version": 1, "results_dir": str(results.parent)}), "utf-8")
    return configuration


def _asv_benchmark(name: str) -> dict[str, object]:
    return {"name": name, "unit": "seconds", "type": "time", "version": "1", "params": [], "param_names": []}
