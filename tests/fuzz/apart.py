"""An input met in a process of its own, where native code may crash, fill the memory or never end.

What a user's pytest would meet in its own process is the same: a crash of the process is a finding.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import resource
import signal
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_quant.errors import QuantError
from tests.fuzz.hunt import Escaped, place_of

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
    "pytest_quant.plugin.check",
    "pytest_quant.plugin.collect",
    "pytest_quant.plugin.run_end",
    "pytest_benchmark.plugin",
    "tests.fuzz.on_models",
    "tests.fuzz.on_marks",
)


class OurError(QuantError):
    """One of our errors, in the process that met it."""


def meet_apart(meet: Callable[[Any, Path], None], case: Any, cpu_s: int = CPU_S) -> None:
    """Let `meet` take `case` and an empty folder in a process of its own.

    Parameters
    ----------
    meet : a function of a module, which the other process imports.
    case : what it takes; it is pickled.
    cpu_s : seconds of the processor's time after which it counts as one that never ends.

    Raises
    ------
    OurError : it ended in one of our errors.
    Escaped : it ended in anything else, or the process died or did not end.
    """
    with TemporaryDirectory(prefix="pytest-quant-fuzz-") as folder:
        crash = Path(folder) / "crash.txt"
        work = Path(folder) / "work"
        work.mkdir()
        ours, theirs = _context().Pipe(duplex=False)
        process = _context().Process(target=_inside, args=(theirs, meet, case, work, crash, cpu_s))
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
            raise _escaped(_death(process.exitcode), trace)
        kind, text = answer
        if kind == "ours":
            raise OurError(text)
        if kind:
            raise _escaped(kind, text)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _answer(pipe: Connection) -> tuple[str, str] | None:
    """Return what the process sent, ``None`` where it sent nothing."""
    if not pipe.poll(WALL_S):
        return None
    try:
        kind, text = pipe.recv()
    except EOFError:
        return None
    return kind, text


def _death(code: int | None) -> str:
    if code is None or -code in (signal.SIGXCPU, signal.SIGKILL):
        return "NeverEnds"
    return f"Died of {signal.Signals(-code).name}" if code < 0 else f"Exit {code}"


@cache
def _class_of(place: str) -> type[Escaped]:
    return type(re.split(" at |: ", place, maxsplit=1)[0], (Escaped,), {})


def _escaped(kind: str, trace: str) -> Escaped:
    """Return the exception for one place; hypothesis tells findings apart by their class."""
    return _class_of(place_of(kind, trace))(trace or kind)


def _inside(
    pipe: Connection, meet: Callable[[Any, Path], None], case: Any, folder: Path, crash: Path, cpu_s: int
) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
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


def _outcome(meet: Callable[[Any, Path], None], case: Any, folder: Path) -> tuple[str, str]:
    try:
        meet(case, folder)
    except QuantError as error:
        return "ours", str(error)
    except BaseException as error:
        return type(error).__name__, "".join(traceback.format_exception(error))
    return "", ""
