"""What the commands print: the one way to the terminal, which foreign text in it cannot act upon."""

from __future__ import annotations

import json

import click

from pytest_quant.printable import clean_lines, guard_json, guard_lines


def say(text: str, *, err: bool = False, color: str | None = None) -> None:
    """Print a message.

    Parameters
    ----------
    text : with names and places in it as they are; secrets in addresses are left out.
    err : print to the standard error.
    color : of the whole text, as click names it.
    """
    click.secho(clean_lines(text), fg=color, err=err)


def show(text: str) -> None:
    """Print a table or a report, which was laid out and styled out of clean parts."""
    # Where the output is no terminal click removes the styles.
    click.echo(guard_lines(text))


def show_json(document: object, *, indent: int | None = None) -> None:
    """Print a document as JSON, on one line unless it is indented."""
    click.echo(guard_json(json.dumps(document, allow_nan=False, indent=indent)))
