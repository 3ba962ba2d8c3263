"""``pytest-quant guide``: the guides that the package brings, listed or shown."""

from __future__ import annotations

import re
from importlib.resources import files

import click

from pytest_quant.cli.common import show
from pytest_quant.errors import UsageError, nearest

_INDEX = "README"
"""The guide that lists the others: the page that a forge shows for the folder."""

_ENTRY = re.compile(r"^- \[[^\]]+\]\((?P<name>[a-z-]+)\.md\): (?P<about>.+)$", re.MULTILINE)


def topics() -> dict[str, str]:
    """Return a line about each guide by its name, in the order of the index."""
    return {entry["name"]: entry["about"] for entry in _ENTRY.finditer(guide_text(_INDEX))}


def guide_text(name: str) -> str:
    """Return a guide in Markdown, as its file has it."""
    return (files("pytest_quant") / "guides" / f"{name}.md").read_text("utf-8")


@click.command()
@click.argument("topic", required=False)
def guide(topic: str | None) -> None:
    """List the guides, or show TOPIC as Markdown.

    \b
    Examples:
      pytest-quant guide
      pytest-quant guide limits
      pytest-quant guide reference | less
    """  # noqa: D301 - click reads a backspace
    about = topics()
    if topic is None:
        longest = max(map(len, about))
        show("\n".join(f"{name:<{longest}}  {line}" for name, line in about.items()))
        return
    if topic not in about:
        raise UsageError(f"there is no guide '{topic}'", allowed=nearest(topic, about))
    show(guide_text(topic).removesuffix("\n"))
