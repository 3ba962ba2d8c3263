"""A suite that pytest-split splits: durations out of the history, and shards that are lost. The session is a fake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fake_session import run_fake, run_fake_apart
from tests.support.history_repository import Answer, run_command
from tests.support.repository import ScratchRepository, make_repository, without_ci

TESTS = 16
SUITE = "".join(f"@mark.quant(output='PASS')\ndef test_{number:02}(): pass\n\n" for number in range(TESTS))
PLAIN = "def test_plain(): pass\n\n"
BY_COST = ("--splitting-algorithm=least_duration", "--durations-path=durations.json")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A repository whose branch ``topic`` is one commit ahead of ``main``, with the suite in both."""
    without_ci(monkeypatch)
    (pytester.path / ".gitignore").write_text("*\n!test_it.py\n!conftest.py\n!file\n")
    repository = make_repository(pytester.path)
    run_fake(pytester, SUITE, "--collect-only")
    repository.git("add", "test_it.py", "conftest.py")
    repository.commit("main")
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("topic")
    return repository


def _shard(pytester: pytest.Pytester, group: int, splits: int, *args: str, source: str = SUITE) -> Path:
    """Run one shard as a job of its own would, with a history of its own, and return what it hands on."""
    file = pytester.path / f"shard-{group}.json"
    history = f"--quant-history=history-{group}.db"
    options = (f"--splits={splits}", f"--group={group}", f"--quant-json={file}", history, *BY_COST, *args)
    run = run_fake_apart if "-n" in args else run_fake
    assert run(pytester, source, *options).ret in (0, 5)
    return file


def _run(file: Path) -> dict[str, Any]:
    """What a document says about its run."""
    run: dict[str, Any] = json.loads(file.read_text("utf-8"))["run"]
    return run


def _tests(file: Path) -> set[str]:
    """The tests that a shard ran."""
    return {check["nodeid"] for check in json.loads(file.read_text("utf-8"))["checks"]}


def _import(folder: Path, expected: int, *files: Path) -> Answer:
    return run_command(folder, "history", "import", f"--expect={expected}", *map(str, files))


