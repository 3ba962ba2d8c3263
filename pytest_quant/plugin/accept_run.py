"""``--quant-accept``: the records of a run become baselines at its end, as ``pytest-quant accept`` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.errors import QuantError
from pytest_quant.history import StoredCheck
from pytest_quant.history.baselines.acceptance import Reason, accept_checks, changed_lines
from pytest_quant.history.baselines.file import NAME
from pytest_quant.record import Record, Run


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came of it: lines for the reader, and the reason why the run fails, empty where it was done."""

    lines: tuple[str, ...] = ()
    fault: str = ""


def accept_run(root: Path, run: Run, records: Sequence[Record], reason: str, *, ended: bool) -> Accepted:
    """Write the records into the file of baselines; nothing is written where one of them must not be there.

    Parameters
    ----------
    root : folder of the file.
    run : that the records are of.
    records : of all its checks.
    reason : for those who review the change.
    ended : pytest has come to the end of the tests; a run that was interrupted accepts nothing.
    """
    if not ended:
        return Accepted(fault="--quant-accept: the run was interrupted, so nothing was accepted")
    try:
        checks = [StoredCheck(run, record) for record in records]
        found = accept_checks(root / NAME, checks, Reason.now(reason))
        lines = changed_lines(*found.texts(), NAME)
        found.write()
    except QuantError as error:
        return Accepted(fault=f"--quant-accept: nothing was accepted: {error}")
    return Accepted((*lines, f"--quant-accept: {len(found.entries)} series accepted; commit {found.file}"))
