"""Three CI jobs that run a third of the tests each, merged, are one job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.history_project import DROPS
from tests.support.history_repository import Repository, make_repository, run_command

SHARDS = ("test_names.py", "test_quality.py", "test_speed.py")
BASE, HEAD = 3, DROPS
"""Between these commits of ``main`` scores rise and fall, a test is renamed and one is removed."""

RUNS = ("launches", "base_launches", "head_launches")
"""Fields that count runs of pytest, of which there are three where there was one."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The scripted repository; nothing has run."""
    return make_repository(tmp_path_factory.mktemp("shards") / "project")


def run_commit(repository: Repository, number: int, history: Path, *files: str) -> None:
    """Run those tests of a commit into `history`."""
    repository.checkout("main", repository.main[number - 1])
    said = repository.pytest(str(history), "--quant-no-latency", *files)
    repository.rest()
    assert said.returncode == 0, said.stdout + said.stderr


def export(repository: Repository, history: Path) -> Path:
    """Export what a job has to the file that it uploads."""
    artifact = history.with_suffix(".jsonl")
    said = repository.command(str(history), "history", "export", str(artifact))
    assert said.returncode == 0, said.stderr
    return artifact


def without_runs(value: Any) -> Any:
    """Leave out the numbers of runs."""
    if isinstance(value, dict):
        return {name: without_runs(item) for name, item in value.items() if name not in RUNS}
    return [without_runs(item) for item in value] if isinstance(value, list) else value


def test_merged_shards_are_compared_as_one_job(repository: Repository, tmp_path: Path) -> None:
    """The comparison is the same field by field, from another folder and after importing every file twice."""
    whole, artifacts = tmp_path / "whole.db", []
    for number in (BASE, HEAD):
        run_commit(repository, number, whole)
        for file in SHARDS:
            job = tmp_path / f"job-{number}-{Path(file).stem}.db"
            run_commit(repository, number, job, file)
            artifacts.append(export(repository, job))
    merged = tmp_path / "merged.db"
    for _ in range(2):
        said = run_command(tmp_path, "history", "import", *map(str, artifacts), f"--history={merged}")
        assert said.returncode == 0, said.stderr
    ends = repository.main[BASE - 1], repository.main[HEAD - 1]
    one, three = (
        repository.command(str(history), "compare", *ends, "--json", "--full-suite") for history in (whole, merged)
    )
    assert without_runs(json.loads(three.stdout)) == without_runs(json.loads(one.stdout))
    assert three.returncode == one.returncode == 1
    document = json.loads(three.stdout)
    assert [row["nodeid"] for row in document["removed"]] == ["test_names.py::test_dropped"]
    assert {row["quantity"] for row in document["rows"] if row["outcome"] == "regression"} == {"accuracy", "coverage"}
    assert document["base"]["launches"] == document["head"]["launches"] == len(SHARDS)
