"""``pytest-quant bisect`` finds planted commits in a real repository, and leaves it as it was."""

from __future__ import annotations

import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.support.history_project import MISCALIBRATES
from tests.support.history_repository import Answer, Repository, make_repository, run_command


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The project of a user whose commits have known effects; one of them cannot be collected."""
    made = make_repository(tmp_path_factory.mktemp("bisect") / "repository")
    made.checkout("main", made.main[MISCALIBRATES - 2])
    conftest = made.root / "conftest.py"
    whole = conftest.read_text()
    conftest.write_text(f"import no_such_module\n{whole}")
    made.git("commit", "-qam", "a broken commit")
    conftest.write_text(whole)
    made.git("commit", "-qam", "mended")
    identity = ("-c", "user.name=A User", "-c", "user.email=user@example.invalid")
    for commit in made.main[MISCALIBRATES - 1 :]:
        made.git(*identity, "cherry-pick", commit)
    line = made.git("rev-list", "--reverse", "HEAD").split()
    return Repository(made.root, tuple(line), made.feature)


def bisected(repository: Repository, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Run the command; what it starts finds the backends of the project as an installed one is found."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--this-is-of-another-run")
    # What is slower here is three times as slow, so that nobody's timing beside it matters.
    monkeypatch.setenv(FOLDER_VARIABLE, str(repository.root / ".git" / "locks"))
    before = repository.git("rev-parse", "HEAD"), repository.git("status", "--porcelain", "--untracked-files=no")
    result = run_command(repository.root, "bisect", *arguments)
    after = repository.git("rev-parse", "HEAD"), repository.git("status", "--porcelain", "--untracked-files=no")
    assert after == before
    assert repository.git("worktree", "list").count("\n") == 0
    return result


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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("test_names.py", "HEAD", "HEAD~1"), "GOOD is not before BAD"),
        (("test_names.py", "no-such-branch", "HEAD"), "git knows no such commit"),
        (("test_names.py::test_no", "HEAD~1", "HEAD"), "or that cannot be told"),
        (("test_names.py", "HEAD~1", "HEAD", "--limit=fast"), "is not a valid float"),
    ],
)
def test_what_cannot_be_searched_is_an_error(
    repository: Repository, arguments: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, with what was meant."""
    result = bisected(repository, *arguments, monkeypatch=monkeypatch)
    assert (result.returncode, why in result.stderr) == (2, True), result.stderr
