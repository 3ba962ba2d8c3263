"""What strangers hand us: what may come out of it, and inputs met in a process of their own."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from hypothesis.strategies import SearchStrategy

from pytest_quant.errors import QuantError


@dataclass(frozen=True, slots=True)
class Target:
    """Something that strangers hand us.

    Attributes
    ----------
    cases : draws hostile inputs.
    meet : hands one over; what it raises, `QuantError` apart, is a finding.
    examples : inputs of one night.
    """

    cases: SearchStrategy[Any]
    meet: Callable[[Any], None]
    examples: int

    def meets(self, case: Any) -> None:
        """Hand `case` over; our errors, whose messages are printable, may come out and nothing else."""
        try:
            self.meet(case)
        except QuantError as error:
            check_message(str(error))


class EscapedError(Exception):
    """Something came out of another process that is none of our errors."""


class RawControlError(AssertionError):
    """A message holds a character that a terminal acts upon, or that cannot be encoded."""


def check_message(text: str) -> None:
    """Raise `RawControlError` where a text that is printed holds more than printable characters, line ends and tabs."""
    raw = sorted({char for char in text if not (char.isprintable() or char in "\n\t")})
    if raw:
        raise RawControlError(f"a message holds {raw!a}: {text[:400]!a}")


CPU_S = 120
"""Seconds of the processor's time after which an input counts as one that never ends; the usual needs less than one."""

WALL_S = 600.0
"""Seconds after which a process that waits for something counts as one that never ends."""

ENDED_BY_US = 2
"""Exit code of a process that we end because nothing else ends the call under way."""

MEMORY_BYTES = 16 * 2**30

_PRELOADED = (
    "onnxruntime.quantization.shape_inference",
    "onnxruntime.quantization.matmul_nbits_quantizer",
    "sympy",
    "pytest_quant.backends.ort.build",
    "pytest_quant.backends.ort.engine",
    "tests.nightly.fuzz.on_models",
)


class OurError(QuantError):
    """One of our errors, in the process that met it."""


Outcome: TypeAlias = tuple[type[OurError] | type[EscapedError] | None, str]
"""What came out, and its text."""


def meet_apart(meet: Callable[[Any, Path], None], case: Any) -> None:
    """Let `meet` take `case` and an empty folder in a process of its own.

    Parameters
    ----------
    meet : a function of a module, which the other process imports.
    case : what it takes; it is pickled.

    Raises
    ------
    OurError : it ended in one of our errors.
    EscapedError : it ended in anything else, or the process died or did not end.
    """
    with TemporaryDirectory(prefix="pytest-quant-fuzz-") as folder:
        crash = Path(folder) / "crash.txt"
        work = Path(folder) / "work"
        work.mkdir()
        ours, theirs = _context().Pipe(duplex=False)
        process = _context().Process(target=_inside, args=(theirs, meet, case, work, crash))
        process.start()
        theirs.close()
        answer = _answer(ours)
        process.join(WALL_S if answer is None else 60.0)
        if process.is_alive():
            process.kill()
            process.join()
        if answer is None and process.exitcode == ENDED_BY_US:
            raise OurError("a call that cannot be interrupted took too long")
        if answer is None:
            trace = crash.read_text("utf-8", "replace") if crash.exists() else ""
            raise EscapedError(f"{_death(process.exitcode)}\n{trace}")
        kind, text = answer
        if kind is not None:
            raise kind(text)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _answer(pipe: Connection) -> Outcome | None:
    """Return what the process sent, ``None`` where it sent nothing."""
    if not pipe.poll(WALL_S):
        return None
    try:
        answer: Outcome = pipe.recv()
    except EOFError:
        return None
    return answer


def _death(code: int | None) -> str:
    if code is None or -code in (signal.SIGXCPU, signal.SIGKILL):
        return "NeverEnds"
    return f"Died of {signal.Signals(-code).name}" if code < 0 else f"Exit {code}"


def _inside(pipe: Connection, meet: Callable[[Any, Path], None], case: Any, folder: Path, crash: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(folder)
    with crash.open("w", encoding="utf-8") as written:
        faulthandler.enable(written)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        faulthandler.register(signal.SIGXCPU, written, chain=True)
        pipe.send(_outcome(meet, case, folder))
    pipe.close()
    # Whatever threads of native libraries still do must not turn an answer into a crash.
    os._exit(0)


def _outcome(meet: Callable[[Any, Path], None], case: Any, folder: Path) -> Outcome:
    try:
        meet(case, folder)
    except QuantError as error:
        return OurError, str(error)
    except BaseException as error:
        return EscapedError, "".join(traceback.format_exception(error))
    return None, ""
