"""``pytest-quant comment`` keeps one comment up to date, on a server of this machine that speaks the API of a forge."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pytest_quant.cli import main
from pytest_quant.cli.comment import find, open_github, open_gitlab
from tests.support.forge_server import FakeForge, Reply, serving

MARKER = "<!-- pytest-quant comment -->"
TEXT = f"{MARKER}\n**PASS: 1 check: 1 PASS**\n"
TOKEN = "Geh3im_Geh3im_Geh3im"  # noqa: S105 - it is looked for in what is printed
ME = {"login": "me", "id": 7, "type": "User"}
JOB = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
OTHER_BOT = {"login": "dependabot[bot]", "id": 49699333, "type": "Bot"}
BOT = {"id": 31, "username": "project_5_bot_x"}
OF_CI = (
    *("GITHUB_ACTIONS", "GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_EVENT_PATH"),
    *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "GITLAB_CI", "CI_API_V4_URL"),
    *("CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "CI_MERGE_REQUEST_PROJECT_ID"),
)

Comment: TypeAlias = Callable[..., tuple[int, str]]
"""Runs the command; returns its exit code and all that it printed."""


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    """A server that speaks the shapes of both forges, and a report in the working directory, of which no CI knows."""
    for name in OF_CI:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quant.md").write_text(TEXT)
    with serving() as server:
        yield server


@pytest.fixture
def comment(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Comment:
    """The command, which never prints the token, in whatever spelling."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["pytest-quant", "comment", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capfd.readouterr()
        assert TOKEN.partition("_")[0] not in printed.out + printed.err
        return int(ended.value.code or 0), printed.out + printed.err

    return run


