"""The command ``pytest-quant``. Requirements of a command are imported when it runs, so that help is fast."""

from __future__ import annotations

import sys

import click

from pytest_quant.cli.accept import accept
from pytest_quant.cli.bisect import bisect
from pytest_quant.cli.cache import cache
from pytest_quant.cli.comment import comment
from pytest_quant.cli.compare import compare
from pytest_quant.cli.doctor import doctor
from pytest_quant.cli.echo import say
from pytest_quant.cli.exchange import export, import_records, pull, push
from pytest_quant.cli.guide import guide
from pytest_quant.cli.history import history
from pytest_quant.cli.init import init
from pytest_quant.cli.profile import profile
from pytest_quant.cli.prune import prune
from pytest_quant.cli.report import report
from pytest_quant.cli.selftest import selftest
from pytest_quant.errors import QuantError, UsageError, nearest

__all__ = ["commands", "main"]


class _Commands(click.Group):
    """A group that names the nearest command when one is unknown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Raises `UsageError`."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise UsageError(f"there is no command '{args[0]}'", allowed=nearest(args[0], self.commands))
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pytest-quant")
def commands() -> None:
    """Look after what pytest-quant keeps: its history of records and its cache of engines, and look into one check.

    Both lie in the folder .quant of the project, which is looked for here and in the folders above.

    \b
    Examples:
      pytest-quant guide                 the guides; with a topic, one of them
      pytest-quant init model.onnx       a first test, its fixtures and the workflow of CI
      pytest-quant doctor                which backends can run here, and how to fix the others
      pytest-quant selftest --quick      which limits on speed this machine can hold
      pytest-quant profile NODEID        which layers of one check take the time, next to those of its reference
      pytest-quant history               the last runs
      pytest-quant history RUN           every check of one run, with its figures
      pytest-quant history resnet int8   the series with these words in their names; every check where it is one
      pytest-quant history --json        the same as the documents of --quant-json
      pytest-quant compare               what changed since the merge base with the target branch
      pytest-quant comment FILE          post a report as a comment of a pull request, or update it
      pytest-quant report -o FILE        a page of the last run, its comparison and the history, for a browser
      pytest-quant bisect TEST GOOD BAD  which commit made a test slower or worse
      pytest-quant accept --reason WHY   make the last records of this commit the baseline
      pytest-quant history --changes     at which commits a figure changed
      pytest-quant export FILE           every run as newline-delimited JSON, or as what other tools read
      pytest-quant import FILE           add the runs of such a file, or of pytest-benchmark or asv
      pytest-quant push                  add the runs to a branch of the git remote
      pytest-quant pull                  add the runs on that branch
      pytest-quant prune --keep-runs N   make the history smaller
      pytest-quant cache                 what is kept, how large and how old
      pytest-quant cache clear           remove all of it; the next run builds anew
    """  # noqa: D301 - click reads a backspace


commands.add_command(accept)
commands.add_command(bisect)
commands.add_command(cache)
commands.add_command(comment)
commands.add_command(compare)
commands.add_command(doctor)
commands.add_command(export)
commands.add_command(guide)
commands.add_command(history)
commands.add_command(import_records)
commands.add_command(init)
commands.add_command(profile)
commands.add_command(prune)
commands.add_command(pull)
commands.add_command(push)
commands.add_command(report)
commands.add_command(selftest)


def main() -> None:
    """Run the command line; exit 0 when all went well, 2 with a message on stderr when not."""
    try:
        # Without arguments newer versions of click treat the help as an error. The name is set, because click would use
        # that of the caller, "python -m package.module" for a module.
        sys.exit(commands(sys.argv[1:] or ["--help"], prog_name="pytest-quant", standalone_mode=False))
    except click.exceptions.Abort:
        say("aborted", err=True)
        sys.exit(1)
    except click.ClickException as error:
        _tell(_as_ours(error))
    except QuantError as error:
        _tell(error)
    sys.exit(2)


def _tell(error: QuantError) -> None:
    say(f"error: {error}", color="red", err=True)


def _as_ours(error: click.ClickException) -> QuantError:
    """Return click's error about the arguments of a command in the form of all other errors."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "pytest-quant" if context is None else context.command_path
    text = error.format_message().rstrip(".")
    return UsageError(text[:1].lower() + text[1:], fix=f"see: {command} --help")
