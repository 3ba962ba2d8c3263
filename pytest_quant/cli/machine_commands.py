"""``pytest-quant cache``, ``doctor`` and ``selftest``: what this machine keeps, what can run here, how steady it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache, StoredEntry
from pytest_quant.cli.common import history_option, history_place, nearest_folder, say, show, show_json, split_names
from pytest_quant.doctor.examine import describe, examine
from pytest_quant.doctor.probe import OK
from pytest_quant.environment.machine import fingerprint
from pytest_quant.errors import UsageError, nearest
from pytest_quant.history.selftests import keep_selftest
from pytest_quant.measure.selftest import QUICK, WHOLE, run_selftest
from pytest_quant.measure.steps import Steps
from pytest_quant.printable import clean
from pytest_quant.record.record import plain
from pytest_quant.report.selftest_page import selftest_page
from pytest_quant.report.text import align

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
        entries, now = Cache(context.obj).entries(), time.time()
        if entries:
            rows = [("kind", "size", "built", "used", "of"), *(_cells(entry, now) for entry in entries)]
            show("\n".join(align(rows, right=(1, 2, 3))))
        say(f"{len(entries)} entries, {_size_mb(entries):.1f} MB in {context.obj}")


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
    removed, stayed = store.shrink(max_mb * int(1e6))
    note = f"; {stayed} entries stay, used in the last 24 h" if stayed else ""
    left = _size_mb(store.entries())
    say(f"{len(removed)} entries removed, {_size_mb(removed):.1f} MB freed, {left:.1f} MB left{note}")


def _size_mb(entries: Sequence[StoredEntry]) -> float:
    return sum(entry.size_bytes for entry in entries) / 1e6


def _cells(entry: StoredEntry, now: float) -> tuple[str, ...]:
    size = f"{entry.size_bytes / 1e6:.3f} MB"
    built, used = (f"{_age(now - at)} ago" for at in (entry.created, entry.last_used))
    what = clean(entry.slot) if entry.readable else "damaged; it is built again when it is needed"
    return clean(entry.kind), size, built, used, what


def _age(seconds: float) -> str:
    """Return an age in the largest unit that fits, ``3 h``."""
    return next((f"{seconds / length:.0f} {unit}" for unit, length in _UNITS if seconds >= length), "0 s")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--require", metavar="NAME[,NAME]", help="Exit with 1 unless these backends can run here.")
@click.option("--verbose", is_flag=True, help="Print the line that fixes each backend which cannot run here.")
def doctor(as_json: bool, require: str | None, verbose: bool) -> None:
    """Ask every backend whether it can run here: version and device of those that can, and why the others cannot.

    Exit code: 0, or with --require 1 unless all of those backends can run here, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant doctor
      pytest-quant doctor --verbose             with the line that fixes each of the others
      pytest-quant doctor --require=ort,trt     for the first step of a CI job
      pytest-quant doctor --json
    """  # noqa: D301 - click reads a backspace
    required = split_names(require)
    for name in required:
        get_backend(name)
    examination = examine(history_place(None))
    if as_json:
        show_json(asdict(examination), indent=2)
    else:
        show(describe(examination, fixes=verbose))
    absent = [state for state in examination.backends if state.name in required and state.state != OK]
    for state in absent:
        fix = f"\n  next: {state.fix}" if state.fix else ""
        say(f"required, but {state.name} cannot run here: {state.reason}{fix}", color="red", err=True)
    sys.exit(1 if absent else 0)


@click.command()
@click.option("--quick", is_flag=True, help="Ten launches in place of twenty, and two minutes at most.")
@click.option("--backend", metavar="NAME", help="Time models of this backend, a GPU's for one  [one on the processor]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every draw of the noise.")
@history_option
def selftest(quick: bool, backend: str | None, as_json: bool, place: str | None) -> None:
    """Time models of its own in fresh processes (launches), and print which limits on speed this machine holds.

    The result is kept in the history by the identity of the machine, and the newest one counts: checks on machines like
    it allow for its noise. Ctrl-C keeps what was measured. Run it while nothing else runs, or as busy as the machine is
    when it runs tests.

    \b
    Examples:
      pytest-quant selftest --quick
      pytest-quant selftest --history postgresql://ci@db/quant     for all runners of its kind
    """  # noqa: D301 - click reads a backspace
    steps = Steps(lambda text: say(text, err=True))
    result = run_selftest(QUICK if quick else WHOLE, fingerprint().identity, steps=steps, backend=backend)
    if as_json:
        show_json(plain(result, "self-test"))
    else:
        show(selftest_page(result))
    keep_selftest(history_place(place), result)
