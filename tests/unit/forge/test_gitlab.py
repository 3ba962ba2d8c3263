"""GitLab's merge requests: pages by ``X-Next-Page``, whose note it is, and which token may write it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.forge.comment import find, post
from pytest_quant.forge.gitlab import GitLab, api_of
from pytest_quant.forge.http import RefusedError
from tests.support.forge_server import FakeForge, Reply

MARKER = "<!-- pytest-quant comment -->"
BOT = {"id": 31, "username": "project_5_bot_x"}


def gitlab(forge: FakeForge, project: str = "5", *, by_job: bool = False) -> GitLab:
    """The merge request on that forge."""
    api = api_of({"CI_API_V4_URL": f"{forge.address}/api/v4"}, None, "glpat-x", by_job=by_job)
    return GitLab(api, project, 11, by_job=by_job)


def notes(number: int, author: dict[str, Any], body: str = "text", *, system: bool = False) -> list[dict[str, Any]]:
    """Notes as the API lists them."""
    return [{"id": one, "body": body, "author": author, "system": system} for one in range(1, number + 1)]


@pytest.mark.parametrize("project", ["5", "group/models"])
def test_it_is_posted_and_then_updated(forge: FakeForge, project: str) -> None:
    """By the token of the project, whose path is one word of the address."""
    forge.user = BOT
    for body, did in (("one", "posted"), ("two", "updated")):
        assert post(gitlab(forge, project), f"{MARKER}\n{body}", lambda _: None, lambda _: None).did == did
    assert [one["body"] for one in forge.comments] == [f"{MARKER}\ntwo"]
    path = f"/api/v4/projects/{project.replace('/', '%2F')}/merge_requests/11/notes"
    assert forge.written() == [f"POST {path}", f"PUT {path}/1001"]
    assert forge.asked[0].headers["Private-Token"] == "glpat-x"


@pytest.mark.parametrize("before", [0, 99, 100, 250])
def test_it_is_found_on_every_page(forge: FakeForge, before: int) -> None:
    """The largest page has a hundred."""
    forge.user = BOT
    forge.comments = [*notes(before, {"id": 1}), {"id": 5000, "body": f"{MARKER}\nold", "author": BOT}]
    found = find(gitlab(forge), MARKER)
    assert found is not None
    assert found.id == 5000


def test_a_proxy_that_leaves_headers_out_hides_no_page(forge: FakeForge) -> None:
    """``Link`` has the next page too."""
    forge.user = BOT
    forge.scripted = [Reply(200, notes(1, BOT), {"Link": '<https://x/?page=2>; rel="next"'})]
    forge.comments = [*notes(100, {"id": 1}), {"id": 5000, "body": f"{MARKER}\nold", "author": BOT}]
    assert find(gitlab(forge), MARKER) is not None


@pytest.mark.parametrize(("author", "system"), [({"id": 30}, False), (BOT, True), (None, False)])
def test_only_an_own_note_is_taken(forge: FakeForge, author: Any, system: bool) -> None:
    """And none that GitLab wrote itself."""
    forge.user = BOT
    forge.comments = notes(1, author, f"{MARKER}\nold", system=system)
    assert find(gitlab(forge), MARKER) is None


ADVICE = [
    (401, {"message": "401 Unauthorized"}, "project access token"),
    (403, {"error": "insufficient_scope", "error_description": "higher privileges"}, "its scope must be api"),
    (403, {"message": "403 Forbidden"}, "A job of a fork"),
    (404, {"message": "404 Project Not Found"}, "--repository and --number"),
]


@pytest.mark.parametrize(("status", "body", "advice"), ADVICE)
def test_a_refusal_says_what_to_do(forge: FakeForge, status: int, body: Any, advice: str) -> None:
    """Which token to make, and what it must be allowed."""
    forge.scripted = [Reply(status, body)]
    with pytest.raises(RefusedError) as caught:
        gitlab(forge).page(1)
    assert advice in (caught.value.fix or "")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_the_token_of_a_job_is_explained(forge: FakeForge, status: int) -> None:
    """GitLab lets it neither read nor write notes; it goes in a header of its own."""
    forge.scripted = [Reply(status, {"message": f"{status} Unauthorized"})]
    with pytest.raises(RefusedError) as caught:
        gitlab(forge, by_job=True).page(1)
    assert "CI_JOB_TOKEN" in (caught.value.fix or "")
    assert "GITLAB_TOKEN" in (caught.value.fix or "")
    assert forge.asked[0].headers["Job-Token"] == "glpat-x"
    assert "Private-Token" not in forge.asked[0].headers


@pytest.mark.parametrize("name", ["models", "a b/c", "../x", "5/../6", "a?b/c"])
def test_no_other_path_is_asked_for(name: str) -> None:
    """A project is its id, or its path with its group."""
    with pytest.raises(UsageError, match="no project of GitLab"):
        GitLab(api_of({}, "https://x", "t", by_job=False), name, 1, by_job=False)
