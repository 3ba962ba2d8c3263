"""Addresses of databases and repositories, and texts that repeat them, without passwords and tokens.

What is removed is told by where it stands in an address, never by what it says: a short password would occur in other
words too, and a token that git took from its configuration is known to nobody here.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

_QUOTED = re.compile(r"""(?P<mark>['"])(?P<address>[^'"\n]*://[^'"\n]*)(?P=mark)""")
_PLAIN = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]*+://\S*")
_PARTS = re.compile(r"(?P<start>.*?://)(?:(?P<user>.*)@)?(?P<rest>.*)", re.DOTALL)
_SCHEME_OF_USERS = re.compile(r"(?:postgres(?:ql)?(?:\+\w+)?|(?:git\+)?ssh)://", re.IGNORECASE)
"""Addresses whose user is a name. In those of http a token often stands in its place."""

_PARAMETER = re.compile(r"""(?P<name>[?&#;][^=&#;?]*=)[^&#]*?(?=[&#]|['">][:,.;)\]]*\Z|\Z)""")
"""In a message the mark that ends the address may follow its last parameter."""
_SECRET_NAME = re.compile(r"pass|pwd|token|secret|cred|key|auth|sig(?:nature)?$", re.IGNORECASE)
_WITHOUT_SCHEME = re.compile(r"\A(?P<user>[^/@:]*:).*@", re.DOTALL)

_ASSIGNED = re.compile(r"(?P<name>\b\w*passw(?:or)?d=)(?:'(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.IGNORECASE)
"""As libpq writes a connection: ``host=db password=...``."""
_HEADER = re.compile(r"(?P<name>authorization:\s*)[^\s'\"]+(?:[ \t]+[^\s'\"]+)?", re.IGNORECASE)
"""As git traces a request."""


def redact_address(address: str) -> str:
    """Return an address without its secrets: what stands before the last ``@``, and parameters named like a secret.

    The user's name stays in addresses of PostgreSQL and of ssh, where it is none. The whole of `address` is one,
    whatever characters are in it; a text that holds addresses is for `redact`.
    """
    parts = _PARTS.fullmatch(address)
    if parts is None:
        return _WITHOUT_SCHEME.sub(rf"\g<user>{HIDDEN}@", address)
    user = "" if parts["user"] is None else f"{_user(parts['start'], parts['user'])}@"
    return parts["start"] + user + _PARAMETER.sub(_parameter, parts["rest"])


def redact(text: str) -> str:
    """Return a text of any length and origin without the secrets of the addresses in it."""
    if "://" in text:
        text = _QUOTED.sub(lambda found: found["mark"] + redact_address(found["address"]) + found["mark"], text)
        text = _PLAIN.sub(lambda found: redact_address(found[0]), text)
    return _HEADER.sub(rf"\g<name>{HIDDEN}", _ASSIGNED.sub(rf"\g<name>{HIDDEN}", text))


def _user(start: str, user: str) -> str:
    name, colon, _ = user.partition(":")
    # What looks like a name may be the host, with the @ in a parameter behind it.
    if _SCHEME_OF_USERS.fullmatch(start) is None or re.search(r"[/?#&=]", name):
        return HIDDEN
    return f"{name}:{HIDDEN}" if colon else name


def _parameter(found: re.Match[str]) -> str:
    return f"{found['name']}{HIDDEN}" if _SECRET_NAME.search(unquote(found["name"][1:-1])) else found[0]
