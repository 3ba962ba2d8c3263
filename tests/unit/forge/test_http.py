"""One request: its answer as JSON, or an error that says what to do and never holds the token."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.forge.http import Api, RefusedError
from tests.support.forge_server import FakeForge, Reply, serving

TOKEN = "ghs_Geh3imGeh3imGeh3im"  # noqa: S105 - it is looked for in what is said
NOW = 1_700_000_000.0


def api(forge: FakeForge, **more: Any) -> Api:
    """The forge's API, at a time that is known."""
    return Api(forge.address, {"Authorization": f"Bearer {TOKEN}"}, TOKEN, now=lambda: NOW, **more)


def refused(forge: FakeForge, reply: Reply) -> RefusedError:
    """The error that an answer becomes."""
    forge.scripted = [reply]
    with pytest.raises(RefusedError) as caught:
        api(forge).request("GET", "/x")
    assert TOKEN not in str(caught.value)
    return caught.value


def test_json_goes_there_and_comes_back(forge: FakeForge) -> None:
    """With the headers of every request, and their names in small letters in the answer."""
    forge.scripted = [Reply(201, {"id": 7}, {"X-Next-Page": "2"})]
    found = api(forge).request("POST", "/a?b=c", {"body": "text \u2028 \U0001f600"})
    assert (found.data, found.headers["x-next-page"]) == ({"id": 7}, "2")
    (asked,) = forge.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/a?b=c", {"body": "text \u2028 \U0001f600"})
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["Content-Type"] == "application/json"


STATUSES = [
    (401, {"message": "Bad credentials", "documentation_url": "x", "status": "401"}, "Bad credentials", None),
    (403, {"message": "Resource not accessible by integration"}, "Resource not accessible by integration", None),
    (404, {"message": "Not Found"}, "Not Found", None),
    (
        422,
        {
            "message": "Validation Failed",
            "errors": [
                {
                    "resource": "IssueComment",
                    "code": "unprocessable",
                    "field": "data",
                    "message": "Body is too long (maximum is 65536 characters)",
                }
            ],
        },
        "Validation Failed; Body is too long (maximum is 65536 characters)",
        None,
    ),
    (
        403,
        {"error": "insufficient_scope", "error_description": "higher privileges"},
        "insufficient_scope; higher",
        None,
    ),
    (400, {"message": {"body": ["is too long"]}}, '{"body": ["is too long"]}', None),
    (422, {"message": "Validation Failed", "errors": "Body is blank"}, "Validation Failed; Body is blank", None),
    (422, {"message": "Validation Failed", "errors": 5}, "Validation Failed; 5", None),
    (500, {"message": "500 Internal Server Error"}, "500 Internal", 1.0),
    (502, "<html><head><title>502 Bad Gateway</title></head></html>", "a page of HTML: 502 Bad Gateway", 1.0),
    (503, "", "", 1.0),
    (403, "<html><body><p>Blocked by the proxy</p></body></html>", "Blocked by the proxy", None),
]


@pytest.mark.parametrize(("status", "body", "said", "wait_s"), STATUSES)
def test_a_status_is_told_with_what_the_forge_says(
    forge: FakeForge, status: int, body: Any, said: str, wait_s: float | None
) -> None:
    """The message of JSON, else the text of the page; what may pass can be asked again."""
    error = refused(forge, Reply(status, body))
    assert f"answers {status} to GET /x" in error.what
    assert said in (error.value or "")
    assert (error.status, error.wait_s) == (status, wait_s)


LIMITS = [
    (429, {"Retry-After": "7"}, {}, 7.0),
    (403, {"Retry-After": "7"}, {}, 7.0),
    (503, {"Retry-After": format_datetime(datetime.fromtimestamp(NOW + 30, UTC), usegmt=True)}, {}, 30.0),
    (503, {"Retry-After": "soon"}, {}, 1.0),
    (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 90)}, {}, 90.0),
    (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": str(int(NOW) + 20)}, {}, 20.0),
    (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) - 5)}, {}, 1.0),
    (403, {"X-RateLimit-Remaining": "59"}, {"message": "Forbidden"}, None),
    (403, {}, {"message": "You have exceeded a secondary rate limit. Please wait a few minutes"}, 60.0),
    (404, {"Retry-After": "7"}, {}, None),
]


@pytest.mark.parametrize(("status", "headers", "body", "wait_s"), LIMITS)
def test_a_limit_on_requests_says_for_how_long(
    forge: FakeForge, status: int, headers: dict[str, str], body: dict[str, str], wait_s: float | None
) -> None:
    """In seconds, as a date, or as the time when it ends; where nothing is told GitHub asks for a minute."""
    assert refused(forge, Reply(status, body, headers)).wait_s == wait_s


