"""What ``push`` and ``pull`` share."""

from __future__ import annotations

import click

remote_option = click.option("--remote", default="origin", show_default=True, help="Name or address of the repository.")
branch_option = click.option(
    "--branch", default="pytest-quant-history", show_default=True, help="Where the records lie; nothing else is there."
)
