"""GitHub's pull requests: pages by ``Link``, whose comment it is, and what to do about each refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.forge.comment import find, post
from pytest_quant.forge.github import GitHub, api_of, number_of
from pytest_quant.forge.http import RefusedError
from tests.support.forge_server import FakeForge, Reply

MARKER = "<!-- pytest-quant comment -->"
BOT = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
ME = {"login": "me", "id": 7, "type": "User"}


def github(forge: FakeForge) -> GitHub:
    """The pull request on that forge."""
    return GitHub(api_of({"GITHUB_API_URL": forge.address}, None, "ghs_x"), "me/models", 12)


def comments(number: int, user: dict[str, Any] = ME, body: str = "text") -> list[dict[str, Any]]:
    """Comments as the API lists them."""
    return [{"id": one, "body": body, "user": user, "html_url": f"https://x/{one}"} for one in range(1, number + 1)]


def told(forge: FakeForge, reply: Reply) -> RefusedError:
    """The error that an answer to the list becomes."""
    forge.scripted = [reply]
    with pytest.raises(RefusedError) as caught:
        github(forge).page(1)
    return caught.value


def test_it_is_posted_and_then_updated(forge: FakeForge) -> None:
    """By a job of Actions, whose token may not ask who it is; the address for a browser is told."""
    for body, did in (("one", "posted"), ("two", "updated"), ("three", "updated")):
        done = post(github(forge), f"{MARKER}\n{body}", lambda _: None, lambda _: None)
        assert (done.did, "#issuecomment-1001" in done.address) == (did, True)
    assert [one["body"] for one in forge.comments] == [f"{MARKER}\nthree"]
    path = "/repos/me/models/issues"
    assert forge.written() == [f"POST {path}/12/comments", *[f"PATCH {path}/comments/1001"] * 2]
    headers = forge.asked[0].headers
    assert headers["Authorization"] == "Bearer ghs_x"
    assert headers["X-Github-Api-Version"] == "2022-11-28"
    assert headers["Accept"] == "application/vnd.github+json"


@pytest.mark.parametrize("before", [0, 99, 100, 250])
def test_it_is_found_on_every_page(forge: FakeForge, before: int) -> None:
    """The first page has a hundred."""
    forge.comments = comments(before)
    forge.comments.append({"id": 5000, "body": f"{MARKER}\nold", "user": BOT, "html_url": "https://x/5000"})
    found = find(github(forge), MARKER)
    assert found is not None
    assert found.id == 5000
    pages = [one for one in forge.asked if "/comments?" in one.path]
    assert len(pages) == before // 100 + 1


@pytest.mark.parametrize(
    ("user", "writer", "mine"),
    [(ME, ME, True), (ME, BOT, False), (None, BOT, True), (None, ME, False), (ME, {"login": "you"}, False)],
)
def test_only_an_own_comment_is_taken(forge: FakeForge, user: Any, writer: dict[str, Any], mine: bool) -> None:
    """That of the user of the token; that of a bot, where the token is that of a job."""
    forge.user = user
    forge.comments = comments(1, writer, f"{MARKER}\nold")
    found = find(github(forge), MARKER)
    assert (found is not None) is mine


def test_who_it_is_is_asked_once_and_only_where_it_matters(forge: FakeForge) -> None:
    """Requests are limited."""
    forge.comments = comments(120)
    find(github(forge), MARKER)
    assert [one.path for one in forge.asked if one.path == "/user"] == []
    forge.comments = comments(3, ME, f"{MARKER}\nold")
    find(github(forge), MARKER)
    assert len([one.path for one in forge.asked if one.path == "/user"]) == 1


ADVICE = [
    (401, {"message": "Bad credentials"}, "has expired: give the job GITHUB_TOKEN: ${{ github.token }}"),
    (403, {"message": "Resource not accessible by integration"}, "pull-requests: write"),
    (403, {"message": "Resource not accessible by integration"}, "workflow_run"),
    (404, {"message": "Not Found"}, "--repository and --number"),
    (410, {"message": "Issues are disabled for this repo"}, "turned off"),
    (422, {"message": "Validation Failed", "errors": [{"message": "Body is too long"}]}, "65536"),
]


@pytest.mark.parametrize(("status", "body", "advice"), ADVICE)
def test_a_refusal_says_what_to_do(forge: FakeForge, status: int, body: Any, advice: str) -> None:
    """A fork's token above all, which no setting of the job changes."""
    assert advice in (told(forge, Reply(status, body)).fix or "")


def test_a_page_of_a_proxy_is_not_taken_for_a_missing_right(forge: FakeForge) -> None:
    """No permission of the job would help."""
    error = told(forge, Reply(403, "<html><title>Blocked</title></html>"))
    assert "proxy" in (error.fix or "")
    assert "permissions" not in (error.fix or "")


def test_a_limit_on_requests_is_not_taken_for_a_missing_right(forge: FakeForge) -> None:
    """Both are 403."""
    error = told(forge, Reply(403, {"message": "API rate limit exceeded"}, {"Retry-After": "3000"}))
    assert (error.wait_s, error.fix) == (3000.0, "run it again, in 3000 s or later")


@pytest.mark.parametrize(
    "name", ["models", "me/", "me/models/x", "me/mo dels", "../x/y", "../x", "me/..", "me/models?x=1"]
)
def test_no_other_path_is_asked_for(name: str) -> None:
    """A repository is owner/name."""
    with pytest.raises(UsageError, match="no repository of GitHub"):
        GitHub(api_of({}, "https://x", "t"), name, 1)


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
    assert number_of({"GITHUB_EVENT_PATH": str(file), "GITHUB_REF": "refs/heads/main"}) == number


def test_the_ref_of_a_pull_request_has_its_number(tmp_path: Path) -> None:
    """Without a file; a file that is damaged or missing tells none."""
    assert number_of({"GITHUB_REF": "refs/pull/17/merge"}) == 17
    (tmp_path / "event.json").write_text("{")
    for name in ("event.json", "none.json"):
        assert number_of({"GITHUB_EVENT_PATH": str(tmp_path / name)}) is None
    assert number_of({}) is None
