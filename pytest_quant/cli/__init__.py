"""The command ``pytest-quant``."""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from pytest_quant.errors import QuantError, UsageError, nearest

__all__ = ["commands", "main"]

_COMMANDS = {
    "accept": "Make records the baseline, on purpose and with a reason.",
    "bisect": "Find the commit that made a test slower or worse.",
    "cache": "Show the cache, or clear it.",
    "check": "Check a model once without a test file, and print the test.",
    "comment": "Post a report as a comment of a pull request, or update it.",
    "compare": "Compare two commits, series by series.",
    "diagnose": "Find the cause why one check fails: calibration, a layer, kernels.",
    "doctor": "Show which backends can run here, and how to fix the others.",
    "guide": "Show a guide, or list them.",
    "history": "List runs, series and changes; export, import and thin them.",
    "init": "Write a first test of a model, its fixtures and a CI workflow.",
    "profile": "Show which layers of one check take the time, and its reference's.",
    "report": "Write a page about a commit for a browser.",
    "selftest": "Measure which differences in speed this machine can detect.",
}
"""What each command does. It is a function of its name, in the module of its name or in one of `_MODULES`."""

_MODULES = {
    "cache": "machine_commands",
    "check": "one_check",
    "doctor": "machine_commands",
    "report": "compare",
    "selftest": "machine_commands",
}


class _Commands(click.Group):
    """Imports the module of a command when the command is called, so that help comes at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """Return the names."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002 - click's own signature
        """Return a command. Raises `UsageError`, which names the nearest, for an unknown one."""
        if cmd_name not in _COMMANDS:
            raise UsageError(f"there is no command '{cmd_name}'", allowed=nearest(cmd_name, _COMMANDS))
        module = _MODULES.get(cmd_name, cmd_name)
        command: click.Command = getattr(import_module(f"pytest_quant.cli.{module}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Write the list of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pytest-quant")
def commands() -> None:
    """Check models, and look into what runs recorded; COMMAND --help has examples."""


def main() -> None:
    """Run the command line; exit 0 when all went well, 2 with a message on stderr when not."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        # Without arguments newer versions of click treat the help as an error. The name is set, because click would use
        # that of the caller, "python -m package.module" for a module.
        sys.exit(commands(sys.argv[1:] or ["--help"], prog_name="pytest-quant", standalone_mode=False))
    except click.exceptions.Abort:
        _print_error("aborted")
        sys.exit(1)
    except click.ClickException as error:
        _print_error(f"error: {_convert_error(error)}", "red")
    except QuantError as error:
        _print_error(f"error: {error}", "red")
    sys.exit(2)


def _print_error(text: str, color: str | None = None) -> None:
    # Here, because help does without what the commands share.
    from pytest_quant.cli.common import say

    say(text, color=color, err=True)


def _convert_error(error: click.ClickException) -> QuantError:
    """Return click's error about the arguments of a command in the form of all other errors."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "pytest-quant" if context is None else context.command_path
    text = error.format_message().rstrip(".")
    return UsageError(text[:1].lower() + text[1:], fix=f"see: {command} --help")
