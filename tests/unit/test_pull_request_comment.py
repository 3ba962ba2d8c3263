"""One comment is kept up to date on either forge, whose server is one of this machine that speaks its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.pull_request_comment import GitHub, GitLab, find, named, number_on_github, post
from tests.support.forge_server import FakeForge, Reply, serving

MARKER = "<!-- pytest-quant comment -->"
TEXT = f"{MARKER}\n**PASS**\n"
TOKEN = "Geh3im_Geh3im_Geh3im"  # noqa: S105 - for a server of this test
ME = {"login": "me", "id": 7, "type": "User"}
JOB = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
BOT = {"id": 31, "username": "project_5_bot_x"}


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    """A server that speaks the shapes of both forges, before which no proxy stands."""
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        yield server


def on_github(forge: FakeForge) -> GitHub:
    """The pull request on that server."""
    return GitHub(forge.address, TOKEN, "me/models", 12)


def on_gitlab(forge: FakeForge, project: str = "5") -> GitLab:
    """The merge request on that server."""
    return GitLab(f"{forge.address}/api/v4", TOKEN, project, 11)


def comments(number: int, user: object = ME, body: str = "text") -> list[dict[str, Any]]:
    """Comments as GitHub lists them."""
    return [{"id": one, "body": body, "user": user, "html_url": f"https://x/{one}"} for one in range(1, number + 1)]


def notes(number: int, author: object, body: str = "text", *, system: bool = False) -> list[dict[str, Any]]:
    """Notes as GitLab lists them."""
    return [{"id": one, "body": body, "author": author, "system": system} for one in range(1, number + 1)]


def refusal(forge: FakeForge, request: GitHub | GitLab, *replies: Reply) -> ForgeError:
    """The error that answers to the list of comments become."""
    forge.scripted = list(replies)
    with pytest.raises(ForgeError) as caught:
        find(request, TEXT)
    assert TOKEN not in f"{caught.value}{caught.value.value}"
    return caught.value


def test_it_is_posted_and_then_updated_on_github(forge: FakeForge) -> None:
    """By a job of Actions, whose token may not ask who it is; the address is one for a browser."""
    for body, done in (("one", "posted"), ("two", "updated"), ("three", "updated")):
        did, address = post(on_github(forge), f"{MARKER}\n{body}")
        assert (did, "#issuecomment-1001" in address) == (done, True)
    assert [comment["body"] for comment in forge.comments] == [f"{MARKER}\nthree"]
    path = "/repos/me/models/issues"
    assert forge.written() == [f"POST {path}/12/comments", *[f"PATCH {path}/comments/1001"] * 2]
    assert forge.asked[0].headers["Authorization"].split()[1] == TOKEN


@pytest.mark.parametrize("project", ["5", "group/models"])
def test_it_is_posted_and_then_updated_on_gitlab(forge: FakeForge, project: str) -> None:
    """By the token of the project, whose path is one word of the address."""
    forge.user = BOT
    for body, done in (("one", "posted"), ("two", "updated")):
        assert post(on_gitlab(forge, project), f"{MARKER}\n{body}") == (done, "")
    assert [note["body"] for note in forge.comments] == [f"{MARKER}\ntwo"]
    path = f"/api/v4/projects/{project.replace('/', '%2F')}/merge_requests/11/notes"
    assert forge.written() == [f"POST {path}", f"PUT {path}/1001"]
    assert {name.lower(): value for name, value in forge.asked[0].headers.items()}["private-token"] == TOKEN


@pytest.mark.parametrize("before", [0, 99, 100, 250])
def test_it_is_found_on_every_page(forge: FakeForge, before: int) -> None:
    """The first page has a hundred comments; whatever line ends the forge has made of ours."""
    own = {"id": 5000, "body": f"{MARKER}\r\nold", "html_url": "https://x/5000"}
    forge.comments = [*comments(before), {**own, "user": JOB}]
    comment = find(on_github(forge), TEXT)
    assert comment is not None
    assert comment.id == 5000
    assert len([request for request in forge.asked if "/comments?" in request.path]) == before // 100 + 1
    forge.user, forge.comments = BOT, [*notes(before, {"id": 1}), {**own, "author": BOT}]
    note = find(on_gitlab(forge), TEXT)
    assert note is not None
    assert note.id == 5000


@pytest.mark.parametrize(
    ("user", "writer", "mine"),
    [(ME, ME, True), (ME, JOB, False), (None, JOB, True), (None, ME, False), (ME, {"login": "you"}, False)],
)
def test_only_an_own_comment_is_taken_on_github(
    forge: FakeForge, user: Any, writer: dict[str, Any], mine: bool
) -> None:
    """Anybody can copy the first line; who wrote the comment could change the report afterwards."""
    forge.user, forge.comments = user, comments(1, writer, f"{MARKER}\nold")
    assert (find(on_github(forge), TEXT) is not None) is mine


@pytest.mark.parametrize(("author", "system"), [({"id": 30}, False), (BOT, True), (None, False)])
def test_only_an_own_note_is_taken_on_gitlab(forge: FakeForge, author: Any, system: bool) -> None:
    """And none that GitLab wrote itself."""
    forge.user, forge.comments = BOT, notes(1, author, f"{MARKER}\nold", system=system)
    assert find(on_gitlab(forge), TEXT) is None


@pytest.mark.parametrize(
    "body", ["", "x\n" + TEXT, f" {TEXT}", "<!-- pytest-quant comment gpu -->\n", MARKER + " more"]
)
def test_only_the_first_line_counts(forge: FakeForge, body: str) -> None:
    """A reply that quotes the report is another comment, and so is the report of another job."""
    forge.comments = comments(1, JOB, body)
    assert find(on_github(forge), TEXT) is None


def test_of_several_the_first_is_updated(forge: FakeForge) -> None:
    """Each time the same."""
    forge.comments = comments(2, JOB, TEXT)
    post(on_github(forge), TEXT)
    assert forge.written() == ["PATCH /repos/me/models/issues/comments/1"]


def test_a_server_that_is_busy_is_asked_again_for_comments_and_never_to_post(forge: FakeForge) -> None:
    """A request that was carried out although its answer is an error would post the comment twice."""
    forge.scripted = [Reply(502, "<html>Bad Gateway</html>", {"Retry-After": "0"})]
    assert post(on_github(forge), TEXT)[0] == "posted"
    forge.comments, forge.asked, forge.user = [], [], BOT
    forge.scripted = [Reply(502, {"message": "busy"}), None, Reply(502, {"message": "busy"})]
    with pytest.raises(ForgeError, match="answers 502") as caught:
        post(on_gitlab(forge), TEXT)
    assert caught.value.fix == "run it again later"
    assert len(forge.written()) == 1


REFUSALS = [
    (401, {"message": "Bad credentials"}, "has expired: give the job GITHUB_TOKEN: ${{ github.token }}"),
    (403, {"message": "Resource not accessible by integration"}, "pull-requests: write"),
    (403, {"message": f"Resource not accessible by integration {TOKEN}"}, "workflow_run"),
    (403, "<html><title>Blocked</title></html>", "A proxy"),
    (404, {"message": "Not Found"}, "--repository and --number"),
    (410, {"message": "Issues are disabled for this repo"}, "turned off"),
]


@pytest.mark.parametrize(("status", "body", "advice"), REFUSALS)
def test_a_refusal_of_github_says_what_to_do(forge: FakeForge, status: int, body: object, advice: str) -> None:
    """A fork's token above all, which no setting of the job changes; a page is not one of GitHub."""
    error = refusal(forge, on_github(forge), Reply(status, body))
    assert f"answers {status}" in error.what
    assert advice in (error.fix or "")


