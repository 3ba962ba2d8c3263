"""Comments of a pull request on GitHub, which are those of the issue with its number.

See "REST API endpoints for issue comments" of GitHub's documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_quant.environment import ci_pull_request
from pytest_quant.errors import UsageError
from pytest_quant.forge.comment import BEGINNING, PER_PAGE, Comment, listed
from pytest_quant.forge.http import Answer, Api, RefusedError

DEFAULT_API = "https://api.github.com"

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")

_ADVICE = {
    401: "the token is wrong or has expired: give the job GITHUB_TOKEN: ${{ github.token }} under env",
    403: "the token may not write: give the job 'permissions: pull-requests: write'. For a pull request from a fork it "
    "may only read, whatever the job asks for: let a second workflow, on workflow_run, post the file that this one has "
    "uploaded, or read the summary of the step",
    404: "there is no such pull request, or the token does not see the repository: look at --repository and --number",
    410: "comments are turned off there",
    422: "GitHub takes comments of up to 65536 characters; files of --quant-markdown are shorter",
}


class GitHub:
    """One pull request.

    Parameters
    ----------
    api : of GitHub, see `api_of`.
    repository : ``owner/name``.
    number : of the pull request.

    Raises
    ------
    UsageError : it is no name of a repository.
    """

    def __init__(self, api: Api, repository: str, number: int) -> None:
        if not re.fullmatch(r"[\w-]+/(?!\.{1,2}$)[\w.-]+", repository, re.ASCII):
            raise UsageError("this is no repository of GitHub", value=repository, allowed="owner/name")
        self._api = api
        self._repository = repository
        self._number = number

    @property
    def where(self) -> str:
        """The pull request in words."""
        return f"{self._repository}, pull request {self._number}"

    def page(self, number: int) -> tuple[list[Comment], int | None]:
        """Return the comments of a page, and the number of the next one where the header ``Link`` has one."""
        path = f"/repos/{self._repository}/issues/{self._number}/comments?per_page={PER_PAGE}&page={number}"
        answer = self._ask("GET", path)
        found = listed(answer.data, self.where)
        more = 'rel="next"' in answer.headers.get("link", "")
        return [self._comment(one) for one in found], number + 1 if more else None

    def create(self, body: str) -> str:
        """Post a comment."""
        path = f"/repos/{self._repository}/issues/{self._number}/comments"
        return _address(self._ask("POST", path, {"body": body}).data)

    def update(self, comment: Comment, body: str) -> str:
        """Replace the body of a comment."""
        path = f"/repos/{self._repository}/issues/comments/{comment.id}"
        return _address(self._ask("PATCH", path, {"body": body}).data)

    def _comment(self, data: Mapping[str, Any]) -> Comment:
        body = str(data.get("body") or "")
        mine = body.startswith(BEGINNING) and self._wrote(data.get("user"))
        return Comment(data["id"], body, _address(data), mine)

    def _wrote(self, user: Any) -> bool:
        if not isinstance(user, dict):
            return False
        return user.get("type") == "Bot" if self._login is None else user.get("login") == self._login

    @cached_property
    def _login(self) -> str | None:
        """Who writes with this token; ``None`` for that of an app, as a job of Actions is, which may not ask."""
        try:
            data = self._api.request("GET", "/user").data
        except RefusedError as error:
            if error.status == 403 and error.wait_s is None:
                return None
            raise error.advised(_ADVICE) from None
        return str(data.get("login")) if isinstance(data, dict) else ""

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Answer:
        try:
            return self._api.request(method, path, body)
        except RefusedError as error:
            raise error.advised(_ADVICE) from None


def api_of(environ: Mapping[str, str], base: str | None, token: str) -> Api:
    """Return the API of GitHub, or of a GitHub Enterprise Server as CI names it.

    Parameters
    ----------
    environ : variables of the process.
    base : address that was asked for; ``None`` for the one of CI.
    token : of GitHub.
    """
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return Api(base or environ.get("GITHUB_API_URL") or DEFAULT_API, headers, token)


def number_of(environ: Mapping[str, str]) -> int | None:
    """Return the pull request that a job of GitHub Actions is about, from its ref or from what started it."""
    told = ci_pull_request({"GITHUB_REF": environ.get("GITHUB_REF", "")})
    if told is not None:
        return int(told)
    try:
        event = json.loads(Path(environ.get("GITHUB_EVENT_PATH", "")).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return _number_in(event)


def _number_in(event: Any) -> int | None:
    if not isinstance(event, dict):
        return None
    asked = [event.get("pull_request"), event.get("issue"), event]
    run = event.get("workflow_run")
    asked += (run.get("pull_requests") or []) if isinstance(run, dict) else []
    numbers = (one.get("number") for one in asked if isinstance(one, dict))
    return next((number for number in numbers if type(number) is int), None)


def _address(data: Any) -> str:
    return str(data.get("html_url") or "") if isinstance(data, dict) else ""
