"""The fresh process of a `Launch`: opens the engines of a file, and times them as it is asked through a pipe.

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from pytest_quant.backends import EarlyBackend
from pytest_quant.errors import BackendUnavailable, QuantError
from pytest_quant.measure.launch import Answer, Asked, Launchable, Measure, Stop, TimeBlock
from pytest_quant.measure.sessions import Sessions, Subject, open_sessions

_LATER_S = 60.0
"""Who asked ends this process at the limit; it ends itself where that one is gone and a native call never returns."""


class _Requests:
    """What is asked, in order; the end of the pipe ends the process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._asked: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="quant-launched", daemon=True).start()

    def next(self) -> Asked:
        """Return the next request, when there is one."""
        return self._asked.get()

    def _read(self) -> None:
        while True:
            try:
                asked = self._pipe.recv_bytes()
            except (EOFError, OSError):
                os._exit(0)
            self._asked.put(msgspec.msgpack.decode(asked, type=Asked))


def main() -> None:
    """Open what the file describes that the command line names, and answer until told to stop."""
    file, descriptor, limit = sys.argv[1:]
    # Ctrl-C reaches the whole group of a terminal; whoever asked decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    os.set_inheritable(int(descriptor), False)
    pipe = Connection(int(descriptor))
    requests = _Requests(pipe)
    serve(Path(file), pipe.send_bytes, requests.next, float(limit))


def serve(file: Path, answer: Callable[[bytes], object], next_request: Callable[[], Asked], limit_s: float) -> None:
    """Open the engines of a file, and answer requests until one of them is to stop, or one fails.

    Parameters
    ----------
    file : see `Launchable.save`.
    answer : takes an encoded `Answer` when the engines are open, and one for each request.
    next_request : waits for a request and returns it.
    limit_s : longest time of one answer in seconds; 0 for no bound.
    """
    try:
        with ExitStack() as opened:
            with _bounded(limit_s):
                launchable = Launchable.load(file)
                for subject in (launchable.reference, launchable.candidate):
                    _require(subject)
                sides = launchable.reference, launchable.candidate
                sessions = opened.enter_context(open_sessions(*sides, launchable.plan.pages))
            answer(msgspec.msgpack.encode(Answer()))
            while not isinstance(asked := next_request(), Stop):
                with _bounded(limit_s):
                    found = _found(sessions, asked)
                answer(msgspec.msgpack.encode(Answer(msgspec.Raw(msgspec.msgpack.encode(found)))))
    except QuantError as error:
        answer(msgspec.msgpack.encode(Answer(error=str(error))))


def _found(sessions: Sessions, asked: Measure | TimeBlock) -> object:
    if isinstance(asked, Measure):
        return sessions.measure(asked.plan)
    return sessions.block(asked.engine, asked.runs)


def _require(subject: Subject) -> None:
    """Ready a runtime as a run of pytest does. Raises `BackendUnavailable` where it cannot run here."""
    if isinstance(subject.backend, EarlyBackend):
        subject.backend.before_loading(subject.spec)
    availability = subject.backend.availability(subject.spec)
    if not availability.available:
        raise BackendUnavailable(
            f"backend '{subject.spec.backend}' cannot run here: {availability.reason}", fix=availability.fix or None
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
