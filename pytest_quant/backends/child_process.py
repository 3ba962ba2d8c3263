"""Work in processes of their own, which can be ended: what hangs or crashes there takes nothing else with it."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from pytest_quant.files import temporary_folder
from pytest_quant.host import inherited

Returned = TypeVar("Returned")

TIME_LIMIT_S = 24 * 3600.0
"""Longest call that nobody watches; a session's own limit is shorter."""

_CHILDREN: set[subprocess.Popen[str]] = set()
"""Processes under way, by which another thread can end them."""


class ChildError(Exception):
    """A call in a process of its own returned nothing.

    Attributes
    ----------
    error : what the function raised there; ``None`` where the process did not live to say so.
    how : how it ended then, to be read behind "it", as ``crashed (SIGSEGV)``; else empty.
    said : everything that the process wrote, with the traceback of `error`.
    timed_out : it took too long, and was ended.
    """

    def __init__(self, said: str, *, error: Exception | None = None, how: str = "", timed_out: bool = False) -> None:
        super().__init__(how or str(error))
        self.said = said
        self.error = error
        self.how = how
        self.timed_out = timed_out


def call_in_child(
    function: Callable[..., Returned],
    *arguments: object,
    limit_s: float = TIME_LIMIT_S,
    environment: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
) -> tuple[Returned, str]:
    """Call a function in a process of its own, and return what it returns and all that the process wrote.

    Parameters
    ----------
    function : one that its module and its name lead to.
    arguments : of `function`; they are pickled, as is what it returns or raises.
    limit_s : longest time in seconds.
    environment : of the process; ``None`` for that of this one.
    launcher : a command that runs the interpreter, an emulator for example; empty to run it as it is.

    Raises
    ------
    ChildError : the function raised, or the process crashed, ended or took too long.
    """
    with temporary_folder() as folder:
        file, log = folder / "call", folder / "log"
        file.write_bytes(pickle.dumps((function, arguments)))
        command = (*launcher, sys.executable, "-m", __name__, str(file))
        try:
            with (
                log.open("w", encoding="utf-8") as stream,
                run_child(command, stream, (), environment=environment) as process,
            ):
                code = process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise ChildError("", how=f"took more than {limit_s:g} s, and was ended", timed_out=True) from error
        said = log.read_text(encoding="utf-8", errors="replace")
        if code:
            how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
            raise ChildError(said, how=how)
        value, raised = pickle.loads(file.read_bytes())  # nosec B301 # noqa: S301 - our own file
    if raised is not None:
        raise ChildError(said, error=raised)
    return value, said


def _answer(file: Path) -> None:
    """Make the call in `file`, and replace it by what came of it."""
    answer: tuple[Any, Exception | None]
    try:
        function, arguments = pickle.loads(file.read_bytes())  # nosec B301 # noqa: S301 - our own file
        answer = function(*arguments), None
    except Exception as error:
        traceback.print_exc()
        answer = None, error
    file.write_bytes(pickle.dumps(answer))


@contextmanager
def run_child(
    command: Sequence[str],
    log: IO[str],
    descriptors: Sequence[int],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run `command` beside the block, with which it can talk; however the block ends, nothing of it is left.

    Parameters
    ----------
    command : a program and its arguments; no shell reads them.
    log : takes everything that it writes.
    descriptors : those that it inherits.
    cwd, environment : of the process; ``None`` for those of this one.
    """
    with subprocess.Popen(  # nosec B603 # noqa: S603 - our own modules and files
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        encoding="utf-8",
        cwd=cwd,
        env=environment,
        **inherited(descriptors),
    ) as process:
        _CHILDREN.add(process)
        try:
            yield process
        finally:
            _CHILDREN.discard(process)
            if process.poll() is None:
                _end(process)


def end_children() -> bool:
    """End every process that this process waits for, in whatever thread; return whether there was any."""
    running = tuple(_CHILDREN)
    for process in running:
        _end(process)
    return bool(running)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started: a process that survives would hold the pipes open, and the GPU."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        for member in (*parent.children(recursive=True), parent):
            with suppress(psutil.NoSuchProcess):
                member.kill()


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
