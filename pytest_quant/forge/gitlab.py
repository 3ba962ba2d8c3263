"""Comments of a merge request on GitLab, which are its notes. See "Notes API" of GitLab's documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from pytest_quant.errors import UsageError
from pytest_quant.forge.comment import BEGINNING, PER_PAGE, Comment, listed
from pytest_quant.forge.http import Answer, Api, RefusedError

DEFAULT_API = "https://gitlab.com/api/v4"

TOKEN, JOB_TOKEN = "GITLAB_TOKEN", "CI_JOB_TOKEN"

_MAKE_ONE = (
    "make a project access token with the role Developer and the scope api, and give it to the job as the masked "
    "variable GITLAB_TOKEN"
)

_ADVICE = {
    401: f"the token is wrong or has expired: {_MAKE_ONE}",
    403: f"the token may not write here; its scope must be api: {_MAKE_ONE}. A job of a fork does not get variables of "
    "this project: run the pipeline of its merge request here",
    404: "there is no such merge request, or the token does not see the project: look at --repository and --number",
    413: "the comment is too long for this server",
    422: "GitLab takes notes of up to 1000000 characters; files of --quant-markdown are shorter",
}

_FOR_A_JOB = f"GitLab lets CI_JOB_TOKEN neither read nor write notes: {_MAKE_ONE}"


class GitLab:
    """One merge request.

    Parameters
    ----------
    api : of GitLab, see `api_of`.
    project : its id, or its path with its namespace.
    number : of the merge request in the project, its ``iid``.
    by_job : the token is that of a job, which GitLab lets do little.

    Raises
    ------
    UsageError : it is no project.
    """

    def __init__(self, api: Api, project: str, number: int, *, by_job: bool) -> None:
        if not re.fullmatch(r"\d+|\w[\w.-]*(/\w[\w.-]*)+", project):
            raise UsageError("this is no project of GitLab", value=project, allowed="its id, or group/name")
        self._api = api
        self._project = project
        self._number = number
        self._notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
        self._advice = _ADVICE | dict.fromkeys((401, 403, 404), _FOR_A_JOB) if by_job else _ADVICE

    @property
    def where(self) -> str:
        """The merge request in words."""
        return f"{self._project}, merge request {self._number}"

    def page(self, number: int) -> tuple[list[Comment], int | None]:
        """Return the notes of a page, oldest first, and the number of the next one as ``X-Next-Page`` has it."""
        path = f"{self._notes}?sort=asc&order_by=created_at&per_page={PER_PAGE}&page={number}"
        answer = self._ask("GET", path)
        found = [self._comment(one) for one in listed(answer.data, self.where) if not one.get("system")]
        told = answer.headers.get("x-next-page", "")
        if told.isdecimal():
            return found, int(told)
        return found, number + 1 if 'rel="next"' in answer.headers.get("link", "") else None

    def create(self, body: str) -> str:
        """Post a note; its address is not told."""
        self._ask("POST", self._notes, {"body": body})
        return ""

    def update(self, comment: Comment, body: str) -> str:
        """Replace the body of a note."""
        self._ask("PUT", f"{self._notes}/{comment.id}", {"body": body})
        return ""

    def _comment(self, data: Mapping[str, Any]) -> Comment:
        author, body = data.get("author"), str(data.get("body") or "")
        mine = body.startswith(BEGINNING) and isinstance(author, dict) and author.get("id") == self._own_id
        return Comment(data["id"], body, "", mine)

    @cached_property
    def _own_id(self) -> int:
        """Who writes with this token: a user, or the bot of a project or group."""
        data = self._ask("GET", "/user").data
        found = data.get("id") if isinstance(data, dict) else None
        return found if type(found) is int else -1

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Answer:
        try:
            return self._api.request(method, path, body)
        except RefusedError as error:
            raise error.advised(self._advice) from None


def api_of(environ: Mapping[str, str], base: str | None, token: str, *, by_job: bool) -> Api:
    """Return the API of GitLab, as CI names it.

    Parameters
    ----------
    environ : variables of the process.
    base : address that was asked for; ``None`` for the one of CI.
    token : of GitLab.
    by_job : it is that of a job, which has a header of its own.
    """
    headers = {"JOB-TOKEN" if by_job else "PRIVATE-TOKEN": token}
    return Api(base or environ.get("CI_API_V4_URL") or DEFAULT_API, headers, token)
