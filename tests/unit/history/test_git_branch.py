"""A history on a branch of its own: nothing else in the repository notices."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.errors import HistoryError
from pytest_quant.history.git_branch import BRANCH, GitBranch, file_of, pull, push
from pytest_quant.history.json_lines import run_line
from pytest_quant.history.store import Store
from pytest_quant.record import Run
from tests.unit.history.in_memory import MemoryStore
from tests.unit.record.examples import RUN, a_pass, a_record


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a name nor hooks nor signing keys, as on a new CI machine."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with one commit of code."""
    _git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    clone = _cloned(tmp_path, "author")
    (clone / "code.py").write_text("x = 1\n")
    _git(clone, "add", "code.py")
    _git(clone, "commit", "-qm", "code")
    _git(clone, "push", "-q", "origin", "HEAD:main")
    return tmp_path / "remote.git"


def _cloned(folder: Path, name: str) -> Path:
    _git(folder, "clone", "-q", "remote.git", name)
    return folder / name


def _branch(folder: Path) -> GitBranch:
    return GitBranch(folder, "origin", BRANCH)


def _store(*runs: Run) -> Store:
    store = MemoryStore()
    for run in runs:
        store.append(run, [a_record(), a_pass()])
    return cast(Store, store)


def _runs_by_id(store: Store) -> Mapping[str, object]:
    return cast(MemoryStore, store).runs_by_id


def _run(name: str) -> Run:
    return replace(RUN, id=name)


def test_what_one_pushes_another_pulls(remote: Path, tmp_path: Path) -> None:
    """Every run with its records; a second time nothing is left to do."""
    here, there = _cloned(tmp_path, "here"), _cloned(tmp_path, "there")
    ours, theirs = _store(_run("one"), _run("two")), _store(_run("three"))
    assert push(ours, _branch(here)) == 2
    assert push(ours, _branch(here)) == 0
    assert pull(theirs, _branch(there)) == (2, 0, [])
    assert push(theirs, _branch(there)) == 1
    assert pull(ours, _branch(here)) == (1, 2, [])
    assert pull(ours, _branch(here)) == (0, 3, [])
    assert _runs_by_id(ours) == {name: (_run(name), (a_record(), a_pass())) for name in ("one", "two", "three")}


def test_the_repository_stays_as_it_is(remote: Path, tmp_path: Path) -> None:
    """Changed, staged and untracked files, branches and the last fetch: git tells the same before and after.

    Where the user has fetched the branch of the history, a pull leaves that where it was.
    """
    here = _cloned(tmp_path, "here")
    (here / "code.py").write_text("changed")
    (here / "staged.py").write_text("staged")
    _git(here, "add", "staged.py")
    (here / "new.py").write_text("new")

    def state() -> list[str]:
        queries = (("status", "--porcelain"), ("branch",), ("tag",), ("stash", "list"), ("diff",), ("diff", "--cached"))
        return [_git(here, *query) for query in queries] + [str((here / ".git" / "FETCH_HEAD").exists())]

    before = state()
    push(_store(RUN), _branch(here))
    pull(_store(_run("other")), _branch(here))
    assert state() == before
    fetched = _git(here, "for-each-ref", "refs/remotes")
    push(_store(_run("more")), _branch(_cloned(tmp_path, "there")))
    pull(_store(), _branch(here))
    assert _git(here, "for-each-ref", "refs/remotes") == fetched


def test_the_branch_holds_nothing_but_new_branch(remote: Path, tmp_path: Path) -> None:
    """It shares no commit with the code, each run is one file by its month, and no file ever changes."""
    here = _cloned(tmp_path, "here")
    push(_store(_run("one")), _branch(here))
    push(_store(_run("one"), _run("two")), _branch(here))
    listed = _git(remote, "ls-tree", "-r", "--name-only", BRANCH).splitlines()
    assert listed == ["runs/2026-01/one.jsonl", "runs/2026-01/two.jsonl"]
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        _git(remote, "merge-base", "main", BRANCH)
    assert set(_git(remote, "log", "--name-status", "--format=", BRANCH).split()[::2]) == {"A"}
    assert _git(remote, "log", "--format=%an", BRANCH).split() == ["pytest-quant"] * 3


@pytest.mark.parametrize("place", ["the remote", "this repository"])
def test_a_branch_of_code_gets_no_records(remote: Path, tmp_path: Path, place: str) -> None:
    """The message names a file of it; neither the remote nor the branch here has changed."""
    here = _cloned(tmp_path, "here")
    branch = "work"
    _git(*((remote, "branch", branch, "main") if place == "the remote" else (here, "branch", branch, "origin/main")))
    before = _git(remote, "for-each-ref"), _git(here, "for-each-ref", "refs/heads")
    with pytest.raises(HistoryError, match=rf"the branch {branch} (of the remote|in {place})") as caught:
        push(_store(RUN), GitBranch(here, "origin", branch))
    assert caught.value.value == "code.py"
    assert (_git(remote, "for-each-ref"), _git(here, "for-each-ref", "refs/heads")) == before


def test_jobs_that_push_at_once_lose_nothing(remote: Path, tmp_path: Path) -> None:
    """Six jobs with two runs each, the branch not there yet: all twelve arrive, in a straight line of commits."""
    clones = [_cloned(tmp_path, f"job{number}") for number in range(6)]

    def job(number: int) -> int:
        return push(_store(_run(f"{number}-a"), _run(f"{number}-b")), _branch(clones[number]))

    with ThreadPoolExecutor(6) as jobs:
        assert list(jobs.map(job, range(6))) == [2] * 6
    merged = _store()
    assert pull(merged, _branch(clones[0])) == (12, 0, [])
    assert len(_git(remote, "log", "--format=%h", BRANCH).split()) == 7
    assert _git(remote, "log", "--merges", "--format=%h", BRANCH) == ""


