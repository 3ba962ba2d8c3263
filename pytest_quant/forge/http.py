"""Requests to the API of a forge: JSON there and back, and an error that says what to do for everything else.

A token goes to the host that it is for and nowhere else: no redirect leads to another host, no address out of an answer
is followed, and no message holds the token, whatever a server or a proxy repeats of it.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.redact import HIDDEN, redact_address

TIMEOUT_S = 30.0

_MAX_BYTES = 64 * 1024 * 1024
"""A hundred comments of the largest size that a forge takes are less."""

_MAX_SHOWN = 300

_WAIT_UNTOLD_S = 60.0
"""What GitHub asks for where it limits the number of requests and does not say for how long."""

_MAX_REDIRECTS = 3

_PAGE = "a page of HTML"

_REDIRECTS = (301, 302, 307, 308)
_PASSING = (408, 429, 500, 502, 503, 504)
"""Statuses that may be gone when the same is asked again."""
_REFUSED = (401, 403, 404, 407)
"""Statuses by which a forge refuses in JSON; a page with one of them is of something that stands before it."""

_IN_ITS_PLACE = "is --api right? A proxy or the page of a login may have answered in its place"


class RefusedError(ForgeError):
    """A forge did not do what it was asked for.

    Attributes
    ----------
    status : of HTTP; ``None`` where no answer came.
    wait_s : seconds after which the same may be asked again; ``None`` where that will not help.
    """

    def __init__(
        self,
        what: str,
        *,
        value: str | None = None,
        fix: str | None = None,
        status: int | None = None,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(what, value=value, fix=fix)
        self.status = status
        self.wait_s = wait_s

    def advised(self, advice: Mapping[int, str]) -> RefusedError:
        """Return the error with what to do about its status, unless it says so itself or may pass."""
        fix = self.fix
        if self.wait_s is not None and self.status is not None:
            fix = f"run it again, in {self.wait_s:.0f} s or later"
        elif self.status is not None:
            fix = fix or advice.get(self.status)
        return RefusedError(self.what, value=self.value, fix=fix, status=self.status, wait_s=self.wait_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a forge answered: JSON, and the headers by their names in small letters."""

    data: Any
    headers: Mapping[str, str]


