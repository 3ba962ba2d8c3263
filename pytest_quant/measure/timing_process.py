"""A fresh interpreter that opens the built engines of one check and times them, and nothing else.

Two launches of one model differ by more than two measurements within one: where its memory lies, how its threads are
placed. So a ratio that must hold for the model, and not for one process, is measured in several.

`TimingJob` describes what is timed and is kept in a file; `TimingProcess` is one process that has opened it. What hangs
or crashes there takes nothing else with it, and the process ends when this one does, however that ends. It takes no
locks: who asks it to time holds the devices of the check alone, see `pytest_quant.measure.lock`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, TypeAlias, TypeVar

import msgspec

from pytest_quant.backends.child_process import run_child
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.errors import LaunchError, QuantError
from pytest_quant.host import join_pipe, start_piped
from pytest_quant.measure.build import CANNOT_BE_PACKED, map_models, pack, unpack
from pytest_quant.measure.engine_trio import EngineTrio
from pytest_quant.measure.engines import TimingSubject, usable_backend
from pytest_quant.measure.interleave import Block
from pytest_quant.measure.steps import STEP_TIMEOUT_S
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan, Model

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Answered = TypeVar("Answered")

_START = (
    "import json, sys; "
    "sys.path[:] = json.loads(open(sys.argv[1], 'rb').readline())['path']; "
    f"from {__name__} import serve; serve()"
)
"""Packages are found where the process that wrote the file finds them: it may have been told by pytest, not by us."""

_NEXT = "the figures of this process stand for themselves; the error of the other process says what it could not open"


@dataclass(frozen=True, slots=True)
class TimingJob:
    """A timed check: its built engines in the cache, the very arrays that they are fed, and the plan."""

    reference: TimingSubject
    candidate: TimingSubject
    plan: LatencyPlan

    def save(self, file: Path) -> None:
        """Write the description into a new file, which only this user can read.

        Torch modules are replaced by their signatures, because the engines are built already.

        Raises
        ------
        LaunchError : an engine is a function, its backend is not registered, or its options have a value that exists in
            this process only.
        """
        job = replace(self, reference=_drop_module(self.reference), candidate=_drop_module(self.candidate))
        name, devices = self.candidate.built.name, sorted({self.reference.device, self.candidate.device})
        sample, path = self.candidate.sample, [str(Path(folder).absolute()) for folder in sys.path]
        header = {"name": name, "devices": devices, "shapes": sample.inputs if sample else "", "path": path}
        try:
            packed = pack(job)
        except CANNOT_BE_PACKED as error:
            raise wrap_error(f"{name} can be timed in this process only", error, fix=_NEXT, kind=LaunchError) from error
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as written:  # noqa: PTH123 - a descriptor has no path
            written.write(json.dumps(header).encode() + b"\n" + packed)

    @classmethod
    def load(cls, file: Path) -> TimingJob:
        """Read what `save` wrote. Only for files of this user: as any pickle, it can run what it says."""
        with file.open("rb") as content:
            content.readline()
            job: TimingJob = unpack(content.read())
        return job


def read_header(file: Path) -> tuple[str, tuple[str, ...], str]:
    """Return name, devices and shapes of the candidate in a file of `TimingJob.save`, without unpickling the rest."""
    with file.open("rb") as content:
        header = json.loads(content.readline())
    return header["name"], tuple(header["devices"]), header["shapes"]


def _drop_module(subject: TimingSubject) -> TimingSubject:
    built = subject.built
    if built.backend.offer.is_opaque:
        words = "callables are timed in this process only"
        raise LaunchError(words, value=f"{built.name} is a function, which no other process has")

    def signature_only(model: Model) -> Model:
        if model.module is None:
            return model
        return replace(model, module=None, example_inputs=None, reset=None, signature=built.backend.signature(model))

    return replace(subject, built=replace(built, spec=map_models(built.spec, signature_only)))


Request: TypeAlias = LatencyPlan | tuple[int, int] | None
"""A whole interleaved measurement by a plan; one block, by the number of its engine and its runs; or nothing more."""


@dataclass(eq=False)
class TimingProcess:
    """One fresh interpreter with two sessions of the reference and one of the candidate, open while the block runs.

    Parameters
    ----------
    file : a description that `TimingJob.save` wrote.
    python : the interpreter; another one than this process's must have this package, and the runtimes.
    cwd, environment : of the process; ``None`` for those of this one.
    limit_s : longest time in seconds for one answer, opening included; ``None`` for no bound.
    """

    file: Path
    _: KW_ONLY
    python: str = sys.executable
    cwd: Path | None = None
    environment: Mapping[str, str] | None = None
    limit_s: float | None = STEP_TIMEOUT_S

    def __enter__(self) -> Self:
        """Start the process and wait until it has opened all sessions.

        Raises
        ------
        LaunchError : it cannot be started, or cannot open an engine from the cache alone.
        """
        self._what, *_ = read_header(self.file)
        with ExitStack() as held:
            self._log: IO[str] = held.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            self._start(held)
            held.callback(self._stop)
            self._answer(type(None), "opening")
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: by itself, or by force when it does not end soon."""
        self._held.close()

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time reference, null and candidate interleaved. Raises `LaunchError` when that fails or takes too long."""
        return self._ask(plan, LatencyResult)

    def block(self, engine: int, runs: int) -> Block:
        """Time a cold run and `runs` more of one engine: 0 is the reference, 1 the null, 2 the candidate.

        Raises `LaunchError` as `measure` does.
        """
        return self._ask((engine, runs), Block)

    def _start(self, held: ExitStack) -> None:
        def start(pipe: str, descriptors: Sequence[int]) -> subprocess.Popen[str]:
            command = (self.python, "-P", "-c", _START, str(self.file.absolute()), pipe)
            return held.enter_context(run_child(command, self._log, descriptors, self.cwd, self.environment))

        try:
            self._pipe, self._process = start_piped(start)
        except OSError as error:
            fix = "let this user run it, or install that Python again; the figures of this process stand for themselves"
            raise wrap_error(f"{self.python} cannot be started", error, fix=fix, kind=LaunchError) from error
        held.callback(self._pipe.close)

    def _stop(self) -> None:
        with suppress(OSError):
            self._pipe.send_bytes(msgspec.msgpack.encode(None))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10.0)

    def _ask(self, request: Request, kind: type[Answered]) -> Answered:
        # Where the process has died its pipe is broken, and the answer says how.
        with suppress(OSError):
            self._pipe.send_bytes(msgspec.msgpack.encode(request))
        return self._answer(kind, "timing")

    def _answer(self, kind: type[Answered], doing: str) -> Answered:
        words = f"{doing} {self._what} in a fresh process failed"
        try:
            if not self._pipe.poll(self.limit_s):
                self._process.kill()
                raise self._failure(words, f"it did not end within {self.limit_s:g} s")
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError) as lost:
            code = self._process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            lines = [line for line in self._written().splitlines() if line.strip()]
            last = lines[-1] if lines else "it wrote nothing"
            raise self._failure(words, f"it died with {how}: {last}") from lost
        value, error = msgspec.msgpack.decode(answer, type=tuple[msgspec.Raw, str | None])
        if error is not None:
            raise LaunchError(words, value=error, fix=_NEXT)
        return msgspec.msgpack.decode(value, type=kind)

    def _failure(self, words: str, value: str) -> QuantError:
        return wrap_error(words, self._written(), value=value, fix=_NEXT, kind=LaunchError)

    def _written(self) -> str:
        self._log.seek(0, os.SEEK_SET)
        return self._log.read()


def serve() -> None:
    """Open what the file on the command line describes, and answer requests until there are no more.

    They are read in a thread of its own, which sleeps while there are none: when the other end of the pipe is gone,
    because the process that asked was killed, it ends this one in the middle of whatever it does.
    """
    file, word = sys.argv[1:]
    # Ctrl-C reaches the whole group of a terminal; whoever asked decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    pipe = join_pipe(word)
    pending: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(pipe, pending), name="quant-requests", daemon=True).start()
    try:
        job = TimingJob.load(Path(file))
        for subject in (job.reference, job.candidate):
            subject.built.backend.before_loading(subject.built.spec)
            usable_backend(subject.built.spec, subject.built.backend)
        with EngineTrio(job.reference, job.candidate, job.plan.pages) as sessions:
            pipe.send_bytes(msgspec.msgpack.encode((None, None)))
            while (request := pending.get()) is not None:
                value = sessions.measure(request) if isinstance(request, LatencyPlan) else sessions.block(*request)
                pipe.send_bytes(msgspec.msgpack.encode((value, None)))
    except QuantError as error:
        pipe.send_bytes(msgspec.msgpack.encode((None, str(error))))


def _read_requests(pipe: Connection, pending: queue.SimpleQueue[Request]) -> None:
    while True:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)
        pending.put(msgspec.msgpack.decode(request, type=Request))
