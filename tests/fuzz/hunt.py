"""One target and many inputs: what may come out, what a finding is, and inputs met in a process of their own."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import HypothesisWarning
from hypothesis.reporting import with_reporter
from hypothesis.strategies import SearchStrategy

from pytest_quant.errors import QuantError

_BLOB = re.compile(r"@reproduce_failure\('[^']*', b'([^']*)'\)")
_OUR_FRAME = re.compile(r'/(pytest_quant/[\w/]+\.py)(?:", line |:)(\d+)')
"""As Python writes it, and as pytest does."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that strangers hand us.

    Attributes
    ----------
    name : as ``--target`` spells it.
    cases : draws hostile inputs.
    meet : hands one over; what it raises, `QuantError` apart, is a finding.
    examples : inputs of the test in the tier ``nightly``.
    """

    name: str
    cases: SearchStrategy[Any]
    meet: Callable[[Any], None]
    examples: int


class Escaped(Exception):  # noqa: N818 - what it tells is no error of the fuzzer
    """Something came out that is none of our errors; each place has a class of its own, so that they stay apart."""


class RawControlError(AssertionError):
    """A message holds a character that a terminal acts upon, or that cannot be encoded."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came out.

    Attributes
    ----------
    place : type of what was raised and the innermost line of the package.
    text : the smallest input, the exception and its traceback.
    again : of `reproduce_failure`, for ``--again``.
    """

    place: str
    text: str
    again: str


@dataclass(slots=True)
class Tally:
    """How many inputs of a target were tried, how many were refused, and what was found."""

    tried: int = 0
    refused: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)


def place_of(kind: str, trace: str) -> str:
    """Return what tells findings apart: what was raised, and the last frame of the package in the traceback.

    Without such a frame it is the last line, its numbers left out.
    """
    frames = _OUR_FRAME.findall(trace)
    if frames:
        return f"{kind} at {':'.join(frames[-1])}"
    said = trace.strip().splitlines()[-1:]
    return f"{kind}: {re.sub(r'[0-9]+', '0', said[0])[:100]}" if said else kind


def check_message(text: str) -> None:
    """Raise `RawControlError` where a text that is printed holds more than printable characters, line ends and tabs."""
    raw = sorted({char for char in text if not (char.isprintable() or char in "\n\t")})
    if raw:
        raise RawControlError(f"a message holds {raw!a}: {text[:400]!a}")


@contextmanager
def only_our_errors() -> Iterator[None]:
    """Let a block end in our errors, whose messages are printable, and in nothing else."""
    try:
        yield
    except QuantError as error:
        check_message(str(error))
        raise


def hunt(target: Target, seed: int, examples: int, tally: Tally) -> None:
    """Try `examples` inputs on `target` and add to `tally`; places that are in it already count no more.

    Parameters
    ----------
    target : what is tried.
    seed : of hypothesis; the same draws the same inputs.
    examples : inputs at the most; fewer where there are no more different ones.
    tally : what was found before.
    """
    counts = hypothesis.seed(seed)(_property(target, tally))
    settings = _settings(max_examples=examples, phases=(Phase.generate, Phase.shrink))
    try:
        with _quietly():
            settings(counts)()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        for one in error.exceptions if isinstance(error, BaseExceptionGroup) else (error,):
            finding = _finding(one)
            tally.findings[finding.place] = finding


def repeat(target: Target, again: str) -> None:
    """Try the one input of a finding; what it raises passes through."""
    again_as = hypothesis.reproduce_failure(hypothesis.__version__, again.encode())
    _settings()(again_as(_property(target, Tally())))()


def _settings(**more: Any) -> hypothesis.settings:
    return hypothesis.settings(
        database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, **more
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Leave it to us to print what hypothesis says; it is in the notes of what it raises."""
    with with_reporter(lambda _: None), warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        yield


def _property(target: Target, tally: Tally) -> Callable[[], None]:
    @hypothesis.given(case=target.cases)
    def nothing_else_comes_out(case: Any) -> None:
        tally.tried += 1
        try:
            with only_our_errors():
                target.meet(case)
        except QuantError:
            tally.refused += 1
        except Exception as error:
            if place_of(type(error).__name__, _trace(error)) not in tally.findings:
                raise

    return nothing_else_comes_out


def _trace(error: BaseException) -> str:
    """Return the traceback, or that of the process where it came out."""
    return str(error) if isinstance(error, Escaped) else "".join(traceback.format_exception(error))


def _finding(error: BaseException) -> Finding:
    notes = "\n".join(getattr(error, "__notes__", ()))
    blob = _BLOB.search(notes)
    smallest = notes.split("You can reproduce")[0].strip()
    trace = _trace(error)
    return Finding(place_of(type(error).__name__, trace), f"{smallest}\n{trace}", blob[1] if blob else "")


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
