"""Hooks of ours that a conftest.py or another plugin implements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_quant.record import Record, Run


@pytest.hookspec()
def pytest_quant_record(record: Record, run: Run, config: pytest.Config) -> None:
    """Take the record of one check, to send it elsewhere.

    It is called at the end of the run in the controlling process, once for each check in the order of the tests, also
    under pytest-xdist, when the history and the file of ``--quant-json`` are written and before anything is printed.
    Checks that are skipped or in error have a record too; one whose test ran several times is the last one. It is not
    called with ``--collect-only``, nor in the processes that ``--quant-against`` and ``pytest-quant bisect`` start for
    other commits.

    An exception is a warning in red at the end of the run, and changes neither outcomes nor what is recorded.

    Parameters
    ----------
    record : everything that is kept of the check; its sections are ``None`` where it could not be measured.
    run : commit, branch and machine of this run.
    config : of pytest.
    """
