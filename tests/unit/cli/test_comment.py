"""``pytest-quant comment`` finds out what CI tells, posts, and never prints the token."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_quant.cli import main
from tests.support.forge_server import FakeForge, serving

SECRET = "Geh3im_Geh3im_Geh3im"  # noqa: S105 - it is looked for in what is printed
TEXT = "<!-- pytest-quant comment -->\n**PASS: 1 check: 1 PASS**\n"
OF_CI = (
    *("GITHUB_ACTIONS", "GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_EVENT_PATH"),
    *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "GITLAB_CI", "CI_API_V4_URL"),
    *("CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "CI_MERGE_REQUEST_PROJECT_ID"),
)


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    """A forge, and a report in the working directory, of which no CI knows."""
    for name in OF_CI:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quant.md").write_text(TEXT)
    with serving() as found:
        yield found


def on_github(monkeypatch: pytest.MonkeyPatch, forge: FakeForge) -> None:
    """Set what GitHub Actions tells a job of a pull request."""
    told = {"GITHUB_ACTIONS": "true", "GITHUB_API_URL": forge.address, "GITHUB_REPOSITORY": "me/models"}
    for name, value in (told | {"GITHUB_REF": "refs/pull/12/merge", "GITHUB_TOKEN": SECRET}).items():
        monkeypatch.setenv(name, value)


def on_gitlab(monkeypatch: pytest.MonkeyPatch, forge: FakeForge) -> None:
    """Set what GitLab tells a job of a merge request."""
    told = {"GITLAB_CI": "true", "CI_API_V4_URL": f"{forge.address}/api/v4", "CI_PROJECT_ID": "5"}
    for name, value in (told | {"CI_MERGE_REQUEST_IID": "11", "GITLAB_TOKEN": SECRET}).items():
        monkeypatch.setenv(name, value)


def comment(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and all that it printed."""
    monkeypatch.setattr(sys, "argv", ["pytest-quant", "comment", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capfd.readouterr()
    text = printed.out + printed.err
    assert SECRET not in text
    return int(ended.value.code or 0), text


@pytest.mark.parametrize("arguments", [("quant.md",), ("quant.md", "--github")])
def test_on_github_everything_is_known(
    forge: FakeForge,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    """Posted the first time, updated the second."""
    on_github(monkeypatch, forge)
    code, said = comment(monkeypatch, capfd, *arguments)
    assert (code, [one["body"] for one in forge.comments]) == (0, [TEXT])
    assert said.startswith("me/models, pull request 12: the comment is posted: http://127.0.0.1:")
    code, said = comment(monkeypatch, capfd, *arguments)
    assert (code, len(forge.comments)) == (0, 1), said
    assert "the comment is updated" in said


def test_on_gitlab_everything_is_known(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The notes are those of the project that the request is to be merged into."""
    on_gitlab(monkeypatch, forge)
    monkeypatch.setenv("CI_PROJECT_ID", "99")
    monkeypatch.setenv("CI_MERGE_REQUEST_PROJECT_ID", "5")
    forge.user = {"id": 31}
    code, said = comment(monkeypatch, capfd, "quant.md")
    assert (code, said) == (0, "5, merge request 11: the comment is posted\n")
    assert [one["body"] for one in forge.comments] == [TEXT]


def test_options_come_before_what_ci_tells(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And are enough without CI."""
    monkeypatch.setenv("GH_TOKEN", SECRET)
    monkeypatch.setenv("GITHUB_REPOSITORY", "other/repository")
    options = ("--github", "--repository", "me/models", "--number", "12", "--api", f"{forge.address}/")
    code, _ = comment(monkeypatch, capfd, "quant.md", *options, "--name", "gpu")
    assert code == 0
    assert forge.comments[0]["body"].startswith("<!-- pytest-quant comment gpu -->\n**PASS")
    code, said = comment(monkeypatch, capfd, "quant.md", *options)
    assert (code, len(forge.comments)) == (0, 2), said


def test_a_dry_run_writes_nothing(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And says what would be done."""
    on_github(monkeypatch, forge)
    code, said = comment(monkeypatch, capfd, "quant.md", "--dry-run")
    assert (code, forge.written()) == (0, [])
    assert "a new comment would be posted" in said
    comment(monkeypatch, capfd, "quant.md")
    _, said = comment(monkeypatch, capfd, "quant.md", "--dry-run")
    assert "comment 1001 would be updated" in said


def test_the_report_may_come_through_a_pipe(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As from ``pytest-quant compare --markdown``."""
    on_github(monkeypatch, forge)
    with (tmp_path / "quant.md").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert comment(monkeypatch, capfd, "-")[0] == 0
    assert [one["body"] for one in forge.comments] == [TEXT]


MISSING = {
    "GITHUB_ACTIONS": "write --github or --gitlab",
    "GITHUB_TOKEN": "there is no token of GitHub",
    "GITHUB_REPOSITORY": "CI does not tell the repository",
    "GITHUB_REF": "CI does not say that this is for a pull request",
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_told(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """With what to do; nothing is asked for."""
    on_github(monkeypatch, forge)
    monkeypatch.delenv(name)
    code, said = comment(monkeypatch, capfd, "quant.md")
    assert (code, forge.asked) == (2, [])
    assert MISSING[name] in said
    assert "next: " in said


def test_without_a_token_of_gitlab_it_says_which_to_make(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The job's own may not write notes, and is not sent."""
    on_gitlab(monkeypatch, forge)
    monkeypatch.delenv("GITLAB_TOKEN")
    monkeypatch.setenv("CI_JOB_TOKEN", SECRET)
    code, said = comment(monkeypatch, capfd, "quant.md")
    assert (code, forge.asked) == (2, [])
    assert "there is no token of GitLab" in said
    assert "make a project access token" in said


def test_a_file_that_is_none_of_ours_is_refused(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before anything is asked; one that is not text too."""
    on_github(monkeypatch, forge)
    (tmp_path / "other.md").write_text("# Hello\n")
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe\x00")
    for name, words in (
        ("other.md", "no comment of pytest-quant"),
        ("binary.md", "cannot be read"),
        ("no.md", "no.md"),
    ):
        code, said = comment(monkeypatch, capfd, name)
        assert (code, forge.asked) == (2, [])
        assert words in said