def test_one_of_eight_shards_is_lost(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """The others are imported all the same; the import and the comment are red, and name the shard and its tests."""
    shards = [_shard(pytester, group, 8) for group in range(1, 9)]
    lost = _tests(shards[2])
    assert len(lost) == TESTS // 8
    shards[2].unlink()
    answer = _import(project.path, 8, *shards)
    assert (answer.returncode, answer.stdout) == (1, f"7 of 7 runs added to {project.path}/.quant/history.db\n")
    assert answer.stderr.splitlines() == [
        "shards that never reported: 3/8",
        *(f"never reported: {test}" for test in sorted(lost)),
    ]
    compared = run_command(project.path, "compare", "--markdown")
    assert compared.returncode == 1
    verdict = compared.stdout.splitlines()[1]
    assert verdict.startswith("**FAIL: ")
    assert "shard 3/8 and 2 tests never reported" in verdict
    assert all(f"- never reported: {test}" in compared.stdout for test in lost)
    assert "removed" not in compared.stdout


def test_eight_shards_that_all_report_are_green(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """Each test ran in one of them; a shard that reports twice changes nothing."""
    shards = [_shard(pytester, group, 8) for group in range(1, 9)]
    assert sum(len(_tests(shard)) for shard in shards) == TESTS
    assert not any(_run(shard)["partial"] for shard in shards)
    assert _import(project.path, 8, *shards, shards[0]).returncode == 0
    compared = run_command(project.path, "compare", "--markdown")
    assert (compared.returncode, "never reported" in compared.stdout) == (0, False)
    again = _shard(pytester, 1, 8)
    answer = _import(project.path, 8, *shards[:7], again)
    assert (answer.returncode, answer.stderr.splitlines()[0]) == (1, "shards that never reported: 8/8")


def test_a_shard_of_workers_tells_what_it_left(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """The workers collect, and the controller writes: three shards, one of them lost."""
    shards = [_shard(pytester, group, 3, "-n", "2") for group in (1, 3)]
    every = {f"test_it.py::test_{number:02}" for number in range(TESTS)}
    for shard in shards:
        left = _run(shard)["deselected"]
        assert len(left) == len(set(left))
        assert not _run(shard)["partial"]
        assert set(left) == every - _tests(shard)
    answer = _import(project.path, 3, *shards)
    lost = sorted(every - _tests(shards[0]) - _tests(shards[1]))
    assert lost
    assert answer.stderr.splitlines() == [
        "shards that never reported: 2/3",
        *(f"never reported: {test}" for test in lost),
    ]
    assert answer.returncode == 1


def test_what_no_shard_is_asked_for_is_missed_by_nobody(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """Tests that ``-k`` leaves out, those that are skipped, and those without a mark; a shard may have no test."""
    source = SUITE + PLAIN + "@mark.skip\n@mark.quant(output='PASS')\ndef test_skipped(): pass\n"
    shards = [_shard(pytester, group, 3, "-k", "00 or plain or skipped", source=source) for group in (1, 2, 3)]
    left = {test for shard in shards for test in _run(shard)["deselected"]}
    assert left == {"test_it.py::test_00", "test_it.py::test_skipped"}
    assert all(_run(shard)["partial"] for shard in shards)
    assert _import(project.path, 3, *shards).returncode == 0


def test_shards_that_were_split_in_different_ways_are_red(
    pytester: pytest.Pytester, project: ScratchRepository
) -> None:
    """All of them report, and still there are tests that each leaves to another one."""
    durations = pytester.path / "durations.json"
    first = _shard(pytester, 1, 2)
    durations.write_text(json.dumps({"test_it.py::test_15": 1000.0, **dict.fromkeys(_tests(first), 0.001)}))
    second = _shard(pytester, 2, 2)
    never = {f"test_it.py::test_{number:02}" for number in range(TESTS)} - _tests(first) - _tests(second)
    answer = _import(project.path, 2, first, second)
    assert never
    assert (answer.returncode, answer.stderr.splitlines()) == (1, [f"never reported: {test}" for test in sorted(never)])


def test_a_shard_that_was_interrupted_is_not_whole(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """What it had measured is imported, and the rest of its tests is named."""
    stops = SUITE.replace("def test_04(): pass", "def test_04(): raise KeyboardInterrupt")
    whole = _shard(pytester, 2, 2, source=stops)
    file = pytester.path / "shard-1.json"
    options = ("--splits=2", "--group=1", f"--quant-json={file}", "--quant-no-history")
    ended = run_fake_apart(pytester, stops, *options, *BY_COST)
    assert ended.ret == pytest.ExitCode.INTERRUPTED
    assert (_run(file)["shard"], _run(file)["deselected"]) == ("1/2", None)
    done = _tests(file)
    assert done
    answer = _import(project.path, 2, whole, file)
    left = sorted(set(_run(whole)["deselected"]) - done)
    assert answer.stderr.splitlines() == [
        "shards that never reported: 1/2",
        *(f"never reported: {test}" for test in left),
    ]


def test_a_shard_that_was_killed_is_not_whole(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """Its journal is all that it hands on: what it had measured counts, and the rest of its tests is named."""
    dies = SUITE.replace("def test_04(): pass", "def test_04(): import os; os._exit(9)")
    whole = _shard(pytester, 2, 2, source=dies)
    options = ("--splits=2", "--group=1", f"--quant-history={pytester.path / 'killed.db'}", *BY_COST)
    assert run_fake_apart(pytester, dies, *options).ret == 9
    (journal,) = pytester.path.glob("killed.db.*.unfinished")
    answer = _import(project.path, 2, whole, journal)
    left = sorted(set(_run(whole)["deselected"]) - {"test_it.py::test_00", "test_it.py::test_02"})
    assert answer.stderr.splitlines() == [
        "shards that never reported: 1/2",
        *(f"never reported: {test}" for test in left),
    ]
    added, may_go = answer.stdout.splitlines()
    assert added.startswith("2 of 2 runs added")
    assert may_go == f"all of {journal} is in the history now, so it may be removed"


def test_no_file_at_all_is_red(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """Neither a glob that nothing matches nor one that the shell has removed hides it."""
    for files in ((), (project.path / "shards" / "*" / "quant.json",)):
        answer = _import(project.path, 8, *files)
        assert (answer.returncode, answer.stderr) == (1, "shards that never reported: 8 of unknown number\n")
    assert run_command(project.path, "history", "import").returncode == 2


def test_the_history_tells_pytest_split_what_tests_cost(pytester: pytest.Pytester, project: ScratchRepository) -> None:
    """The file is the one that pytest-split reads: the longest test has a shard of its own."""
    run_fake(pytester, SUITE)
    written = run_command(project.path, "history", "export", "--format", "durations", "durations.json")
    assert (written.returncode, written.stderr) == (0, f"{TESTS} tests written to durations.json\n")
    durations = json.loads((project.path / "durations.json").read_text())
    assert durations == dict.fromkeys((f"test_it.py::test_{number:02}" for number in range(TESTS)), 6.0)
    (project.path / "durations.json").write_text(json.dumps(durations | {"test_it.py::test_07": 600.0}))
    alone = [_tests(_shard(pytester, group, 2)) for group in (1, 2)]
    assert {"test_it.py::test_07"} in alone