REFUSALS_OF_GITLAB = [
    (401, {"message": "401 Unauthorized"}, "project access token"),
    (403, {"error": "insufficient_scope", "error_description": "higher privileges"}, "its scope must be api"),
    (403, {"message": "403 Forbidden"}, "A job of a fork"),
    (404, {"message": "404 Project Not Found"}, "--repository and --number"),
]


@pytest.mark.parametrize(("status", "body", "advice"), REFUSALS_OF_GITLAB)
def test_a_refusal_of_gitlab_says_what_to_do(forge: FakeForge, status: int, body: object, advice: str) -> None:
    """Which token to make, and what it must be allowed."""
    assert advice in (refusal(forge, on_gitlab(forge), Reply(status, body)).fix or "")


@pytest.mark.parametrize("body", [{"message": "x"}, "x", [1], [{"id": "x", "body": MARKER}], "<html>Log in</html>"])
def test_an_answer_of_another_service_is_an_error_of_ours(forge: FakeForge, body: object) -> None:
    """A proxy or the page of a login answers with 200; what has no comments has none of ours."""
    for request in (on_github(forge), on_gitlab(forge)):
        forge.user, forge.comments = ME, []
        forge.scripted = [Reply(200, body)]
        fix = _fix_of(request)
        assert fix is None or "--api" in fix


