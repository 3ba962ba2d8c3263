"""Runs as CI services and other plugins make them: tests without a record, merge queues, clocks, roots."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fake_session import run_fake, write_fake
from tests.integration.projects import output
from tests.support.in_process import run_here
from tests.support.repository import ScratchRepository, make_repository, without_ci

CHECK = "@pytest.mark.quant(output='PASS')\ndef test_{}(): pass\n"


def run(pytester: pytest.Pytester, *args: str) -> tuple[str, dict[str, Any]]:
    """Run what is there with a fake session; return what is printed, and the section ``run`` of its records."""
    options = ("-q", "-p", "no:cacheprovider", "--quant-json=run.json", *args)
    result = run_here(pytester, *options, plugins=[sys.modules[run_fake.__module__]])
    return output(result), json.loads(Path("run.json").read_text())["run"]


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """A project with two checks, which has run on ``main``, outside of CI."""
    without_ci(monkeypatch)
    repository = make_repository(pytester.path / "work")
    monkeypatch.chdir(repository.path)
    Path(".gitignore").write_text(".quant/\n__pycache__/\nrun.json\n")
    write_fake(repository.path, CHECK.format("1") + CHECK.format("2"))
    return repository


def commit(repository: ScratchRepository, name: str) -> str:
    """Commit what is there, on a branch of that name, and return its id."""
    if name != "main":
        repository.git("switch", "-q", "-c", name)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--allow-empty", "-m", name)
    return repository.git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("@pytest.mark.skip(reason='no VNNI on this runner')\n", "NO REGRESSION: 1 test skipped here, "),
        ("import nothing_like_it\n", "REGRESSION: 2 tests not collected"),
    ],
    ids=["skipped", "not importable"],
)
def test_a_test_without_a_record_is_not_removed(
    repository: ScratchRepository, pytester: pytest.Pytester, before: str, told: str
) -> None:
    """See airspeed-velocity/asv#231; a crash is in `tests/integration/test_without_record.py`."""
    commit(repository, "main")
    run(pytester)
    write_fake(repository.path, before + CHECK.format("1") + CHECK.format("2"))
    commit(repository, "topic")
    said, _ = run(pytester, "--quant-compare", "--continue-on-collection-errors")
    assert told in said
    assert " removed" not in said


def test_a_merge_queue_is_compared_with_its_own_branch(
    repository: ScratchRepository, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """See CodSpeedHQ/action#126: the queue of develop, in which GitHub names no target."""
    commit(repository, "main")
    base = commit(repository, "develop")
    queue = f"gh-readonly-queue/develop/pr-12-{base}"
    head = commit(repository, queue)
    repository.git("checkout", "-q", "--detach")
    told = {"EVENT_NAME": "merge_group", "REF": f"refs/heads/{queue}", "REF_NAME": queue, "SHA": head}
    for name, value in {**told, "HEAD_REF": "", "BASE_REF": ""}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    _, found = run(pytester)
    known = [found[name] for name in ("branch", "target", "merge_base", "pull_request")]
    assert known == [queue, "develop", base, "12"]


def test_a_clock_that_stands_still_dates_no_run(repository: ScratchRepository, pytester: pytest.Pytester) -> None:
    """See spulec/freezegun#602; what is timed under one is in `tests/integration/test_replaced_clocks.py`."""
    pytest.importorskip("freezegun")
    frozen = "    with freezegun.freeze_time('2020-01-02'): yield\n"
    fixture = f"import freezegun\n@pytest.fixture(autouse=True)\ndef frozen():\n{frozen}"
    write_fake(repository.path, fixture + CHECK.format("1"))
    _, found = run(pytester)
    assert not found["started_at"].startswith("2020")


def test_equal_names_in_two_packages_are_two_tests(
    repository: ScratchRepository, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """See pytest-dev/pytest#13997: each package of a monorepo has its own root of pytest, and they share a history."""
    history = f"--quant-history={repository.path / 'history.db'}"
    for package in ("a", "b"):
        (repository.path / package).mkdir()
        write_fake(repository.path / package, CHECK.format("1"))
        (repository.path / package / "pytest.ini").write_text("[pytest]\n")
    (repository.path / "test_it.py").unlink()
    commit(repository, "main")
    for package in ("a", "b"):
        monkeypatch.chdir(repository.path / package)
        run(pytester, history)
    commit(repository, "topic")
    monkeypatch.chdir(repository.path / "a")
    said, _ = run(pytester, history, "--quant-compare")
    assert "(main, 1 run) -> " in said
    for word in ("removed", "added", "renamed"):
        assert word not in said
