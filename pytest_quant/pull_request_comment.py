"""One comment of a pull request that is kept up to date: by PyGithub on GitHub, by python-gitlab on GitLab.

It is found again by its first line. Requests that only read are repeated where a server is busy; one that writes is
sent once, because a second one could post the comment twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pytest_quant.environment import ci_pull_request
from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.printable import HIDDEN, redact_address

GITHUB_API, GITLAB_API = "https://api.github.com", "https://gitlab.com/api/v4"
GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
GITLAB_TOKEN = "GITLAB_TOKEN"  # nosec B105 # noqa: S105 - the name of a variable

_BEGINNING = "<!-- pytest-quant "
"""Of the first line of every comment of ours, which anybody may copy."""

_MARKER = re.compile(r"<!-- pytest-quant (?P<what>[\w.-]+(?: [\w.-]+)*) -->")
_NAME = re.compile(r"[\w.-]+")
_PER_PAGE, _TIMEOUT_S, _RETRIES, _LONGEST_WAIT_S = 100, 30, 3, 120.0
_MOST_SHOWN = 300
_TOO_MANY = 429
"""The first of the statuses that may pass."""

_GITHUB_ADVICE = {
    401: "the token is wrong or has expired: give the job GITHUB_TOKEN: ${{ github.token }} under env",
    403: "the token may not write: give the job 'permissions: pull-requests: write'. For a pull request from a fork it "
    "may only read, whatever the job asks for: let a second workflow, on workflow_run, post the file that this one has "
    "uploaded, or read the summary of the step",
    404: "there is no such pull request, or the token does not see the repository: look at --repository and --number",
    410: "comments are turned off there",
    422: "GitHub takes comments of up to 65536 characters; files of --quant-markdown are shorter",
}
HOW_TO_WRITE_NOTES = (
    "make a project access token with the role Developer and the scope api, and give it to the job as the masked "
    "variable GITLAB_TOKEN"
)
_GITLAB_ADVICE = {
    401: f"the token is wrong or has expired: {HOW_TO_WRITE_NOTES}",
    403: f"the token may not write here; its scope must be api: {HOW_TO_WRITE_NOTES}. A job of a fork does not get "
    "variables of this project: run the pipeline of its merge request here",
    404: "there is no such merge request, or the token does not see the project: look at --repository and --number",
}
_API = "is --api right, and may this runner reach it? A proxy or the page of a login may have answered in its place"


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that the owner of the token has written.

    Attributes
    ----------
    address : for a browser; empty on GitLab, which does not tell it.
    edit : replaces the body. Raises `ForgeError`.
    """

    id: int
    body: str
    address: str
    edit: Callable[[str], object]


def named(text: str, name: str) -> str:
    """Return a comment whose first line has `name` too, so that several jobs each keep a comment of their own.

    Parameters
    ----------
    text : as ``--quant-markdown`` or ``pytest-quant compare --markdown`` writes it.
    name : letters, digits, points, dashes; empty for the comment without a name.

    Raises
    ------
    UsageError : the text does not begin as they do, or it is no name.
    """
    first, _, rest = text.lstrip("\ufeff").partition("\n")
    marker = _MARKER.fullmatch(first.strip())
    if marker is None:
        raise UsageError(
            "this is no comment of pytest-quant: its first line is not the one by which it is found again",
            value=first[:80] or "an empty file",
            fix="write it with: pytest --quant-markdown FILE, or: pytest-quant compare --markdown",
        )
    if name and not _NAME.fullmatch(name):
        raise UsageError(
            "--name is no name", value=name, allowed="letters, digits, points and dashes", fix="--name gpu"
        )
    return f"<!-- pytest-quant {marker['what']}{f' {name}' if name else ''} -->\n{rest}"


def find(request: GitHub | GitLab, text: str) -> Comment | None:
    """Return the first own comment with the first line of `text`; ``None`` where there is none. Raises `ForgeError`."""
    marker = text.partition("\n")[0]
    return next((comment for comment in request.comments() if comment.body.splitlines()[:1] == [marker]), None)


