"""The commands of ``pytest-quant`` by their names, each with its module loaded."""

from __future__ import annotations

import click

from pytest_quant.cli import commands


def top_commands() -> dict[str, click.Command]:
    """Return the commands of the first level."""
    context = click.Context(commands)
    return {name: commands.get_command(context, name) for name in commands.list_commands(context)}


def all_commands() -> dict[str, click.Command]:
    """Return every command that can be called; one below another has both names, ``history export``."""
    by_name = {}
    for name, command in top_commands().items():
        by_name[name] = command
        below = command.commands if isinstance(command, click.Group) else {}
        by_name |= {f"{name} {inner}": value for inner, value in below.items()}
    return by_name