@pytest.fixture
def on_github(monkeypatch: pytest.MonkeyPatch, forge: FakeForge) -> FakeForge:
    """What GitHub Actions tells a job of a pull request."""
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_API_URL": forge.address, "GITHUB_REPOSITORY": "me/models"}
    for name, value in (variables | {"GITHUB_REF": "refs/pull/12/merge", "GITHUB_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)
    return forge


@pytest.fixture
def on_gitlab(monkeypatch: pytest.MonkeyPatch, forge: FakeForge) -> FakeForge:
    """What GitLab tells a job of a merge request; comments are those of the project that it is to be merged into."""
    variables = {"GITLAB_CI": "true", "CI_API_V4_URL": f"{forge.address}/api/v4", "CI_PROJECT_ID": "99"}
    variables |= {"CI_MERGE_REQUEST_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "11", "GITLAB_TOKEN": TOKEN}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    forge.user = BOT
    return forge


def comments(number: int, user: object = ME, body: str = "text") -> list[dict[str, Any]]:
    """Comments as GitHub lists them."""
    return [
        {"id": place, "body": body, "user": user, "html_url": f"https://x/{place}"} for place in range(1, number + 1)
    ]


def notes(number: int, author: object, body: str = "text", *, system: bool = False) -> list[dict[str, Any]]:
    """Notes as GitLab lists them."""
    return [{"id": place, "body": body, "author": author, "system": system} for place in range(1, number + 1)]


def found_on_github(forge: FakeForge) -> Any:
    """The own comment on that server."""
    return find(open_github(forge.address, TOKEN, "me/models", 12), TEXT)


def found_on_gitlab(forge: FakeForge) -> Any:
    """The own note on that server."""
    return find(open_gitlab(f"{forge.address}/api/v4", TOKEN, "5", 11), TEXT)


def test_it_is_posted_and_then_updated_on_github(on_github: FakeForge, comment: Comment) -> None:
    """By a job of Actions, whose token may not ask who it is; a dry run says so before, and writes nothing."""
    for dry, done in (("a new comment", "posted"), ("comment 1001", "updated")):
        written = on_github.written()
        code, said = comment("quant.md", "--dry-run")
        assert (code, on_github.written()) == (0, written)
        assert dry in said
        code, said = comment("quant.md")
        assert (code, [each["body"] for each in on_github.comments]) == (0, [TEXT])
        assert said.startswith(f"me/models, pull request 12: the comment is {done}: http")
    path = "/repos/me/models/issues"
    assert on_github.written() == [f"POST {path}/12/comments", f"PATCH {path}/comments/1001"]
    assert on_github.requests[0].headers["Authorization"].split()[1] == TOKEN


def test_a_dry_run_needs_no_token(on_github: FakeForge, monkeypatch: pytest.MonkeyPatch, comment: Comment) -> None:
    """It says what would be posted, and asks nobody."""
    monkeypatch.delenv("GITHUB_TOKEN")
    code, said = comment("quant.md", "--dry-run")
    assert said.startswith(f"me/models, pull request 12: {len(TEXT)} characters; without a token nobody knows")
    assert (code, list(on_github.requests)) == (0, [])


def test_it_is_posted_and_then_updated_on_gitlab(on_gitlab: FakeForge, comment: Comment) -> None:
    """By the token of the project."""
    for done in ("posted", "updated"):
        assert comment("quant.md") == (0, f"5, merge request 11: the comment is {done}\n")
    assert [note["body"] for note in on_gitlab.comments] == [TEXT]
    path = "/api/v4/projects/5/merge_requests/11/notes"
    assert on_gitlab.written() == [f"POST {path}", f"PUT {path}/1001"]
    assert {name.lower(): value for name, value in on_gitlab.requests[0].headers.items()}["private-token"] == TOKEN


def test_options_come_before_what_ci_tells(
    forge: FakeForge, monkeypatch: pytest.MonkeyPatch, comment: Comment, tmp_path: Path
) -> None:
    """And are enough without CI; a project's path is one word of an address, and a report may come through a pipe."""
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_REPOSITORY", "other/repository")
    options = ("--github", "--repository", "me/models", "--number", "12", "--api", f"{forge.address}/")
    assert comment("quant.md", *options, "--name", "gpu")[0] == 0
    assert forge.comments[0]["body"].startswith("<!-- pytest-quant comment gpu -->\n**PASS")
    with (tmp_path / "quant.md").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert comment("-", *options)[0] == 0
    assert len(forge.comments) == 2
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
    forge.user, forge.comments = BOT, []
    options = ("--gitlab", "--repository", "group/models", "--number", "11", "--api", f"{forge.address}/api/v4")
    assert comment("quant.md", *options)[0] == 0
    assert forge.written()[-1] == "POST /api/v4/projects/group%2Fmodels/merge_requests/11/notes"


@pytest.mark.parametrize("before", [0, 250])
def test_it_is_found_on_every_page(forge: FakeForge, before: int) -> None:
    """The first page has a hundred comments; whatever line ends the forge has made of ours, the first one counts."""
    own = {"id": 5000, "body": f"{MARKER}\r\nold", "html_url": "https://x/5000"}
    forge.comments = [*comments(before), {**own, "user": JOB}, {**own, "user": JOB, "id": 5001}]
    assert found_on_github(forge).id == 5000
    assert len([request for request in forge.requests if "/comments?" in request.path]) == before // 100 + 1
    forge.user, forge.comments = BOT, [*notes(before, {"id": 1}), {**own, "author": BOT, "system": False}]
    assert found_on_gitlab(forge).id == 5000


@pytest.mark.parametrize(
    ("user", "writer", "mine"),
    [(ME, ME, True), (None, JOB, True), (None, ME, False), (ME, {"login": "you"}, False), (None, OTHER_BOT, False)],
)
def test_only_an_own_comment_is_taken_on_github(
    forge: FakeForge, user: Any, writer: dict[str, Any], mine: bool
) -> None:
    """Anybody can copy the first line; who wrote the comment could change the report afterwards."""
    forge.user, forge.comments = user, comments(1, writer, f"{MARKER}\nold")
    assert (found_on_github(forge) is not None) is mine


@pytest.mark.parametrize(("author", "system"), [({"id": 30}, False), (BOT, True), (None, False)])
def test_only_an_own_note_is_taken_on_gitlab(forge: FakeForge, author: Any, system: bool) -> None:
    """And none that GitLab wrote itself."""
    forge.user, forge.comments = BOT, notes(1, author, f"{MARKER}\nold", system=system)
    assert found_on_gitlab(forge) is None


@pytest.mark.parametrize("body", ["", f"x\n{TEXT}", "<!-- pytest-quant comment gpu -->\n"])
def test_only_the_first_line_counts(forge: FakeForge, body: str) -> None:
    """A reply that quotes the report is another comment, and so is the report of another job."""
    forge.comments = comments(1, JOB, body)
    assert found_on_github(forge) is None


def test_a_server_that_is_busy_is_asked_again_for_comments_and_never_to_post(
    on_github: FakeForge, on_gitlab: FakeForge, comment: Comment
) -> None:
    """A request that was carried out although its answer is an error would post the comment twice."""
    on_github.scripted = [Reply(502, "<html>Bad Gateway</html>", {"Retry-After": "0"})]
    on_github.user = None
    assert "is posted" in comment("quant.md", "--github")[1]
    on_gitlab.comments, on_gitlab.requests, on_gitlab.user = [], [], BOT
    on_gitlab.scripted = [Reply(502, {"message": "busy"}), None, Reply(502, {"message": "busy"})]
    code, said = comment("quant.md", "--gitlab")
    assert (code, len(on_gitlab.written())) == (2, 1)
    assert "answers 502" in said
    assert "run it again later" in said


REFUSALS = [
    ("--github", 401, {"message": "Bad credentials"}, "has expired: pytest-quant guide ci"),
    ("--github", 403, {"message": f"Resource not accessible by integration {TOKEN}"}, "may not write here"),
    ("--github", 403, "<html><title>Blocked</title></html>", "A proxy"),
    ("--github", 403, f"<html>{TOKEN.replace('_', '&#95;')}</html>", "A proxy"),
    ("--gitlab", 403, '{"message": "' + TOKEN.replace("_", "\\u005f"), "may not write here"),
    ("--github", 200, "<html>Log in</html>", "--api"),
    ("--gitlab", 403, {"error": "insufficient_scope"}, "may not write here"),
    ("--gitlab", 404, {"message": "404 Project Not Found"}, "--repository and --number"),
    ("--gitlab", 200, "<html>Log in</html>", "--api"),
]


@pytest.mark.parametrize(("forge_option", "status", "body", "advice"), REFUSALS)
def test_a_refusal_says_what_to_do(
    on_github: FakeForge,
    on_gitlab: FakeForge,
    comment: Comment,
    forge_option: str,
    status: int,
    body: object,
    advice: str,
) -> None:
    """And a page is not one of the forge."""
    assert on_github is on_gitlab
    on_github.scripted = [Reply(status, body)]
    code, said = comment("quant.md", forge_option)
    assert code == 2
    assert advice in said
    assert status == 200 or f"answers {status}" in said


def test_a_redirection_gets_no_token(on_gitlab: FakeForge, comment: Comment) -> None:
    """Requests would send the header of GitLab's along to any other host."""
    with serving() as other:
        on_gitlab.scripted = [Reply(307, "", {"Location": f"{other.address}/api/v4/user"})] * 9
        code, said = comment("quant.md")
        assert (code, other.requests, on_gitlab.written()) == (2, [], [])
    assert "is --api right" in said


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Reply(302, "", {"Location": "https://x/login"}), 2, "no comment"),
        (Reply(201, {"id": 7, "url": "https://x/", "html_url": f"https://x/{TOKEN}"}), 0, "is posted: https://x/"),
    ],
)
def test_what_answers_a_new_comment_is_looked_at(
    on_github: FakeForge, comment: Comment, reply: Reply, code: int, words: str
) -> None:
    """A login in front of the forge has posted nothing, and an address may have the token in it."""
    on_github.scripted = [None, reply]
    ended, said = comment("quant.md")
    assert ended == code
    assert words in said