def post(request: GitHub | GitLab, text: str) -> tuple[str, str]:
    """Update the own comment with the first line of `text`, or post it where there is none.

    Returns ``posted`` or ``updated``, and the address of the comment where it is known.

    Raises
    ------
    ForgeError : it was refused, or there was no answer.
    """
    comment = find(request, text)
    if comment is None:
        return "posted", request.create(text)
    comment.edit(text)
    return "updated", comment.address


class GitHub:
    """One pull request on GitHub, or on a GitHub Enterprise Server; `where` is it in words.

    Every method raises `ForgeError` where the server refuses or does not answer.

    Parameters
    ----------
    api : address of the API.
    token : of GitHub; in no message.
    repository : ``owner/name``.
    number : of the pull request.

    Raises
    ------
    UsageError : an address, token or repository is none, or PyGithub is not installed.
    """

    def __init__(self, api: str, token: str, repository: str, number: int) -> None:
        if not re.fullmatch(r"[\w-]+/(?!\.{1,2}$)[\w.-]+", repository, re.ASCII):
            raise UsageError("this is no repository of GitHub", value=repository, allowed="owner/name")
        self.where = f"{repository}, pull request {number}"
        self._server = _Server(_address_of(api), _token_of(token), _GITHUB_ADVICE)
        with _installed("PyGithub"):
            import github
        retry = github.GithubRetry(total=_RETRIES, allowed_methods={"GET"}, max_rate_limit_wait=_LONGEST_WAIT_S)
        self._github = github.Github(
            base_url=self._server.api,
            auth=github.Auth.Token(token),
            timeout=_TIMEOUT_S,
            user_agent="pytest-quant",
            per_page=_PER_PAGE,
            retry=retry,
            lazy=True,
        )
        self._issue = self._github.get_repo(repository).get_issue(number)

    def comments(self) -> Iterator[Comment]:
        """Yield the own comments, which are those of the issue with the number of the pull request."""
        with self._server.refusals():
            for comment in self._issue.get_comments():
                body = comment.body or ""
                if body.startswith(_BEGINNING) and self._wrote(comment.user):
                    yield Comment(comment.id, body, comment.html_url, partial(self._server.call, comment.edit))

    def create(self, body: str) -> str:
        """Post a comment."""
        return str(self._server.call(self._issue.create_comment, body).html_url)

    def _wrote(self, user: Any) -> bool:
        return bool(user) and (user.type == "Bot" if self._login is None else user.login == self._login)

    @cached_property
    def _login(self) -> str | None:
        """Who writes with this token; ``None`` for that of an app, as a job of Actions is, which may not ask."""
        from github import GithubException

        try:
            return self._github.get_user().login
        except GithubException as error:
            if error.status != 403:
                raise
            return None


