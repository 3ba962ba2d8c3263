"""``pytest-quant pull``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pytest_quant.cli.git_branch import branch_option, remote_option
from pytest_quant.cli.places import history_option, history_place


@click.command(short_help="Add the runs on a branch of the git remote to the history.")
@remote_option
@branch_option
@history_option
def pull(remote: str, branch: str, place: str | None) -> None:
    """Add every run on the branch that the history has not; see pytest-quant push.

    A file that cannot be read is named and keeps no other one out; then the exit code is 1.

    \b
    Example:
      pytest-quant pull --remote origin
    """  # noqa: D301 - click reads a backspace
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.git_files import GitFiles
    from pytest_quant.history.git_store import pull as pull_runs
    from pytest_quant.report import clean

    where = history_place(place)
    pulled = pull_runs(open_store(where), GitFiles(Path.cwd(), remote, branch))
    click.echo(f"{pulled.added} runs added to {where}, {pulled.known} already there")
    for reason in pulled.refused:
        click.secho("\n".join(clean(line) for line in reason.split("\n")), fg="red", err=True)
    sys.exit(1 if pulled.refused else 0)