def test_a_server_that_stays_busy_is_not_waited_for_without_end(
    on_github: FakeForge, comment: Comment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names an hour; the status and the next step are told."""
    waits: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", waits.append)
    on_github.scripted = [Reply(502, "", {"Retry-After": "3600"})] * 9
    code, said = comment("quant.md")
    assert (code, max(waits)) == (2, 120)
    assert "answers 502" in said
    assert "run it again later" in said


def test_no_answer_says_what_may_be_wrong(on_gitlab: FakeForge, comment: Comment) -> None:
    """A connection that is closed."""
    on_gitlab.scripted = [Reply(200, [], drops=True)] * 9
    code, said = comment("quant.md")
    assert code == 2
    assert "does not answer as its API does" in said
    assert "--api" in said


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("--api", api, "no address of an API") for api in ("api.github.com", "https://me:secret@x")),
        *(("--name", name, "--name is no name") for name in ("-->", "x\ny")),
    ],
)
def test_an_option_that_cannot_be_is_refused(
    on_github: FakeForge, comment: Comment, option: str, value: str, words: str
) -> None:
    """Before anything is sent, and without a password in it."""
    code, said = comment("quant.md", option, value)
    assert (code, on_github.requests) == (2, [])
    assert words in said
    assert "secret" not in said


@pytest.mark.parametrize("token", ["a\nHost: x", "tökén"])
def test_a_token_that_is_none_is_refused(
    on_github: FakeForge, monkeypatch: pytest.MonkeyPatch, comment: Comment, token: str
) -> None:
    """It would be a header of its own, and is not repeated."""
    monkeypatch.setenv("GITHUB_TOKEN", token)
    code, said = comment("quant.md")
    assert (code, on_github.requests, token in said) == (2, [], False)
    assert "characters that no token has" in said


def test_a_request_that_ci_does_not_name_is_named_as_the_message_says(
    on_github: FakeForge, comment: Comment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a job of a branch."""
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    code, said = comment("quant.md")
    assert code == 2
    assert "write --number N" in " ".join(said.split())
    assert comment("quant.md", "--number", "12")[0] == 0
    assert on_github.written()


def test_all_that_ci_does_not_say_is_asked_for_at_once(
    on_github: FakeForge, comment: Comment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of CI; what it asks for is enough."""
    for name in ("GITHUB_REF", "GITHUB_REPOSITORY", "GITHUB_TOKEN"):
        monkeypatch.delenv(name)
    code, said = comment("--github", "quant.md", "--dry-run")
    said = " ".join(said.split())
    assert (code, "CI does not name the repository and does not say that this is for a pull request" in said) == (
        2,
        True,
    )
    assert "write --repository owner/name --number N" in said
    assert comment("--github", "quant.md", "--dry-run", "--repository", "owner/name", "--number", "3")[0] == 0
    assert on_github.requests == []


MISSING = {
    "GITHUB_ACTIONS": "write --github or --gitlab",
    "GITHUB_TOKEN": "there is no token",
    "GITHUB_REPOSITORY": "CI does not name the repository",
    "GITHUB_REF": "CI does not say that this is for a pull request",
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_told(
    on_github: FakeForge, monkeypatch: pytest.MonkeyPatch, comment: Comment, name: str
) -> None:
    """With what to do; nothing is asked for."""
    monkeypatch.delenv(name)
    code, said = comment("quant.md")
    assert (code, on_github.requests) == (2, [])
    assert MISSING[name] in said
    assert "next: " in said


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"# Hello\n", "got: # Hello"), (b"\xff\xfe\x00", "next: write it with: pytest --quant-markdown=FILE")],
)
def test_a_file_that_is_none_of_ours_is_refused(
    on_github: FakeForge, comment: Comment, tmp_path: Path, content: bytes, words: str
) -> None:
    """Text or not, before anything is asked: it could never be found again."""
    (tmp_path / "other.md").write_bytes(content)
    code, said = comment("other.md")
    assert (code, on_github.requests) == (2, [])
    assert "this is no comment of pytest-quant" in said
    assert words in said
