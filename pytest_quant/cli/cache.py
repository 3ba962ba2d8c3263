"""``pytest-quant cache``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from pytest_quant.cache import Cache, StoredEntry
from pytest_quant.cli.common import nearest_folder, say, show
from pytest_quant.errors import UsageError, nearest
from pytest_quant.printable import clean
from pytest_quant.report.text import aligned

_BYTES_PER_MB = 1e6
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


@click.group(invoke_without_command=True)
@click.option(
    "--cache", "root", type=click.Path(path_type=Path), metavar="DIR", help="As given to --quant-cache  [.quant/cache]"
)
@click.pass_context
def cache(context: click.Context, root: Path | None) -> None:
    """Show what is kept, the last used first: engines, calibrations and outputs of references.

    \b
    Examples:
      pytest-quant cache
      pytest-quant cache trim --max-mb 1000      before CI keeps it for its next job
      pytest-quant cache clear --kind engine --yes
    """  # noqa: D301 - click reads a backspace
    context.obj = root or nearest_folder() / "cache"
    if context.invoked_subcommand is None:
        _show(context.obj)


@cache.command(short_help="Remove what is kept.")
@click.option("--kind", metavar="KIND", help="Only this kind, as 'pytest-quant cache' lists it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def clear(root: Path, kind: str | None, yes: bool) -> None:
    """Remove what is kept, which the next run builds anew. Not while tests run: they would lose their engines."""
    store = Cache(root)
    entries = store.entries()
    kinds = {entry.kind for entry in entries}
    if not entries:
        say(f"{root} is empty")
        return
    if kind is not None and kind not in kinds:
        raise UsageError(f"the cache holds no '{kind}'", allowed=nearest(kind, kinds))
    number = sum(entry.kind == kind or kind is None for entry in entries)
    if not yes:
        click.confirm(clean(f"Remove {number} of {len(entries)} entries from {root}?"), abort=True)
    removed, stayed = store.clear(kind)
    note = f"; {stayed} stay, which a process builds or looks up just now" if stayed else ""
    say(f"{len(removed)} entries removed, {_size_mb(removed):.1f} MB freed{note}")


@cache.command(short_help="Make the cache smaller: what was not used for longest goes.")
@click.option("--max-mb", type=click.IntRange(min=0), required=True, metavar="MB", help="What may stay, in 10^6 bytes.")
@click.pass_obj
def trim(root: Path, max_mb: int) -> None:
    """Remove what was not used for longest until at most MB are left; what was used in the last 24 h stays."""
    store = Cache(root)
    removed, stayed = store.shrink(max_mb * int(_BYTES_PER_MB))
    note = f"; {stayed} entries stay, used in the last 24 h" if stayed else ""
    left = _size_mb(store.entries())
    say(f"{len(removed)} entries removed, {_size_mb(removed):.1f} MB freed, {left:.1f} MB left{note}")


def _show(root: Path) -> None:
    entries = Cache(root).entries()
    now = time.time()
    if entries:
        rows = [("kind", "size", "built", "used", "of"), *(_cells(entry, now) for entry in entries)]
        show("\n".join(aligned(rows, right=(1, 2, 3))))
    say(f"{len(entries)} entries, {_size_mb(entries):.1f} MB in {root}")


def _size_mb(entries: Sequence[StoredEntry]) -> float:
    return sum(entry.size_bytes for entry in entries) / _BYTES_PER_MB


def _cells(entry: StoredEntry, now: float) -> tuple[str, ...]:
    size = f"{entry.size_bytes / _BYTES_PER_MB:.3f} MB"
    built, used = (f"{_age(now - at)} ago" for at in (entry.created, entry.last_used))
    what = clean(entry.slot) if entry.readable else "damaged; it is built again when it is needed"
    return clean(entry.kind), size, built, used, what


def _age(seconds: float) -> str:
    """Return an age in the largest unit that fits, ``3 h``."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "0 s"
