"""Escapes untrusted text, so that terminals and CI logs do not interpret it, and hides secrets in addresses.

Names come from models, data, branches, arguments and the messages of libraries. Escape sequences would colour, move or
hide what is printed; a line that begins with ``::`` is a command to GitHub Actions, and ``##vso[`` or ``##[`` anywhere
in a line one to Azure Pipelines and to GitHub Actions.

Secrets are found by their position in an address, not by their content: a short password would occur in other words
too, and a token that git took from its configuration is known to nobody here.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_AT_START = re.compile(r"^(\s*):(?=:)")
_IN_LINE = re.compile(r"#(?=#\w*\[)")

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


def clean(text: str) -> str:
    """Return `text` on one line, with every character that a terminal or a CI service would act upon as its escape."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return _strip_commands(text)


def shorten(text: str, most: int = 80) -> str:
    """Return the first characters of a text, with dots if there are more."""
    return text if len(text) <= most else f"{text[:most]}..."


def clean_lines(text: str) -> str:
    """Return a message as it may be printed, its lines and tabs kept: each line clean, addresses without secrets."""
    lines = (line.removesuffix("\r").split("\t") for line in redact(text).split("\n"))
    return "\n".join("\t".join(map(clean, parts)) for parts in lines)


def guard_lines(text: str) -> str:
    """Return text that was laid out of clean parts, styles included, with no line of it a command to a CI service.

    Where a long text is broken, a line may begin with what stood in its middle.
    """
    return "\n".join(map(_strip_commands, text.split("\n")))


def guard_json(text: str) -> str:
    r"""Return the same document in JSON without ``##``, all that JSON leaves of what a terminal or a CI service reads.

    The second half of each is escaped as ``\u0023``.
    """
    return text.replace("##", "#\\u0023")


def _strip_commands(line: str) -> str:
    if "##" in line:
        line = _IN_LINE.sub(r"\\x23", line)
    return _AT_START.sub(r"\1\\x3a", line) if "::" in line else line


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
        text = _QUOTED.sub(lambda match: match["mark"] + redact_address(match["address"]) + match["mark"], text)
        text = _PLAIN.sub(lambda match: redact_address(match[0]), text)
    return _HEADER.sub(rf"\g<name>{HIDDEN}", _ASSIGNED.sub(rf"\g<name>{HIDDEN}", text))


def _user(start: str, user: str) -> str:
    name, colon, _ = user.partition(":")
    # What looks like a name may be the host, with the @ in a parameter behind it.
    if _SCHEME_OF_USERS.fullmatch(start) is None or re.search(r"[/?#&=]", name):
        return HIDDEN
    return f"{name}:{HIDDEN}" if colon else name


def _parameter(match: re.Match[str]) -> str:
    return f"{match['name']}{HIDDEN}" if _SECRET_NAME.search(unquote(match["name"][1:-1])) else match[0]
