"""``pytest-quant bisect`` finds planted commits in a real repository, by answers and by pairs of processes."""

from __future__ import annotations

import pytest

from tests.integration.test_bisect import bisected
from tests.support.history_project import MISCALIBRATES, SLOWS
from tests.support.history_repository import Repository, make_repository


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The project of a user whose commits have known effects; one of them cannot be collected."""
    project = make_repository(tmp_path_factory.mktemp("bisect") / "repository")
    project.checkout("main", project.main[MISCALIBRATES - 2])
    conftest = project.root / "conftest.py"
    whole = conftest.read_text()
    conftest.write_text(f"import no_such_module\n{whole}")
    project.git("commit", "-qam", "a broken commit")
    conftest.write_text(whole)
    project.git("commit", "-qam", "mended")
    identity = ("-c", "user.name=A User", "-c", "user.email=user@example.invalid")
    for commit in project.main[MISCALIBRATES - 1 :]:
        project.git(*identity, "cherry-pick", commit)
    line = project.git("rev-list", "--reverse", "HEAD").split()
    return Repository(project.root, tuple(line), project.feature)


def test_worse_answers_are_traced_past_a_commit_that_cannot_be_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps, the commit and its figures are printed."""
    result = bisected(
        repository, "test_quality.py::test_ranges", repository.main[MISCALIBRATES - 2], "HEAD", monkeypatch=monkeypatch
    )
    assert result.returncode == 0, result.stdout + result.stderr
    named = next(line for line in result.stdout.splitlines() if line.startswith("first bad commit: "))
    assert named.endswith("calibrates on quiet samples")
    assert "24 lost, 0 won of 200 samples" in result.stdout


def test_a_slower_engine_is_traced(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the project takes three times as long from that commit on, the second of two."""
    good, bad = repository.main[SLOWS - 1], repository.main[SLOWS + 1]
    result = bisected(repository, "test_speed.py::test_speed", good, bad, "--limit=20", monkeypatch=monkeypatch)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "first bad commit: " in result.stdout
    named = next(line for line in result.stdout.splitlines() if line.startswith("first bad commit: "))
    assert named.endswith("another turbo"), result.stdout
    assert "limit 20 %; 5 pairs of processes" in result.stdout
