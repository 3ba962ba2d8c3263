"""``pytest-quant push``."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_quant.cli.git_branch import branch_option, remote_option
from pytest_quant.cli.places import existing_history, history_option


@click.command(short_help="Add the history's runs to a branch of the git remote.")
@remote_option
@branch_option
@history_option
def push(remote: str, branch: str, place: str | None) -> None:
    """Add every run that is not there yet to a branch of its own, one new file each.

    The branch shares no commit with the code; working tree, index and branches here stay as they are, and so do
    files of others that push at the same time. Hooks are not run.

    \b
    Example:
      pytest-quant push --remote origin
    """  # noqa: D301 - click reads a backspace
    where = existing_history(place)
    # Here, because it loads the database.
    from pytest_quant.history import open_store
    from pytest_quant.history.git_files import GitFiles
    from pytest_quant.history.git_store import push as push_runs

    number = push_runs(open_store(where), GitFiles(Path.cwd(), remote, branch))
    click.echo(f"{number} runs added to the branch {branch} of {remote}")
