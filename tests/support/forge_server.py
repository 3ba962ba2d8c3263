"""A server that speaks the shapes of GitHub's and GitLab's APIs as far as comments go: bodies, statuses, headers.

The shapes are those of "REST API endpoints for issue comments" and "Using pagination in the REST API" of GitHub's
documentation, and of "Notes API", "Pagination" and "Rate limits" of GitLab's.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

GITHUB_COMMENTS = re.compile(r"/repos/me/models/issues/12/comments")
GITHUB_COMMENT = re.compile(r"/repos/me/models/issues/comments/(\d+)")
GITLAB_NOTES = re.compile(r"/api/v4/projects/(?:5|group%2Fmodels)/merge_requests/11/notes")
GITLAB_NOTE = re.compile(r"/api/v4/projects/(?:5|group%2Fmodels)/merge_requests/11/notes/(\d+)")


@dataclass(frozen=True)
class Reply:
    """An answer; a `body` that is no text is JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    drops: bool = False


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class FakeForge:
    """What the server knows.

    Attributes
    ----------
    address : of the server.
    comments : of the pull request, oldest first, as the forge keeps them.
    user : who asks; ``None`` for a job of Actions, which GitHub tells by GraphQL only.
    scripted : answers that come before any other, in their order; ``None`` lets a request pass to the forge.
    requests : every request.
    """

    address: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    user: Any = None
    scripted: list[Reply | None] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)

    def written(self) -> list[str]:
        """Return the method and path of each request that writes."""
        writes = [f"{each.method} {urlsplit(each.path).path}" for each in self.requests if each.method != "GET"]
        return [each for each in writes if each != "POST /graphql"]

    def answer(self, request: Asked) -> Reply:
        """Return what the forge answers."""
        self.requests.append(request)
        if self.scripted:
            reply = self.scripted.pop(0)
            if reply is not None:
                return reply
        path = urlsplit(request.path).path
        if path in ("/user", "/api/v4/user"):
            return self._who()
        if path == "/graphql":
            return Reply(200, {"data": {"viewer": self.user or {"login": "github-actions[bot]"}}})
        routes: list[tuple[re.Pattern[str], Callable[[Asked, str], Reply]]] = [
            (GITHUB_COMMENTS, self._github_comments),
            (GITHUB_COMMENT, self._changed),
            (GITLAB_NOTES, self._gitlab_notes),
            (GITLAB_NOTE, self._changed),
        ]
        for pattern, reply_to in routes:
            result = pattern.fullmatch(path)
            if result is not None:
                return reply_to(request, result[result.lastindex or 0])
        not_found = {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"}
        return Reply(404, not_found)

    def _who(self) -> Reply:
        if isinstance(self.user, dict):
            return Reply(200, self.user)
        return Reply(403, {"message": "Resource not accessible by integration", "status": "403"})

    def _github_comments(self, request: Asked, _: str) -> Reply:
        if request.method == "POST":
            return Reply(201, self._with_url(self._made(request.body["body"], "user")))
        page, size, pages = self._page(request)
        address = f"{self.address}{urlsplit(request.path).path}?per_page={size}"
        links = {"next": page + 1, "last": pages} if page < pages else {}
        links |= {"prev": page - 1, "first": 1} if page > 1 else {}
        link = ", ".join(f'<{address}&page={number}>; rel="{name}"' for name, number in links.items())
        listed = [self._with_url(comment) for comment in self._of_page(page, size)]
        return Reply(200, listed, {"Link": link} if link else {})

    def _with_url(self, comment: dict[str, Any]) -> dict[str, Any]:
        """Return a comment of GitHub with the address that its API changes it at."""
        return {"url": f"{self.address}/repos/me/models/issues/comments/{comment['id']}", **comment}

    def _gitlab_notes(self, request: Asked, _: str) -> Reply:
        if request.method == "POST":
            return Reply(201, self._made(request.body["body"], "author"))
        page, size, pages = self._page(request)
        address = f"{self.address}{urlsplit(request.path).path}?per_page={size}"
        link = f'<{address}&page={page + 1}>; rel="next"'
        return Reply(200, self._of_page(page, size), {"Link": link} if page < pages else {})

    def _changed(self, request: Asked, number: str) -> Reply:
        for comment in self.comments:
            if comment["id"] == int(number) and request.method in ("PATCH", "PUT"):
                comment["body"] = request.body["body"]
                return Reply(200, comment)
        return Reply(404, {"message": "404 Not found"})

    def _made(self, body: str, writer: str) -> dict[str, Any]:
        who = self.user if isinstance(self.user, dict) else {"login": "github-actions[bot]", "id": 41898282}
        kind = {"type": "User" if isinstance(self.user, dict) else "Bot"} if writer == "user" else {}
        number = 1 + max((comment["id"] for comment in self.comments), default=1000)
        address = {"html_url": f"{self.address}/me/models/pull/12#issuecomment-{number}"} if writer == "user" else {}
        new_comment = {"id": number, "body": body, "system": False, writer: {**kind, **who}, **address}
        self.comments.append(new_comment)
        return new_comment

    def _page(self, request: Asked) -> tuple[int, int, int]:
        query = parse_qs(urlsplit(request.path).query)
        size = min(100, int(query.get("per_page", ["30"])[0]))
        return int(query.get("page", ["1"])[0]), size, max(1, -(-len(self.comments) // size))

    def _of_page(self, page: int, size: int) -> list[dict[str, Any]]:
        return self.comments[(page - 1) * size : page * size]


class _Server(ThreadingHTTPServer):
    forge: FakeForge


class _Handler(BaseHTTPRequestHandler):
    def _reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        request = Asked(self.command, self.path, dict(self.headers.items()), json.loads(content) if content else None)
        reply = cast(_Server, self.server).forge.answer(request)
        if reply.drops:
            self.close_connection = True
            self.connection.close()
            return
        data = reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()
        kind = "text/html" if isinstance(reply.body, str) else "application/json; charset=utf-8"
        self.send_response(reply.status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = _reply  # noqa: N815 - as the base class calls them

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def serving() -> Iterator[FakeForge]:
    """Give a forge that answers on this machine until the block ends."""
    forge = FakeForge()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.forge = forge
        forge.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join()
