"""One target and many inputs: what is allowed to come out, and what a finding is."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