def test_a_remote_that_refuses_is_an_error_at_once(remote: Path, tmp_path: Path) -> None:
    """A hook of the server says no; its words are shown without the password in them, and there is no second try."""
    hook = remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho records are not welcome, see https://me:secret@host/x.git\nexit 1\n")
    hook.chmod(0o755)
    pauses: list[float] = []
    with pytest.raises(HistoryError, match="git push failed") as caught:
        push(_store(RUN), _branch(_cloned(tmp_path, "here")), pause=pauses.append)
    assert "not welcome, see https://***@host" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert pauses == []
    # As its next step says: once git may push, the same call does.
    assert caught.value.fix == "make the git command work by itself, and try again"
    hook.unlink()
    push(_store(RUN), _branch(_cloned(tmp_path, "again")))


def test_hooks_of_the_user_are_not_run(remote: Path, tmp_path: Path) -> None:
    """They check code."""
    here = _cloned(tmp_path, "here")
    hook = here / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert push(_store(RUN), _branch(here)) == 1


@pytest.mark.parametrize(
    ("remote_name", "branch", "text"),
    [("--upload-pack=x", BRANCH, "upload-pack"), ("origin", "a..b", "a..b"), ("origin", "a\0b", "cannot be called"),
     ("\ud800", BRANCH, "cannot be asked about such a name")],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(
    remote: Path, tmp_path: Path, remote_name: str, branch: str, text: str
) -> None:
    """Nothing that begins with a dash is taken for an option."""
    with pytest.raises(HistoryError) as caught:
        push(_store(RUN), GitBranch(_cloned(tmp_path, "here"), remote_name, branch))
    assert text in str(caught.value)


def test_a_branch_that_is_not_there_cannot_be_pulled(remote: Path, tmp_path: Path) -> None:
    """The message says who makes it."""
    with pytest.raises(HistoryError, match="has no branch"):
        pull(_store(), _branch(_cloned(tmp_path, "here")))


@settings(max_examples=60)
@given(st.text(), st.text(), st.text())
def test_any_id_has_a_path_of_its_own(first: str, second: str, time: str) -> None:
    """Of plain characters, in a folder below runs; two ids share none."""
    paths = [file_of(replace(RUN, id=name, started_at=time)) for name in (first, second)]
    assert all(re.fullmatch(r"runs/[0-9a-z-]+/(id\.)?[A-Za-z0-9_-]+\.jsonl", path) for path in paths)
    assert (paths[0] == paths[1]) == (first == second)


def test_a_hostile_id_is_pushed_and_pulled(remote: Path, tmp_path: Path) -> None:
    """Under its digest; the run itself keeps its id."""
    here = _cloned(tmp_path, "here")
    hostile = replace(RUN, id="../../../../tmp/evil\n\x1b[31m", branch="x; rm -rf /")
    assert push(_store(hostile), _branch(here)) == 1
    store = _store()
    assert pull(store, _branch(here)) == (1, 0, [])
    assert list(_runs_by_id(store)) == [hostile.id]
    assert push(store, _branch(here)) == 0


def _pushed(remote: Path, clone: Path, path: str, content: bytes) -> None:
    """Do what whoever can push to the branch can: add a file of any content."""
    _git(clone, "fetch", "-q", "origin", BRANCH)
    _git(clone, "checkout", "-q", "-B", "work", "FETCH_HEAD")
    (clone / path).parent.mkdir(parents=True, exist_ok=True)
    (clone / path).write_bytes(content)
    _git(clone, "add", path)
    _git(clone, "commit", "-qm", "more")
    _git(clone, "push", "-q", "origin", f"HEAD:{BRANCH}")


def test_a_pull_beside_another_waits_for_it(remote: Path, tmp_path: Path) -> None:
    """For the lock of the reference to which both fetch, which git itself waits for 0.1 s only."""
    here = _cloned(tmp_path, "here")
    push(_store(_run("one")), _branch(_cloned(tmp_path, "there")))
    lock = here / ".git" / "refs" / "pytest-quant" / f"{BRANCH}.lock"
    lock.parent.mkdir()
    lock.touch()
    threading.Timer(0.5, lock.unlink).start()
    assert pull(_store(), _branch(here)) == (1, 0, [])


ACCURACY = a_record().accuracy
assert ACCURACY is not None
SPOILED = replace(a_record(), accuracy=replace(ACCURACY, candidate_correct="</script>"))
HOSTILE = {
    "answers": run_line(_run("bad"), [SPOILED]),
    "deep": b"[" * 100_000,
    "bytes": b"\xff\x00",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_of_somebody_else_keeps_no_run_out(remote: Path, tmp_path: Path, content: bytes) -> None:
    """It is named by its line, and every other run is added; files elsewhere on the branch are not looked at."""
    here = _cloned(tmp_path, "here")
    push(_store(_run("one"), _run("two")), _branch(here))
    _pushed(remote, _cloned(tmp_path, "bad"), "runs/2026-01/bad.jsonl", content)
    _pushed(remote, _cloned(tmp_path, "other"), "README", b"not a run")
    ours = _store()
    added, _, (refused,) = pull(ours, _branch(here))
    assert added == 2
    assert refused.startswith("runs/2026-01/bad.jsonl, line 1: ")
    assert sorted(_runs_by_id(ours)) == ["one", "two"]