def _fix_of(request: GitHub | GitLab) -> str | None:
    """Return what the error of a search says to do next; ``None`` where it found nothing."""
    try:
        assert find(request, TEXT) is None
    except ForgeError as error:
        return error.fix or ""
    return None


def test_no_answer_says_what_may_be_wrong(forge: FakeForge) -> None:
    """A connection that is closed, or that nobody takes."""
    error = refusal(forge, on_gitlab(forge), *[Reply(200, [], drops=True)] * 9)
    assert "does not answer" in error.what
    assert "--api" in (error.fix or "")
    with pytest.raises(ForgeError, match="does not answer"):
        find(GitLab("http://127.0.0.1:9", TOKEN, "5", 11), TEXT)


@pytest.mark.parametrize(
    "name", ["models", "me/", "me/models/x", "me/mo dels", "../x/y", "../x", "me/..", "me/models?x=1"]
)
def test_no_other_path_is_asked_for_on_github(name: str) -> None:
    """A repository is owner/name."""
    with pytest.raises(UsageError, match="no repository of GitHub"):
        GitHub("https://x", TOKEN, name, 1)


@pytest.mark.parametrize("name", ["models", "a b/c", "../x", "5/../6", "a?b/c"])
def test_no_other_path_is_asked_for_on_gitlab(name: str) -> None:
    """A project is its id, or its path with its group."""
    with pytest.raises(UsageError, match="no project of GitLab"):
        GitLab("https://x", TOKEN, name, 1)


@pytest.mark.parametrize("api", ["", "api.github.com", "file:///etc/passwd", "https://me:secret@x", "https://", "x y"])
def test_an_address_that_is_none_is_refused(api: str) -> None:
    """Before anything is sent, and without the password in it."""
    with pytest.raises(UsageError, match="no address of an API") as caught:
        GitHub(api, TOKEN, "me/models", 1)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "a\nHost: x", "tökén"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    """It would be a header of its own, and is not repeated."""
    with pytest.raises(UsageError, match="characters that no token has") as caught:
        GitLab("https://x", token, "5", 1)
    assert not token or token not in str(caught.value)


def test_a_name_is_part_of_the_first_line() -> None:
    """So that each job finds its own; a file of either command will do."""
    assert named(TEXT, "") == TEXT
    assert named(TEXT, "gpu-a10") == "<!-- pytest-quant comment gpu-a10 -->\n**PASS**\n"
    assert named("<!-- pytest-quant compare -->\r\nx\r\n", "").splitlines() == ["<!-- pytest-quant compare -->", "x"]


@pytest.mark.parametrize("text", ["", "# Report\n", "<!-- other -->\n", "<!-- pytest-quant comment --> x\n"])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    """It could never be found again."""
    with pytest.raises(UsageError, match="no comment of pytest-quant") as caught:
        named(text, "")
    assert "--quant-markdown" in (caught.value.fix or "")


@pytest.mark.parametrize("name", ["a b", "-->", "x\ny"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """It would end the marker."""
    with pytest.raises(UsageError, match="--name is no name"):
        named(TEXT, name)


EVENTS = [
    ({"pull_request": {"number": 5}}, 5),
    ({"number": 6, "pull_request": {}}, 6),
    ({"issue": {"number": 7, "pull_request": {}}}, 7),
    ({"workflow_run": {"pull_requests": [{"number": 8}]}}, 8),
    ({"workflow_run": {"pull_requests": []}}, None),
    ({"ref": "refs/heads/main"}, None),
    ({"number": "9"}, None),
    ([], None),
]


@pytest.mark.parametrize(("event", "number"), EVENTS)
def test_the_number_is_in_what_started_the_job(tmp_path: Path, event: Any, number: int | None) -> None:
    """Of a pull request, a comment on one, or the run of another workflow."""
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event))
    assert number_on_github({"GITHUB_EVENT_PATH": str(file), "GITHUB_REF": "refs/heads/main"}) == number


def test_the_ref_of_a_pull_request_has_its_number(tmp_path: Path) -> None:
    """Without a file; in a file that is damaged or missing there is none."""
    assert number_on_github({"GITHUB_REF": "refs/pull/17/merge"}) == 17
    (tmp_path / "event.json").write_text("{")
    for name in ("event.json", "none.json"):
        assert number_on_github({"GITHUB_EVENT_PATH": str(tmp_path / name)}) is None
    assert number_on_github({}) is None