class GitLab:
    """One merge request on GitLab, whose comments are its notes; see `GitHub`.

    Parameters
    ----------
    api : address of the API.
    token : of GitLab; in no message.
    project : its id, or its path with its namespace.
    number : of the merge request in the project, its ``iid``.

    Raises
    ------
    UsageError : an address, token or project is none, or python-gitlab is not installed.
    """

    def __init__(self, api: str, token: str, project: str, number: int) -> None:
        if not re.fullmatch(r"\d+|\w[\w.-]*(/\w[\w.-]*)+", project):
            raise UsageError("this is no project of GitLab", value=project, allowed="its id, or group/name")
        self.where = f"{project}, merge request {number}"
        self._server = _Server(_address_of(api), _token_of(token), _GITLAB_ADVICE)
        with _installed("python-gitlab"):
            import gitlab
        self._gitlab = gitlab.Gitlab(
            self._server.api.removesuffix("/api/v4"),
            private_token=token,
            timeout=_TIMEOUT_S,
            user_agent="pytest-quant",
            per_page=_PER_PAGE,
            keep_base_url=True,
        )
        merge_requests = self._gitlab.projects.get(project, lazy=True).mergerequests
        self._notes = merge_requests.get(number, lazy=True).notes

    def comments(self) -> Iterator[Comment]:
        """Yield the own notes, and none that GitLab wrote itself."""
        with self._server.refusals():
            for note in self._notes.list(
                iterator=True, order_by="created_at", sort="asc", retry_transient_errors=True, max_retries=_RETRIES
            ):
                fields = note.attributes
                body, author = fields.get("body") or "", fields.get("author") or {}
                own = body.startswith(_BEGINNING) and not fields.get("system") and author.get("id") == self._own_id
                if own:
                    yield Comment(note.id, body, "", partial(self._server.call, _replace_body, note))

    def create(self, body: str) -> str:
        """Post a note; its address is not told."""
        self._server.call(self._notes.create, {"body": body})
        return ""

    @cached_property
    def _own_id(self) -> object:
        """Who writes with this token: a user, or the bot of a project or group."""
        user = self._gitlab.http_get("/user")
        return user.get("id") if isinstance(user, dict) else None


def _replace_body(note: Any, body: str) -> None:
    note.body = body
    note.save()


def number_on_github(environ: Mapping[str, str]) -> int | None:
    """Return the pull request that a job of GitHub Actions is about, from its ref or from what started it."""
    of_ref = ci_pull_request({"GITHUB_REF": environ.get("GITHUB_REF", "")})
    if of_ref is not None:
        return int(of_ref)
    try:
        event = json.loads(Path(environ.get("GITHUB_EVENT_PATH", "")).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return _number_in(event)


def _number_in(event: Any) -> int | None:
    if not isinstance(event, dict):
        return None
    parts = [event.get("pull_request"), event.get("issue"), event]
    run = event.get("workflow_run")
    parts += (run.get("pull_requests") or []) if isinstance(run, dict) else []
    numbers = (part.get("number") for part in parts if isinstance(part, dict))
    return next((number for number in numbers if type(number) is int), None)


@dataclass(frozen=True, slots=True)
class _Server:
    api: str
    token: str
    advice: Mapping[int, str]

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Raise `ForgeError`, with what to do, for what a library raises while the block runs."""
        import requests

        try:
            yield
        except ForgeError:
            raise
        except requests.RequestException as error:
            raise ForgeError(f"{self.api} does not answer", value=self._shown(error), fix=_API) from None
        except Exception as error:
            status = getattr(error, "status", None) or getattr(error, "response_code", None)
            if not isinstance(status, int):
                # The libraries take for granted that the server is one of their kind.
                raise ForgeError(f"{self.api} answers unlike its API", value=self._shown(error), fix=_API) from None
            raise ForgeError(
                f"{self.api} answers {status}", value=self._shown(error), fix=self._advised(status, str(error))
            ) from None

    def _advised(self, status: int, text: str) -> str:
        if "<" in text:  # a page of what stands before the forge, which no token moves
            return _API
        if status >= _TOO_MANY or "rate limit" in text.lower():
            return "run it again later"
        return self.advice.get(status, _API)

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return what a function of a library returns, see `refusals`."""
        with self.refusals():
            return function(*arguments)

    def _shown(self, error: Exception) -> str:
        return " ".join(str(error).replace(self.token, HIDDEN).split())[:_MOST_SHOWN]


@contextmanager
def _installed(package: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"{package} is not installed", fix='pip install "pytest-quant[comment]"') from error


def _address_of(api: str) -> str:
    if not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", api):
        raise UsageError(
            "this is no address of an API",
            value=redact_address(api),
            allowed="https://..., without a name or a password in it",
            fix="write for example --api https://github.example.com/api/v3",
        )
    return api.rstrip("/")


def _token_of(token: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise UsageError(
            "the token has characters that no token has", fix="set the variable anew, without blanks and quotes"
        )
    return token
