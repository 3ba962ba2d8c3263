"""A history of 10 000 runs of 20 checks each, written through the public API.

All records are made from one that a real check left: other tests, and latencies that vary by known factors. The
history has 2 000 commits of a branch ``main`` with five launches each; the last one belongs to the branch ``feature``,
where one test is slower and another loses samples. Two processes write at once: encoding takes most of the time.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from pytest_quant.history import open_store
from pytest_quant.record import Record, Run, run_from_json, run_to_json
from pytest_quant.result import AccuracyResult, LatencyFigures
from tests.support.example import ROOT, copy_example, environment, run_example

COMMITS, LAUNCHES, CHECKS = 2_000, 5, 20
RECORDS = COMMITS * LAUNCHES * CHECKS
SLOWER = 1.2
LOST = 60
SLOW_TEST, LOSING_TEST = 3, 7
WRITERS = 2

_VARIANTS = 16
_NOISE = 0.01
_START = datetime(2024, 1, 1, tzinfo=UTC)


def one_record(folder: Path) -> tuple[Run, Record]:
    """Run one check of the example, and return what it left."""
    project = copy_example(folder)
    name = "test_digits.py::test_int8_is_less_than_half_the_size"
    found = run_example(project, name, "-q", "--quant-max-time=1", "--quant-no-history")
    run, (record,) = run_from_json(found.document)
    return run, record


def name_of(number: int) -> str:
    """Return the name of a test of the history."""
    return f"test_model_{number:02}"


class Checks:
    """The records of every launch, made from the `run` and the `record` that a real check left."""

    def __init__(self, run: Run, record: Record) -> None:
        noise = np.exp(np.random.default_rng(0).normal(0.0, _NOISE, (CHECKS, _VARIANTS)))
        self._run = run
        self._variants = [
            [_variant(record, number, float(factor)) for factor in noise[number]] for number in range(CHECKS)
        ]

    def records(self, commit: int, launch: int) -> list[Record]:
        """Return the records of one launch of one commit; the last commit has the two planted changes."""
        found = [
            variants[(commit * LAUNCHES + launch * 7 + number * 3) % _VARIANTS]
            for number, variants in enumerate(self._variants)
        ]
        if commit == COMMITS - 1:
            slow, losing = found[SLOW_TEST], found[LOSING_TEST]
            assert slow.latency is not None
            assert losing.accuracy is not None
            found[SLOW_TEST] = replace(slow, latency=_scaled(slow.latency, SLOWER))
            found[LOSING_TEST] = replace(losing, accuracy=_losing(losing.accuracy))
        return found

    def run(self, commits: list[str], commit: int, launch: int) -> Run:
        """Return the run of that launch; there is one every hour."""
        started = _START + timedelta(hours=commit * LAUNCHES + launch)
        return replace(
            self._run,
            id=f"{started:%Y%m%dT%H%M%SZ}-{commit:08x}{launch:04x}",
            started_at=started.isoformat(),
            commit=commits[commit],
            branch="feature" if commit == COMMITS - 1 else "main",
            dirty=False,
        )


def make_commits(root: Path) -> list[str]:
    """Make a git repository with the commits, ``feature`` checked out; returns their ids, the oldest first."""
    root.mkdir(parents=True)
    _git(root, "init", "-q", "-b", "main")
    stream = []
    for number in range(COMMITS):
        branch = "feature" if number == COMMITS - 1 else "main"
        stream.append(f"commit refs/heads/{branch}\nmark :{number + 1}\n")
        stream.append(f"committer A User <user@example.invalid> {1704067200 + 3600 * number} +0000\ndata 0\n")
        stream.append(f"from :{number}\n\n" if number else "\n")
    _git(root, "fast-import", "--quiet", text="".join(stream))
    _git(root, "symbolic-ref", "HEAD", "refs/heads/feature")
    return _git(root, "rev-list", "--reverse", "feature").split()


def fill(place: Path, source: Path, commits: list[str]) -> None:
    """Write the whole history to `place`, a new file; `source` holds the document of the real run."""
    open_store(place)
    listed = place.with_suffix(".commits")
    listed.write_text("\n".join(commits), encoding="utf-8")
    command = (sys.executable, "-m", "tests.benchmarks.history_records", str(place), str(source), str(listed))
    writers = [subprocess.Popen([*command, str(first)], cwd=ROOT, env=environment()) for first in range(WRITERS)]
    assert [writer.wait() for writer in writers] == [0] * WRITERS


def save(path: Path, run: Run, record: Record) -> None:
    """Keep the real run for the writers."""
    path.write_text(json.dumps(run_to_json(run, [record])), encoding="utf-8")


def _variant(real: Record, number: int, factor: float) -> Record:
    assert real.latency is not None
    nodeid = f"test_models.py::{name_of(number)}"
    series = json.dumps([nodeid, *json.loads(real.series)[1:]])
    return replace(real, nodeid=nodeid, series=series, latency=_scaled(real.latency, factor))


def _scaled(latency: LatencyFigures, factor: float) -> LatencyFigures:
    """Return the figures of a candidate that takes `factor` times as long."""
    assert latency.candidate_p50_ms is not None
    assert latency.speedup is not None
    assert latency.speedup_ci is not None
    rounds = {
        name: tuple(float(f"{ms * (factor if name == 'candidate' else 1.0):.4g}") for ms in medians)
        for name, medians in latency.round_p50_ms.items()
    }
    interval = latency.speedup_ci._replace(low=latency.speedup_ci.low / factor, high=latency.speedup_ci.high / factor)
    return replace(
        latency,
        candidate_p50_ms=latency.candidate_p50_ms * factor,
        speedup=latency.speedup / factor,
        speedup_ci=interval,
        round_p50_ms=rounds,
    )


def _losing(accuracy: AccuracyResult) -> AccuracyResult:
    """Return the figures of a candidate that gets `LOST` more samples wrong, the first ones that it got right."""
    assert accuracy.candidate_correct is not None
    packed = np.frombuffer(zlib.decompress(base64.b64decode(accuracy.candidate_correct)), dtype=np.uint8)
    correct = np.unpackbits(packed, count=accuracy.n)
    correct[np.flatnonzero(correct)[:LOST]] = 0
    text = base64.b64encode(zlib.compress(np.packbits(correct).tobytes())).decode()
    score = 100.0 * float(correct.mean())
    drop = None if accuracy.reference is None else accuracy.reference - score
    return replace(accuracy, candidate=score, drop=drop, candidate_correct=text)


def _git(root: Path, *arguments: str, text: str | None = None) -> str:
    result = subprocess.run(
        ["git", *arguments],  # noqa: S607 - the user's git
        cwd=root,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LC_ALL": "C"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def _write_share(place: str, source: str, listed: str, first: str) -> None:
    run, (record,) = run_from_json(json.loads(Path(source).read_text("utf-8")))
    commits, checks = Path(listed).read_text("utf-8").split(), Checks(run, record)
    open_store(place).append_many(
        (checks.run(commits, commit, launch), checks.records(commit, launch))
        for commit in range(int(first), COMMITS, WRITERS)
        for launch in range(LAUNCHES)
    )


if __name__ == "__main__":
    _write_share(*sys.argv[1:])
