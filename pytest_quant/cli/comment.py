"""``pytest-quant comment``: post a report as the comment of a pull request, or update the one that is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from pytest_quant.cli.common import say
from pytest_quant.errors import UsageError
from pytest_quant.pull_request_comment import (
    GITHUB_API,
    GITHUB_TOKENS,
    GITLAB_API,
    GITLAB_TOKEN,
    HOW_TO_WRITE_NOTES,
    GitHub,
    GitLab,
    find,
    named,
    number_on_github,
    post,
)

_MAX_CHARACTERS = 1_000_000


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--github", "forge", flag_value="github", help="On GitHub, also a server of your own.")
@click.option("--gitlab", "forge", flag_value="gitlab", help="On GitLab, also a server of your own.")
@click.option("--repository", metavar="NAME", help="owner/name, or the project of GitLab or its id  [the CI job's]")
@click.option("--number", type=click.IntRange(1), metavar="N", help="The pull or merge request  [the CI job's]")
@click.option("--api", metavar="URL", help="Address of the API  [$GITHUB_API_URL, $CI_API_V4_URL, else the public one]")
@click.option("--name", default="", metavar="NAME", help="Keep a comment of this name: one for each job of several.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and post nothing.")
def comment(
    file: Path,
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
    text = named(_read(file), name)
    kind = forge or _kind(os.environ)
    of_kind = _github if kind == "github" else _gitlab
    request = of_kind(os.environ, repository, number, api)
    if dry_run:
        there = find(request, text)
        what = "a new comment would be posted" if there is None else f"comment {there.id} would be updated"
        say(f"{request.where}: {what}, with {len(text)} characters; nothing was written")
        return
    done, address = post(request, text)
    say(f"{request.where}: the comment is {done}{f': {address}' if address else ''}")


def _read(file: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        text = content.decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read", value=str(error), allowed="text in UTF-8") from error
    if len(text) > _MAX_CHARACTERS:
        raise UsageError(f"{file} is no comment", value=f"{len(text)} characters", allowed=f"{_MAX_CHARACTERS}")
    return text


def _kind(environ: Mapping[str, str]) -> str:
    """Return the forge whose CI this is."""
    kinds = [kind for kind, variable in (("github", "GITHUB_ACTIONS"), ("gitlab", "GITLAB_CI")) if variable in environ]
    if len(kinds) != 1:
        raise UsageError("this is neither a job of GitHub nor of GitLab", fix="write --github or --gitlab")
    return kinds[0]


def _github(environ: Mapping[str, str], repository: str | None, number: int | None, api: str | None) -> GitHub:
    token = next((environ[name].strip() for name in GITHUB_TOKENS if environ.get(name, "").strip()), "")
    if not token:
        raise UsageError(
            "there is no token of GitHub",
            allowed=" or ".join(GITHUB_TOKENS),
            fix="env: GITHUB_TOKEN: ${{ github.token }}",
        )
    where = repository or environ.get("GITHUB_REPOSITORY")
    address = api or environ.get("GITHUB_API_URL") or GITHUB_API
    return GitHub(address, token, *_of_ci(where, number or number_on_github(environ), "pull"))


def _gitlab(environ: Mapping[str, str], repository: str | None, number: int | None, api: str | None) -> GitLab:
    token = environ.get(GITLAB_TOKEN, "").strip()
    if not token:
        raise UsageError(
            "there is no token of GitLab",
            allowed=f"{GITLAB_TOKEN}; CI_JOB_TOKEN may neither read nor write comments",
            fix=HOW_TO_WRITE_NOTES,
        )
    of_ci = environ.get("CI_MERGE_REQUEST_IID", "")
    which = number or (int(of_ci) if of_ci.isdecimal() else None)
    where = repository or environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID")
    address = api or environ.get("CI_API_V4_URL") or GITLAB_API
    return GitLab(address, token, *_of_ci(where, which, "merge"))


def _of_ci(repository: str | None, number: int | None, kind: str) -> tuple[str, int]:
    if not repository:
        raise UsageError("CI does not tell the repository", fix="write --repository owner/name")
    if number is None:
        raise UsageError(
            f"CI does not say that this is for a {kind} request",
            fix=f"run it in the pipeline of a {kind} request, or write --number N",
        )
    return repository, number
