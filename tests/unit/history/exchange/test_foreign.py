"""Files of pytest-benchmark and asv become runs with a latency and nothing else."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import pytest_quant
from pytest_quant.errors import HistoryError
from pytest_quant.history.exchange.foreign import foreign_run
from pytest_quant.history.exchange.stream import read_runs
from pytest_quant.record import run_from_json, run_to_json
from pytest_quant.result import Status
from tests.support.example import environment

_ASV: dict[str, Any] = {
    "commit_hash": "5f1d" * 10,
    "env_name": "virtualenv-py3.11-numpy",
    "date": 1767323045000,
    "params": {"arch": "x86_64", "cpu": "Some CPU", "machine": "runner", "num_cpu": "2", "os": "Linux", "ram": "8"},
    "python": "3.11",
    "requirements": {"numpy": "2.1", "scipy": ""},
    "env_vars": {},
    "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "samples"],
    "results": {
        "bench.Suite.time_sort": [[0.25], [], "v1", 1767400000000, 9.5, [0.24], [[0.24, 0.25, 0.26]]],
        "bench.time_size": [[0.5, None, float("nan"), 2.0], [["'a'", "'b'"], ["1", "2"]], "v2"],
        "bench.time_broken": [None, [], "v3"],
        "bench.peakmem_sort": [[123456], [], "v4"],
        "bench.track_time_left": [[7.0], [], "v5"],
    },
    "durations": {},
    "version": 2,
}


@pytest.fixture(scope="module")
def benchmarked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a real run of pytest-benchmark."""
    folder = tmp_path_factory.mktemp("benchmarked")
    (folder / "test_sum.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [10, 20])\n"
        "def test_sum(benchmark, n):\n"
        "    benchmark.pedantic(sum, (range(n),), rounds=50)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:quant", "--benchmark-json", "out.json"]
    # Beside other workers of xdist pytest-benchmark would turn itself off.
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    return folder / "out.json"


def test_a_file_of_pytest_benchmark_is_a_run(benchmarked: Path) -> None:
    """Each benchmark is a record: median and 40 of the 50 rounds in milliseconds."""
    document = json.loads(benchmarked.read_text())
    ((run, records),) = read_runs(benchmarked)
    assert [record.nodeid for record in records] == ["test_sum.py::test_sum[10]", "test_sum.py::test_sum[20]"]
    for record, written in zip(records, document["benchmarks"], strict=True):
        latency = record.latency
        assert latency is not None
        median_s = statistics.median(written["stats"]["data"])
        assert latency.candidate_p50_ms == pytest.approx(median_s * 1e3)
        assert (latency.rounds, latency.reference_p50_ms, latency.speedup) == (50, None, None)
        rounds_ms = latency.round_p50_ms["candidate"]
        assert len(rounds_ms) == 40
        assert rounds_ms[0] == pytest.approx(written["stats"]["data"][0] * 1e3, rel=1e-3)
        assert rounds_ms[-1] == pytest.approx(written["stats"]["data"][-1] * 1e3, rel=1e-3)
        assert (record.backend, record.status, record.accuracy) == ("pytest-benchmark", Status.PASS, None)
    assert len({record.series for record in records}) == 2
    assert run.started_at[:16] == document["datetime"][:16]
    assert run.environment.identity["arch"] == document["machine_info"]["machine"]


def test_an_imported_run_is_like_our_own(benchmarked: Path) -> None:
    """It survives its JSON, which the published schema describes."""
    run, records = next(read_runs(benchmarked))
    document = json.loads(json.dumps(run_to_json(run, records), allow_nan=False))
    assert run_from_json(document) == (run, records)
    schema = json.loads((Path(pytest_quant.__file__).parent / "record_schema.json").read_text())
    jsonschema.validate(document, schema)


def test_the_same_file_is_the_same_run(benchmarked: Path) -> None:
    """So a second import changes nothing; another content is another run."""
    first, second = (next(read_runs(benchmarked))[0].id for _ in range(2))
    assert first == second
    document = json.loads(benchmarked.read_text())
    document["benchmarks"].pop()
    other = foreign_run(document)
    assert other is not None
    assert other[0].id != first


@pytest.mark.parametrize(("told", "commit", "branch"), [("unversioned", None, None), ("abc", "abc", "main")])
def test_a_commit_that_is_not_known_is_none(
    benchmarked: Path, told: str, commit: str | None, branch: str | None
) -> None:
    """The tool writes words in its place."""
    document = json.loads(benchmarked.read_text())
    document["commit_info"] = {"id": told, "dirty": True, "branch": branch or "(unknown)"}
    found = foreign_run(document)
    assert found is not None
    assert (found[0].commit, found[0].branch, found[0].dirty) == (commit, branch, True)


def test_a_result_file_of_asv_is_a_run(tmp_path: Path) -> None:
    """Seconds become milliseconds, each combination of parameters a record; what was not timed is left out."""
    file = tmp_path / "5f1d-env.json"
    file.write_text(json.dumps(_ASV, indent=4))
    ((run, records),) = read_runs(file)
    times_ms = {record.nodeid: record.latency.candidate_p50_ms for record in records if record.latency}
    assert times_ms == {
        "bench.Suite.time_sort": 250.0,
        "bench.time_size['a'-1]": 500.0,
        "bench.time_size['b'-2]": 2000.0,
    }
    assert records[0].latency is not None
    assert records[0].latency.round_p50_ms == {"candidate": (240.0, 250.0, 260.0)}
    assert (run.commit, run.started_at) == ("5f1d" * 10, "2026-01-02T03:04:05+00:00")
    assert run.environment.identity == {"cpu": "Some CPU", "cores": "2", "os": "Linux", "arch": "x86_64"}
    assert run.environment.context["numpy"] == "2.1"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 1}, "version 1"),
        ({"date": "yesterday"}, "asv.date"),
        ({"date": 1e300}, "time"),
        ({"results": []}, "asv.results"),
        ({"results": {"time_x": 4}}, "time_x"),
        ({"commit_hash": None}, "commit_hash"),
    ],
)
def test_a_spoiled_file_of_asv_is_refused(change: dict[str, object], told: str) -> None:
    """The message names the field."""
    with pytest.raises(HistoryError) as caught:
        foreign_run(_ASV | change)
    assert told in str(caught.value)


def test_a_spoiled_file_of_pytest_benchmark_is_refused(benchmarked: Path) -> None:
    """A time that is none, and a benchmark without figures."""
    document = json.loads(benchmarked.read_text())
    for change in ({"datetime": "today"}, {"benchmarks": [{"fullname": "x"}]}, {"machine_info": 4}):
        with pytest.raises(HistoryError):
            foreign_run(document | change)


def test_any_other_document_is_not_foreign() -> None:
    """Ours among them."""
    documents: tuple[object, ...] = (None, [], {}, {"schema": 1, "run": {}, "checks": []})
    assert [foreign_run(document) for document in documents] == [None] * 4
