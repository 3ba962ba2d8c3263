"""A launch: a fresh interpreter that opens the built engines of one check and times them, and nothing else.

Two launches of one model differ by more than two measurements within one: where its memory lies, how its threads are
placed. So a ratio that must hold for the model, and not for one process, is measured in several.

`Launchable` describes what is timed and is kept in a file; `Launch` is one process that has opened it. What hangs or
crashes there takes nothing else with it, and the process ends when this one does, however that ends. It takes no locks:
who asks it to time holds the devices of the check alone, see `pytest_quant.measure.lock`.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import msgspec

from pytest_quant.backends import Backend, backend_names, get_backend
from pytest_quant.backends.apart import running_apart
from pytest_quant.backends.runtime import failed, failed_with_text
from pytest_quant.errors import LaunchError, QuantError
from pytest_quant.measure.block import Block
from pytest_quant.measure.sessions import Subject
from pytest_quant.measure.watchdog import STEP_TIMEOUT_S
from pytest_quant.result import LatencyResult
from pytest_quant.spec import LatencyPlan, Model

Found = TypeVar("Found")

_MODULE = "pytest_quant.measure.launched"
_START = (
    "import json, sys; "
    "sys.path[:] = json.loads(open(sys.argv[1], 'rb').readline())['path']; "
    f"from {_MODULE} import main; main()"
)
"""Packages are found where the process that wrote the file finds them: it may have been told by pytest, not by us."""

_ENDS_WITHIN_S = 10.0
_OWNER_ONLY = 0o600
_NEXT = "the figures of this process stand for themselves; the text of the other one says what it could not open"


class Header(msgspec.Struct):
    """The first line of a file: what is known of it without the classes of its engines.

    Attributes
    ----------
    what : the candidate and its model, for messages.
    devices : that it runs on, to be held alone meanwhile.
    path : folders in which Python looks for packages.
    """

    what: str
    devices: tuple[str, ...]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launchable:
    """A timed check: its built engines in the cache, the very arrays that they are fed, and the plan.

    Make one with `of`, which leaves out what no other process can have.
    """

    reference: Subject
    candidate: Subject
    plan: LatencyPlan

    @classmethod
    def of(cls, reference: Subject, candidate: Subject, plan: LatencyPlan) -> Launchable:
        """Describe what is timed; of torch modules nothing but inputs and outputs, since their engines are built."""
        return cls(_without_module(reference), _without_module(candidate), plan)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that both engines run on, each once."""
        return tuple(sorted({self.reference.backend.device, self.candidate.backend.device}))

    def save(self, file: Path) -> None:
        """Write the description into a new file, which only this user can read.

        Raises
        ------
        LaunchError : a backend that is not registered, or a value in its options, exists in this process only.
        """
        spec = self.candidate.spec
        path = tuple(str(Path(folder).absolute()) for folder in sys.path)
        header = Header(f"{spec.id} of {spec.model.name}", self.devices, path)
        content = io.BytesIO()
        content.write(msgspec.json.encode(header) + b"\n")
        try:
            _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            what = f"{header.what} can be timed in this process only"
            raise failed(what, error, fix=_NEXT, kind=LaunchError) from error
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with open(descriptor, "wb") as written:  # noqa: PTH123 - a descriptor has no path
            written.write(content.getvalue())

    @classmethod
    def load(cls, file: Path) -> Launchable:
        """Read what `save` wrote. Only for files of this user: as any pickle, it can run what it says."""
        with file.open("rb") as content:
            content.readline()
            found = _Unpickler(content).load()
        assert isinstance(found, cls)  # nosec B101 # noqa: S101 - for the type checker: nothing else is written
        return found


def read_header(file: Path) -> Header:
    """Return what a file of `Launchable.save` says of itself."""
    with file.open("rb") as content:
        return msgspec.json.decode(content.readline(), type=Header)


def _without_module(subject: Subject) -> Subject:
    spec, backend = subject.spec, subject.backend
    quantized = None if spec.quantized is None else _left_behind(spec.quantized, backend)
    return replace(subject, spec=replace(spec, model=_left_behind(spec.model, backend), quantized=quantized))


def _left_behind(model: Model, backend: Backend) -> Model:
    if model.module is None:
        return model
    return replace(model, module=None, example_inputs=None, signature=backend.signature(model))


class _Pickler(pickle.Pickler):
    """Writes registered backends by their names: they may hold what belongs to one process."""

    def persistent_id(self, obj: object) -> str | None:
        name = getattr(obj, "name", None)
        known = isinstance(name, str) and not isinstance(obj, type) and name in backend_names()
        return name if known and get_backend(str(name)) is obj else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Backend:
        return get_backend(pid)


