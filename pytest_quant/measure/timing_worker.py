"""The fresh process of a `TimingProcess`: opens the engines of a file, and times them as it is asked through a pipe.

It reads its requests in a thread of their own, which sleeps while there are none: when the other end of the pipe is
gone, because the process that asked was killed, it ends this one in the middle of whatever it does.
"""

from __future__ import annotations

import faulthandler
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from pytest_quant.errors import BackendUnavailable, QuantError
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.sessions import open_sessions
from pytest_quant.measure.timing_process import Request, TimingAnswer, TimingJob
from pytest_quant.spec import LatencyPlan

_LATER_S = 60.0
"""The parent kills this process at its limit. If the parent is gone, the process ends itself a minute later."""

Requests = queue.SimpleQueue[Request]


def main() -> None:
    """Open what the file describes that the command line names, and answer until there are no more requests."""
    file, descriptor, limit = sys.argv[1:]
    # Ctrl-C reaches the whole group of a terminal; whoever asked decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    os.set_inheritable(int(descriptor), False)
    pipe = Connection(int(descriptor))
    pending: Requests = queue.SimpleQueue()
    threading.Thread(target=_read, args=(pipe, pending), name="quant-requests", daemon=True).start()
    try:
        _serve(Path(file), pipe, pending, float(limit))
    except QuantError as error:
        pipe.send_bytes(msgspec.msgpack.encode(TimingAnswer(error=str(error))))


def _read(pipe: Connection, pending: Requests) -> None:
    while True:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)
        pending.put(msgspec.msgpack.decode(request, type=Request))


def _serve(file: Path, pipe: Connection, pending: Requests, limit_s: float) -> None:
    """Open the engines of a file, and answer requests until one is ``None``; `limit_s` bounds each, 0 for no bound."""
    with ExitStack() as opened:
        with _bounded(limit_s):
            job = TimingJob.load(file)
            for subject in (job.reference, job.candidate):
                _require(subject.built)
            sessions = opened.enter_context(open_sessions(job.reference, job.candidate, job.plan.pages))
        pipe.send_bytes(msgspec.msgpack.encode(TimingAnswer()))
        while (request := pending.get()) is not None:
            with _bounded(limit_s):
                value = sessions.measure(request) if isinstance(request, LatencyPlan) else sessions.block(*request)
            pipe.send_bytes(msgspec.msgpack.encode(TimingAnswer(msgspec.Raw(msgspec.msgpack.encode(value)))))


def _require(built: BuiltEngine) -> None:
    """Ready a runtime as a run of pytest does. Raises `BackendUnavailable` where it cannot run here."""
    built.backend.before_loading(built.spec)
    availability = built.backend.availability(built.spec)
    if not availability.available:
        raise BackendUnavailable(
            f"backend '{built.spec.backend}' cannot run here: {availability.reason}", fix=availability.fix or None
        )


@contextmanager
def _bounded(limit_s: float) -> Iterator[None]:
    """End this process where the block hangs in a native call that lets no thread of Python go on."""
    if limit_s:
        faulthandler.dump_traceback_later(limit_s + _LATER_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
