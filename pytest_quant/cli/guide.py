"""``pytest-quant guide``: the guides that the package brings, listed or shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import click
from rich.console import Console
from rich.markdown import Markdown

from pytest_quant.cli.common import show, width
from pytest_quant.errors import UsageError, nearest

_INDEX = "README"
"""The guide that lists the others: the page that a forge shows for the folder."""

_ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<name>[a-z-]+)\.md\): (?P<about>.+)$", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\((?:([a-z-]+)\.md(?:#[\w-]+)?|#[\w-]+)\)")
_WIDEST = 100
"""Longer lines are hard to read."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One guide: its name on the command line, its title, and one line about it."""

    name: str
    title: str
    about: str


def topics() -> tuple[Topic, ...]:
    """Return the guides in the order of the index."""
    return tuple(Topic(**found.groupdict()) for found in _ENTRY.finditer(guide_text(_INDEX)))


def guide_text(name: str) -> str:
    """Return a guide in Markdown, as its file has it."""
    return (files("pytest_quant") / "guides" / f"{name}.md").read_text("utf-8")


def rendered(text: str, columns: int) -> str:
    """Return Markdown styled for a terminal of `columns` characters.

    A link to another guide is shown as the command that shows it, and a picture as its description.
    """
    plain = _LINK.sub(_as_command, _IMAGE.sub(r"*(picture: \1)*", text))
    console = Console(width=min(columns, _WIDEST), force_terminal=True)
    with console.capture() as captured:
        console.print(Markdown(plain, hyperlinks=False))
    return captured.get().rstrip("\n")


def _as_command(link: re.Match[str]) -> str:
    text, name = link.groups()
    return text if name is None else f"{text} (`pytest-quant guide {name}`)"


def _listed(known: Sequence[Topic]) -> str:
    longest = max(len(topic.name) for topic in known)
    return "\n".join(f"{topic.name:<{longest}}  {topic.about}" for topic in known)


@click.command()
@click.argument("topic", required=False)
def guide(topic: str | None) -> None:
    """List the guides, or show TOPIC: formatted on a terminal, as Markdown into a pipe or a file.

    \b
    Examples:
      pytest-quant guide
      pytest-quant guide limits
      pytest-quant guide reference | less
    """  # noqa: D301 - click reads a backspace
    known = topics()
    if topic is None:
        show(_listed(known))
        return
    if topic not in {one.name for one in known}:
        raise UsageError(f"there is no guide '{topic}'", allowed=nearest(topic, [one.name for one in known]))
    text = guide_text(topic)
    show(rendered(text, width()) if sys.stdout.isatty() else text.removesuffix("\n"))
