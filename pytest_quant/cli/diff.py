"""A change of a file, as git shows it."""

from __future__ import annotations

import difflib

import click

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def show_diff(before: str, after: str, name: str) -> None:
    """Print what changes from one text to the other, or that nothing does."""
    from pytest_quant.report import clean

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=9)
    shown = [clean(line) for line in lines]
    for line in shown:
        click.secho(line, fg=_COLORS.get(line[:1]))
    if not shown:
        click.echo(f"{name} stays as it is")
