"""``pytest-quant comment``: one comment of a pull request that is kept up to date, by PyGithub or by python-gitlab.

It is found again by its first line. Requests that only read are repeated where a server is busy; one that writes is
sent once, because a second one could post the comment twice.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click

from pytest_quant.cli.common import say
from pytest_quant.environment.revision import ci_pull_request, first_variable
from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.files import parse_json, read_file
from pytest_quant.printable import HIDDEN

GITHUB_API, GITLAB_API = "https://api.github.com", "https://gitlab.com/api/v4"
_ON_GITHUB = {"token": ("GITHUB_TOKEN", "GH_TOKEN"), "api": ("GITHUB_API_URL",), "repository": ("GITHUB_REPOSITORY",)}
_ON_GITLAB = {
    "token": ("GITLAB_TOKEN",),
    "api": ("CI_API_V4_URL",),
    "repository": ("CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID"),
    "number": ("CI_MERGE_REQUEST_IID",),
}
"""Variables that say what is not given as an option; the first that is set counts."""

TOKENS = (*_ON_GITHUB["token"], *_ON_GITLAB["token"])

_BEGINNING = "<!-- pytest-quant "
"""Of the first line of every comment of ours, which anybody may copy."""

_MARKER = re.compile(r"<!-- pytest-quant (?P<what>[\w.-]+(?: [\w.-]+)*) -->")
_CLIENT: Mapping[str, Any] = {"timeout": 30, "user_agent": "pytest-quant", "per_page": 100}
_RETRIES, _LONGEST_WAIT_S = 3, 120.0

_GUIDE = "pytest-quant guide ci says which token a job needs, and what to do for pull requests of forks"
_API = "is --api right, and may this runner reach it? A proxy or the page of a login may have answered in its place"
_ADVICE = {
    401: f"the token is wrong or has expired: {_GUIDE}",
    403: f"the token may not write here: {_GUIDE}",
    404: "there is no such request, or the token does not see it: look at --repository and --number",
}


class PullRequest(NamedTuple):
    """The comments of a request that the owner of the token has written, and what writes one.

    Attributes
    ----------
    own : as the library has them; each has an `id` and a `body`.
    create : posts a text and returns the comment.
    edit : replaces the body of a comment, and returns it anew or nothing.
    """

    own: Iterator[Any]
    create: Callable[[str], Any]
    edit: Callable[[Any, str], Any]


@click.command()
@click.argument("file", metavar="FILE", type=click.File(encoding="utf-8", errors="replace"))
@click.option("--github", "forge", flag_value="github", help="On GitHub, also a server of your own.")
@click.option("--gitlab", "forge", flag_value="gitlab", help="On GitLab, also a server of your own.")
@click.option("--repository", metavar="NAME", help="owner/name, or the project of GitLab or its id  [the CI job's]")
@click.option("--number", type=click.IntRange(1), metavar="N", help="The pull or merge request  [the CI job's]")
@click.option("--api", metavar="URL", help="Address of the API  [$GITHUB_API_URL, $CI_API_V4_URL, else the public one]")
@click.option("--name", default="", metavar="NAME", help="Keep a comment of this name: one for each job of several.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and post nothing.")
def comment(
    file: TextIO,
    forge: str | None,
    repository: str | None,
    number: int | None,
    api: str | None,
    name: str,
    dry_run: bool,
) -> None:
    """Post FILE as a comment of the pull request that CI runs for; where it has posted one, update that.

    FILE is what pytest --quant-markdown wrote, or pytest-quant compare --markdown; - reads the standard input. The
    token is taken from $GITHUB_TOKEN or $GH_TOKEN, on GitLab from $GITLAB_TOKEN, and is never printed.

    \b
    Examples:
      pytest-quant comment --github quant.md
      pytest-quant comment --gitlab quant.md --name gpu
      pytest-quant comment --github quant.md --repository me/models --number 12 --dry-run
    """  # noqa: D301 - click reads a backspace
    text = mark_comment(file.read(), name)
    on_github = forge == "github" if forge else "GITHUB_ACTIONS" in os.environ
    if not forge and on_github == ("GITLAB_CI" in os.environ):
        raise UsageError("this is neither a job of GitHub nor of GitLab", fix="write --github or --gitlab")
    kind = "pull" if on_github else "merge"
    variables = _ON_GITHUB if on_github else _ON_GITLAB
    found = {what: first_variable(os.environ, names) for what, names in variables.items()}
    token, where = found["token"], repository or found["repository"]
    address = api or found["api"] or (GITHUB_API if on_github else GITLAB_API)
    iid = found.get("number") or ""
    which = number or (number_on_github(os.environ) if on_github else int(iid) if iid.isdecimal() else None)
    if not token and not dry_run:
        raise UsageError("there is no token", allowed=" or ".join(variables["token"]), fix=_GUIDE)
    lacking = {} if where else {"--repository owner/name": "name the repository"}
    if which is None:
        lacking["--number N"] = f"say that this is for a {kind} request"
    if not where or which is None:
        fix = f"run it in the pipeline of a {kind} request, or write {' '.join(lacking)}"
        raise UsageError(f"CI does not {' and does not '.join(lacking.values())}", fix=fix)
    # An address with a password, or a token with a line break, would come back in messages of the libraries.
    if not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", address):
        raise UsageError("--api is no address of an API", allowed="https://..., without a name or a password in it")
    said = f"{where}, {kind} request {which}"
    if not token:
        say(f"{said}: {len(text)} characters; without a token nobody knows whether a comment is there already")
        return
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise UsageError("the token has characters that no token has", fix="set the variable anew, without blanks")
    with _refusals(address, token):
        request = (open_github if on_github else open_gitlab)(address.rstrip("/"), token, where, which)
        own = find(request, text)
        if dry_run:
            what = "a new comment would be posted" if own is None else f"comment {own.id} would be updated"
            say(f"{said}: {what}, with {len(text)} characters; nothing was written")
            return
        posted = request.create(text) if own is None else request.edit(own, text) or own
        # GitLab does not tell the address. One of GitHub without it was no answer of GitHub's, but a redirection.
        link = f": {posted.html_url}".replace(token, HIDDEN) if on_github and posted.html_url else ""
        if on_github and not link:
            raise ValueError("what it answered to the new comment is no comment")
    say(f"{said}: the comment is {'posted' if own is None else 'updated'}{link}")


def mark_comment(text: str, name: str) -> str:
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
        what = "this is no comment of pytest-quant: its first line is not the one by which it is found again"
        fix = "write it with: pytest --quant-markdown=FILE, or: pytest-quant compare --markdown"
        raise UsageError(what, value=first[:80] or "an empty file", fix=fix)
    if name and not re.fullmatch(r"[\w.-]+", name):
        raise UsageError(
            "--name is no name", value=name, allowed="letters, digits, points and dashes", fix="--name gpu"
        )
    return f"<!-- pytest-quant {marker['what']}{f' {name}' if name else ''} -->\n{rest}"


def number_on_github(environ: Mapping[str, str]) -> int | None:
    """Return the pull request that a job of GitHub Actions is about, from its ref or from what started it."""
    of_ref = ci_pull_request({"GITHUB_REF": environ.get("GITHUB_REF", "")})
    if of_ref is not None:
        return int(of_ref)
    try:
        # GitHub sends 25 MB at most.
        event = parse_json(read_file(Path(environ.get("GITHUB_EVENT_PATH", "")), 32_000_000))
    except (OSError, ValueError):
        return None
    of_run = _part(_part(event, "workflow_run"), "pull_requests")
    parts = (_part(event, "pull_request"), _part(event, "issue"), event, *(of_run if isinstance(of_run, list) else ()))
    numbers = (_part(part, "number") for part in parts)
    return next((number for number in numbers if isinstance(number, int)), None)


def _part(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def find(request: PullRequest, text: str) -> Any | None:
    """Return the first own comment with the first line of `text`."""
    first_line = text.partition("\n")[0]
    return next((comment for comment in request.own if comment.body.splitlines()[:1] == [first_line]), None)


def open_github(api: str, token: str, repository: str, number: int) -> PullRequest:
    """Return a pull request on GitHub; its comments belong to the issue with its number."""
    import github

    # It shows what it logs by itself, with each request that it sends again.
    logging.getLogger("github").setLevel(logging.WARNING)
    retry = github.GithubRetry(total=_RETRIES, allowed_methods={"GET"}, max_rate_limit_wait=_LONGEST_WAIT_S)
    retry.retry_after_max = int(_LONGEST_WAIT_S)
    client = github.Github(base_url=api, auth=github.Auth.Token(token), retry=retry, lazy=True, **_CLIENT)
    issue = client.get_repo(repository).get_issue(number)

    def is_own(user: Any) -> bool:
        # Unlike /user, it tells the token of a job or of an app too who it is: github-actions[bot].
        _, answer = client.requester.graphql_query("{ viewer { login } }", {})
        return bool(user) and user.login == answer["data"]["viewer"]["login"]

    listed = (comment for comment in issue.get_comments() if (comment.body or "").startswith(_BEGINNING))
    own = (comment for comment in listed if is_own(comment.user))
    return PullRequest(own, issue.create_comment, lambda comment, text: comment.edit(text))


def open_gitlab(api: str, token: str, project: str, number: int) -> PullRequest:
    """Return a merge request on GitLab, whose comments are its notes."""
    import gitlab

    client = gitlab.Gitlab(api.removesuffix("/api/v4"), private_token=token, keep_base_url=True, **_CLIENT)
    # The header of its token would go along to any other host.
    client.session.max_redirects = 0
    notes = client.projects.get(project, lazy=True).mergerequests.get(number, lazy=True).notes

    def is_own(note: Any) -> bool:
        me: Any = client.http_get("/user")
        return not note.system and (note.author or {}).get("id") == me["id"]

    listed = notes.list(
        iterator=True, order_by="created_at", sort="asc", retry_transient_errors=True, max_retries=_RETRIES
    )
    own = (note for note in listed if (note.body or "").startswith(_BEGINNING) and is_own(note))
    return PullRequest(
        own, lambda text: notes.create({"body": text}), lambda note, text: notes.update(note.id, {"body": text})
    )


@contextmanager
def _refusals(api: str, token: str) -> Iterator[None]:
    """Raise `ForgeError`, with what to do, for what a library raises in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", fix='pip install "pytest-quant[comment]"') from error
    except Exception as error:
        text = str(error).replace(token, HIDDEN)
        shown = " ".join(text.split())[:300]
        # Where every attempt failed, the status is in the words alone.
        busy = re.search(r"too many (\d{3}) error responses", text)
        status = int(busy[1]) if busy else getattr(error, "status", None) or getattr(error, "response_code", None)
        if not isinstance(status, int):
            # No answer, or that of a server of another kind, which the libraries do not expect.
            raise ForgeError(f"{api} does not answer as its API does", value=shown, fix=_API) from None
        fix = _ADVICE.get(status, _API)
        if "<" in shown:  # a page of what stands before the forge, which no token moves
            fix = _API
        elif busy or status >= 429 or "rate limit" in shown.lower():
            fix = "run it again later"
        # A page, or a text with escapes, may repeat the token in another spelling.
        value = None if re.search(r"[<\\]|&#", text) else shown
        raise ForgeError(f"{api} answers {status}", value=value, fix=fix) from None
