"""Checks whose worker of xdist crashed or was killed: it leaves what it begins, its controller makes an ERROR of it."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.errors import QuantError
from pytest_quant.files import own_folder
from pytest_quant.host import memory_kills, quote
from pytest_quant.record import Json, build_failed_record
from pytest_quant.result import Status
from pytest_quant.spec import Check


def _file_of(worker: dict[str, Any]) -> Path:
    return own_folder("work") / f"{worker['testrunuid']}-{worker['workerid']}"


def note_begun(item: pytest.Item, check: Check) -> None:
    """Leave on the disk what begins, if this is a worker of xdist: a worker that dies says nothing.

    Parameters
    ----------
    item : the test.
    check : what is known of its check.
    """
    worker = getattr(item.config, "workerinput", None)
    if worker is None:
        return
    # A disk that takes nothing costs a crash its row, and nothing else.
    with suppress(OSError):
        record = build_failed_record(check, status=Status.ERROR, message="").json
        item.config.add_cleanup(lambda: _file_of(worker).unlink(missing_ok=True))
        _file_of(worker).write_text(json.dumps([item.nodeid, os.getpid(), memory_kills(), record]), "utf-8")


def record_of_crash(report: pytest.TestReport) -> dict[str, Json] | None:
    """Return the record of the check that a worker was at when it ended; ``None`` if that was no check.

    Parameters
    ----------
    report : of the crash, from xdist; the record's message is added to it.
    """
    with suppress(OSError):
        file = _file_of(vars(report)["node"].workerinput)
        nodeid, pid, kills, record = json.loads(file.read_text("utf-8"))
        file.unlink()
        if nodeid == report.nodeid:
            ending, fix = _describe_ending(pid), f"see where, in a process that prints it: pytest {quote(nodeid)} -n 0"
            if new := memory_kills() - kills:
                ending += f", and the system ended {new} of this cgroup for want of memory meanwhile"
                fix = "run fewer checks at once, -n 1, or give the job more memory"
            message = str(QuantError(f"the process that ran this check ended{ending}", fix=fix))
            report.longrepr = f"{report.longrepr}\n{message}"
            return {**record, "message": message}
    return None


def _describe_ending(pid: int) -> str:
    """Return how a child ended, `` with SIGSEGV`` or `` with exit code 11``; empty if the system does not report it."""
    # Not on every system, and not of a worker on another machine.
    with suppress(AttributeError, OSError):
        # One that closed its pipes is the system's for a moment before its end is known: a second at most.
        for _ in range(100):
            # It is left for execnet, which waits for its workers too.
            if ended := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                code = ended.si_status
                return f" with {f'exit code {code}' if ended.si_code == os.CLD_EXITED else signal.Signals(code).name}"
            time.sleep(0.01)
    return ""
