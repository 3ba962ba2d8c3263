"""One comment of a pull request that is kept up to date: found by its first line, made where it is not there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.forge.http import RefusedError

PER_PAGE = 100
"""The largest page that GitHub and GitLab give."""

_MAX_PAGES = 300

BEGINNING = "<!-- pytest-quant "
"""Of the first line of every comment of ours, which anybody may copy."""

_MARKER = re.compile(r"<!-- pytest-quant (?P<what>[\w.-]+(?: [\w.-]+)*) -->")
_NAME = re.compile(r"[\w.-]+")

_ATTEMPTS = 4
_LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that is there.

    Attributes
    ----------
    address : for a browser; empty where it is not told.
    mine : the one who asks has written it; a comment of others is never changed, whatever its first line is.
    """

    id: int
    body: str
    address: str
    mine: bool


class Forge(Protocol):
    """Where pull requests are discussed."""

    @property
    def where(self) -> str:
        """The pull request in words, ``owner/name, pull request 12``."""

    def page(self, number: int) -> tuple[list[Comment], int | None]:
        """Return the comments of a page, the first is 1, and the number of the next one. Raises `ForgeError`."""

    def create(self, body: str) -> str:
        """Post a comment and return its address. Raises `ForgeError`."""

    def update(self, comment: Comment, body: str) -> str:
        """Replace the body of a comment and return its address. Raises `ForgeError`."""


@dataclass(frozen=True, slots=True)
class Posted:
    """What was done, or would be: ``posted`` or ``updated``, and the address of the comment where it is known."""

    did: str
    address: str


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


def find(forge: Forge, marker: str) -> Comment | None:
    """Return the first own comment whose first line is `marker`, on whatever page it stands.

    Raises
    ------
    ForgeError : the comments cannot be read to their end.
    """
    for comment in _all(forge):
        if comment.mine and comment.body.splitlines()[:1] == [marker]:
            return comment
    return None


def _all(forge: Forge) -> Iterator[Comment]:
    number: int | None = 1
    for _ in range(_MAX_PAGES):
        if number is None:
            return
        comments, number = forge.page(number)
        yield from comments
    raise ForgeError(f"{forge.where} has more than {_MAX_PAGES * PER_PAGE} comments", fix="post to another one")


def post(forge: Forge, text: str, sleep: Callable[[float], None], notify: Callable[[str], None]) -> Posted:
    """Update the own comment that has the first line of `text`, or post it where there is none.

    What may pass, a server that is busy or a limit on the number of requests, is waited for, and then all of it is done
    again from the search on: a comment that was posted although no answer came is found then, and not posted twice.

    Parameters
    ----------
    forge : with the pull request.
    text : of the comment, see `named`.
    sleep : waits for so many seconds.
    notify : is told what is waited for.

    Raises
    ------
    ForgeError : it was refused, or is still refused after some attempts.
    """
    marker = text.partition("\n")[0]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            there = find(forge, marker)
            if there is None:
                return Posted("posted", forge.create(text))
            return Posted("updated", forge.update(there, text))
        except RefusedError as error:
            wait_s = _wait_s(error, attempt)
            if wait_s is None:
                raise
            notify(f"{error.what}; attempt {attempt} of {_ATTEMPTS}, the next one in {wait_s:.0f} s")
            sleep(wait_s)
    raise AssertionError("the last attempt returns or raises")


def _wait_s(error: RefusedError, attempt: int) -> float | None:
    """Return how long to wait before the next attempt; ``None`` where there is none."""
    if error.wait_s is None or attempt == _ATTEMPTS or error.wait_s > _LONGEST_WAIT_S:
        return None
    return max(error.wait_s, 2.0 ** (attempt - 1))


def listed(data: Any, where: str) -> list[Mapping[str, Any]]:
    """Return the answer to a question for comments, each with its id. Raises `ForgeError` where it is another one."""
    if isinstance(data, list) and all(isinstance(one, dict) and type(one.get("id")) is int for one in data):
        return data
    raise ForgeError(f"{where}: the answer is no list of comments", value=repr(data)[:80], fix="is --api right?")
