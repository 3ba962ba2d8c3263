"""``pytest-quant bisect`` says what it cannot search, and leaves the repository as it was. A night searches."""

from __future__ import annotations

import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.support.history_project import SLOWS
from tests.support.history_repository import Answer, Repository, make_repository, run_command


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The project of a user whose commits have known effects."""
    return make_repository(tmp_path_factory.mktemp("bisect") / "repository")


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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("test_names.py", "HEAD", "HEAD~1"), "GOOD is not before BAD"),
        (("test_names.py", "HEAD", "--", "--quant-no-latency"), "GOOD is not before BAD"),
        (("test_names.py", "no-such-branch..HEAD"), "git knows no such commit"),
        (
            ("test_names.py::test_no", "HEAD~1", "HEAD"),
            "test_no cannot be compared, for the reason above; pytest --collect-only ",
        ),
        (("test_names.py", "HEAD~1", "HEAD", "--limit=fast"), "is not a valid float"),
    ],
)
def test_what_cannot_be_searched_is_an_error(
    repository: Repository, arguments: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, with what was meant."""
    result = bisected(repository, *arguments, monkeypatch=monkeypatch)
    assert (result.returncode, why in result.stderr) == (2, True), result.stderr


def test_accuracy_alone_is_compared_where_the_user_asks_for_no_latency(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of the project takes three times as long at BAD, and nothing is worse by its answers."""
    good, bad = repository.main[SLOWS - 1], repository.main[SLOWS + 1]
    words = ("test_speed.py::test_speed", good, bad, "--", "--quant-no-latency")
    result = bisected(repository, *words, monkeypatch=monkeypatch)
    assert (result.returncode, "p50" in result.stdout) == (1, False), result.stdout + result.stderr
    assert f"good {bad[:12]}" in result.stdout
    assert "is not worse at BAD than at GOOD" in result.stderr