class Measure(msgspec.Struct, tag=True):
    """Asks for a whole interleaved measurement."""

    plan: LatencyPlan


class TimeBlock(msgspec.Struct, tag=True):
    """Asks for one block of one engine."""

    engine: int
    runs: int


class Stop(msgspec.Struct, tag=True):
    """Asks to close the sessions and end."""


Asked = Measure | TimeBlock | Stop


class Answer(msgspec.Struct, omit_defaults=True):
    """What was found, encoded; or the words of the error that came in its place."""

    found: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str | None = None


class Launch:
    """One fresh interpreter with two sessions of the reference and one of the candidate, open while the block runs.

    Parameters
    ----------
    file : a description that `Launchable.save` wrote.
    python : the interpreter; another one than this process's must have this package, and the runtimes.
    cwd, environment : of the process; ``None`` for those of this one.
    limit_s : longest time in seconds for one answer, opening included; ``None`` for no bound.
    """

    def __init__(
        self,
        file: Path,
        *,
        python: str = sys.executable,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        limit_s: float | None = STEP_TIMEOUT_S,
    ) -> None:
        self._file = file
        self._python = python
        self._cwd = cwd
        self._environment = environment
        self._limit_s = limit_s
        self._held = ExitStack()

    def __enter__(self) -> Self:
        """Start the process and wait until it has opened all sessions.

        Raises
        ------
        LaunchError : it cannot be started, or cannot open an engine from the cache alone.
        """
        self._what = read_header(self._file).what
        with ExitStack() as held:
            self._log: IO[str] = held.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            self._process, self._pipe = self._start(held)
            held.callback(self._stop)
            self._answer(type(None), "opening")
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: by itself, or by force when it does not end soon."""
        self._held.close()

    def measure(self, plan: LatencyPlan) -> LatencyResult:
        """Time reference, null and candidate interleaved. Raises `LaunchError` when that fails or takes too long."""
        return self._ask(Measure(plan), LatencyResult, "timing")

    def block(self, engine: int, runs: int) -> Block:
        """Time a cold run and `runs` more of one engine: 0 is the reference, 1 the null, 2 the candidate.

        Raises `LaunchError` as `measure` does.
        """
        return self._ask(TimeBlock(engine, runs), Block, "timing")

    def _start(self, held: ExitStack) -> tuple[subprocess.Popen[str], Connection]:
        ours, theirs = Pipe()
        held.callback(ours.close)
        limit = "0" if self._limit_s is None else f"{self._limit_s:g}"
        command = (self._python, "-P", "-c", _START, str(self._file.absolute()), str(theirs.fileno()), limit)
        try:
            process = held.enter_context(
                running_apart(command, self._log, [theirs.fileno()], self._cwd, self._environment)
            )
        except OSError as error:
            raise failed(f"{self._python} cannot be started", error, fix=_NEXT, kind=LaunchError) from error
        finally:
            theirs.close()
        return process, ours

    def _stop(self) -> None:
        with suppress(OSError):
            self._pipe.send_bytes(msgspec.msgpack.encode(Stop()))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN_S)

    def _ask(self, asked: Asked, kind: type[Found], doing: str) -> Found:
        try:
            self._pipe.send_bytes(msgspec.msgpack.encode(asked))
        except OSError as error:
            raise self._died(doing) from error
        return self._answer(kind, doing)

    def _answer(self, kind: type[Found], doing: str) -> Found:
        try:
            if not self._pipe.poll(self._limit_s):
                self._process.kill()
                raise self._failure(doing, f"it did not end within {self._limit_s:g} s", self._told())
            answer = msgspec.msgpack.decode(self._pipe.recv_bytes(), type=Answer)
        except (EOFError, OSError) as error:
            raise self._died(doing) from error
        if answer.error is not None:
            raise LaunchError(self._words(doing), value=answer.error, fix=_NEXT)
        return msgspec.msgpack.decode(answer.found, type=kind)

    def _died(self, doing: str) -> QuantError:
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        lines = [line for line in self._told().splitlines() if line.strip()]
        return self._failure(doing, f"it died with {how}: {lines[-1] if lines else 'it wrote nothing'}", self._told())

    def _failure(self, doing: str, value: str, text: str) -> QuantError:
        return failed_with_text(self._words(doing), text, value=value, fix=_NEXT, kind=LaunchError)

    def _words(self, doing: str) -> str:
        return f"{doing} {self._what} in a fresh process failed"

    def _told(self) -> str:
        self._log.seek(0, os.SEEK_SET)
        return self._log.read()