def _opener() -> urllib.request.OpenerDirector:
    """Return what opens addresses of HTTP, by a proxy of the environment, and gives back every status as it came.

    Left to itself urllib follows a redirect with all headers, the token among them, to any host.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    return opener


class Api:
    """The API of one forge.

    Parameters
    ----------
    base : its address, ``https://api.github.com``.
    headers : of each request, the token among them.
    token : is in no message.
    timeout_s : for one answer, in seconds.
    now : the time in seconds since 1970, by which a limit on the number of requests ends.

    Raises
    ------
    UsageError : `base` is no address of HTTP, or the token cannot be a header.
    """

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        token: str,
        *,
        timeout_s: float = TIMEOUT_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not _is_address(base):
            raise UsageError(
                "this is no address of an API",
                value=redact_address(base),
                allowed="https://..., without a name or a password in it",
                fix="write for example --api https://github.example.com/api/v3",
            )
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise UsageError(
                "the token has characters that no token has", fix="set the variable anew, without blanks and quotes"
            )
        self.base = base.rstrip("/")
        self._headers = dict(headers)
        self._token = token
        self._timeout_s = timeout_s
        self._now = now
        self._opener = _opener()

    def request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Answer:
        """Ask once and return the answer.

        Parameters
        ----------
        method : of HTTP.
        path : below the base, with its parameters.
        body : sent as JSON; ``None`` for none.

        Raises
        ------
        RefusedError : there was no answer, it is an error, or no JSON.
        """
        address = f"{self.base}{path}"
        for _ in range(_MAX_REDIRECTS):
            status, headers, content = self._ask(method, address, body)
            if status not in _REDIRECTS:
                break
            address = self._redirected(address, headers)
        if 200 <= status < 300:
            return Answer(self._json(address, status, headers, content), headers)
        raise self._refusal(method, address, status, headers, content)

    def _ask(self, method: str, address: str, body: Mapping[str, str] | None) -> tuple[int, dict[str, str], bytes]:
        data = None if body is None else json.dumps(body).encode()
        typed = {} if data is None else {"Content-Type": "application/json"}
        sent = {"User-Agent": "pytest-quant", "Accept": "application/json", **self._headers, **typed}
        request = urllib.request.Request(address, data, sent, method=method)  # noqa: S310 - its scheme was looked at
        try:
            with self._opener.open(request, timeout=self._timeout_s) as found:
                return found.status, _lower(found.headers), found.read(_MAX_BYTES)
        except (OSError, ValueError, http.client.HTTPException) as error:
            # A ValueError is what Python makes of a host's name that cannot be one.
            raise self._silence(address, error) from None

    def _silence(self, address: str, error: Exception) -> RefusedError:
        """Return the error for no answer: a time-out, a refused connection, a certificate that is not known."""
        reason = getattr(error, "reason", error)
        late = isinstance(reason, TimeoutError)
        why = f"no answer within {self._timeout_s:g} s" if late else self._hidden(str(reason) or type(reason).__name__)
        fix = "is --api right, and may this runner reach it? A proxy is taken from HTTPS_PROXY"
        return RefusedError(f"{_host(address)} does not answer: {why}", wait_s=1.0, fix=fix)

    def _redirected(self, address: str, headers: Mapping[str, str]) -> str:
        target = urljoin(address, headers.get("location", ""))
        if urlsplit(target)[:2] != urlsplit(address)[:2]:
            raise RefusedError(
                f"{_host(address)} sends this to another host, which does not get the token",
                value=self._hidden(redact_address(target)),
                fix="give the address that it names as --api, if it is yours",
            )
        return target

    def _json(self, address: str, status: int, headers: Mapping[str, str], content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError:
            raise RefusedError(
                f"{_host(address)} answers {status} with no JSON",
                value=self._said(headers, content) or "nothing",
                fix=_IN_ITS_PLACE,
            ) from None

    def _refusal(
        self, method: str, address: str, status: int, headers: Mapping[str, str], content: bytes
    ) -> RefusedError:
        """Return the error for a status, with what the forge says about it."""
        shown, said = f"{method} {urlsplit(address).path}", self._said(headers, content)
        return RefusedError(
            f"{_host(address)} answers {status} to {self._hidden(shown)}",
            status=status,
            value=said or None,
            fix=_IN_ITS_PLACE if status in _REFUSED and said.startswith(_PAGE) else None,
            wait_s=self._wait_s(status, headers, said),
        )

    def _wait_s(self, status: int, headers: Mapping[str, str], said: str) -> float | None:
        """Return when the same may be asked again: as the forge says, and soon where its fault may pass."""
        told = self._retry_after(headers.get("retry-after", ""))
        if told is not None and (status in _PASSING or status == 403):
            return told
        spent = any(headers.get(name) == "0" for name in ("x-ratelimit-remaining", "ratelimit-remaining"))
        ends = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset", "")
        if status in (403, 429) and spent and ends.isdecimal():
            return max(1.0, float(ends) - self._now())
        if status in (403, 429) and "rate limit" in said.lower():
            return _WAIT_UNTOLD_S
        return 1.0 if status in _PASSING else None

    def _retry_after(self, text: str) -> float | None:
        """Read ``Retry-After``: seconds, or a date."""
        if text.strip().isdecimal():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._now())
        except ValueError:
            return None

    def _said(self, headers: Mapping[str, str], content: bytes) -> str:
        """Return what an answer says, on one short line: the message of a forge, or the title or text of a page."""
        # First of all, so that no part of the token is left where the text is cut.
        text = self._hidden(content.decode(errors="replace"))
        try:
            said = _message(json.loads(text))
        except ValueError:
            title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            said = title[1] if title else re.sub(r"<[^>]*>", " ", text)
            if "html" in headers.get("content-type", "").lower():
                said = f"{_PAGE}: {unescape(said).strip()}"
        return " ".join(said.split())[:_MAX_SHOWN]

    def _hidden(self, text: str) -> str:
        return text.replace(self._token, HIDDEN)


def _message(data: Any) -> str:
    """Return the text in the JSON of an error, as GitHub (message, errors) and GitLab (message, error) write it."""
    if not isinstance(data, dict):
        return json.dumps(data)
    told = [data.get(name) for name in ("message", "error", "error_description")]
    errors = data.get("errors")
    listed = errors if isinstance(errors, list) else [errors]
    told += [one.get("message") if isinstance(one, dict) else one for one in listed]
    return "; ".join(one if isinstance(one, str) else json.dumps(one) for one in told if one)


def _is_address(base: str) -> bool:
    try:
        parts = urlsplit(base)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _host(address: str) -> str:
    return urlsplit(address).hostname or address