def test_a_page_in_the_place_of_json_is_told(forge: FakeForge) -> None:
    """A proxy or the page of a login answers with 200."""
    error = refused(forge, Reply(200, "<html><head><title>Sign in &amp; go on</title></head><body>x</body></html>"))
    assert "answers 200 with no JSON" in error.what
    assert error.value == "a page of HTML: Sign in & go on"
    assert "--api" in (error.fix or "")


@pytest.mark.parametrize("status", [401, 403, 404, 407])
def test_a_refusal_by_what_stands_before_the_forge_is_not_taken_for_its_own(forge: FakeForge, status: int) -> None:
    """A proxy writes a page; where the forge itself refuses, in JSON, only it can be told what the token lacks."""
    assert "proxy" in (refused(forge, Reply(status, "<html><title>Blocked</title></html>")).fix or "")
    assert refused(forge, Reply(status, {"message": "Forbidden"})).fix is None


@pytest.mark.parametrize("reply", ["<title>" + "x" * 280 + TOKEN + "</title>", json.dumps({"message": TOKEN})])
def test_no_message_repeats_the_token(forge: FakeForge, reply: str) -> None:
    """Though a server does, and also where its text is cut."""
    for status in (200, 403):
        error = refused(forge, Reply(status, reply if status == 403 else f"<html>{TOKEN}"))
        assert TOKEN[:12] not in str(error)


def test_an_escape_in_an_answer_does_not_reach_the_terminal(forge: FakeForge) -> None:
    """Nor does a command to a CI service."""
    error = refused(forge, Reply(403, {"message": "\x1b[31m\n::error::x ##[error]y"}))
    assert "\x1b" not in str(error)
    assert "##[" not in str(error)


def test_a_redirect_within_the_forge_is_followed_with_the_same_request(forge: FakeForge) -> None:
    """As GitHub asks for a repository that was renamed."""
    forge.scripted = [Reply(307, {}, {"Location": "/repositories/1/issues/12/comments"}), Reply(201, {"id": 1})]
    assert api(forge).request("POST", "/old", {"body": "text"}).data == {"id": 1}
    first, second = forge.asked
    assert (second.method, second.path) == ("POST", "/repositories/1/issues/12/comments")
    assert first.body == second.body == {"body": "text"}


def test_no_other_host_gets_the_token(forge: FakeForge) -> None:
    """A redirect there is an error."""
    with serving() as stranger:
        error = refused(forge, Reply(302, {}, {"Location": f"{stranger.address}/steal"}))
        assert "another host" in error.what
        assert stranger.asked == []


def test_redirects_end(forge: FakeForge) -> None:
    """Though the forge does not end them."""
    forge.scripted = [Reply(301, {}, {"Location": "/x"})] * 10
    with pytest.raises(RefusedError, match="answers 301"):
        api(forge).request("GET", "/x")
    assert len(forge.asked) == 3


def test_no_answer_says_what_may_be_wrong(forge: FakeForge) -> None:
    """A connection that is refused, one that is closed, and one that says nothing for too long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        late = Api(f"http://127.0.0.1:{silent.getsockname()[1]}", {}, TOKEN, timeout_s=0.05)
        with pytest.raises(RefusedError, match=r"does not answer: no answer within 0.05 s") as caught:
            late.request("GET", "/x")
    assert caught.value.wait_s is not None
    assert "HTTPS_PROXY" in (caught.value.fix or "")
    assert "does not answer" in refused(forge, Reply(200, {}, drops=True)).what
    gone = FakeForge(address=late.base)
    with pytest.raises(RefusedError, match="does not answer"):
        api(gone).request("GET", "/x")


@pytest.mark.parametrize(
    "base", ["ftp://x", "file:///etc/passwd", "api.github.com", "https://", "", "http://[x", "https://me:pw@x"]
)
def test_an_address_that_is_none_is_refused(base: str) -> None:
    """Before anything is sent; urllib would open files."""
    with pytest.raises(UsageError, match="no address of an API"):
        Api(base, {}, TOKEN)


@pytest.mark.parametrize("token", ["two words", "line\nX-Evil: 1", "\u2603", ""])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    """It would be a header of its own, and is not repeated."""
    with pytest.raises(UsageError, match="the token has characters") as caught:
        Api("https://x", {}, token)
    assert not token or token not in str(caught.value)
