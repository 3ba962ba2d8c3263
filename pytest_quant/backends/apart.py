"""Work in processes of their own, which can be ended: what hangs or crashes there takes nothing else with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_RUNNING: set[subprocess.Popen[str]] = set()
"""Processes under way, by which another thread can end them."""


def run_apart(command: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end and return what it wrote.

    However this ends, also by an interrupt, neither the process nor one that it started is left.

    Parameters
    ----------
    command : a program and its arguments; no shell reads them.
    limit_s : longest time in seconds.

    Raises
    ------
    subprocess.TimeoutExpired : it took longer, and was ended.
    """
    with _ended_with_block(
        subprocess.Popen(  # nosec B603 # noqa: S603 - our own modules and files
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    ) as process:
        out, told = process.communicate(timeout=limit_s)
    return subprocess.CompletedProcess(command, process.returncode, out, told)


@contextmanager
def running_apart(
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
    with _ended_with_block(
        subprocess.Popen(  # nosec B603 # noqa: S603 - our own modules and files
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            pass_fds=descriptors,
            cwd=cwd,
            env=environment,
        )
    ) as process:
        yield process


@contextmanager
def _ended_with_block(started: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with started as process:
        _RUNNING.add(process)
        try:
            yield process
        finally:
            _RUNNING.discard(process)
            if process.poll() is None:
                _end(process)


def end_running() -> bool:
    """End every process that this one waits for, in whatever thread; tell whether there was one."""
    running = tuple(_RUNNING)
    for process in running:
        _end(process)
    return bool(running)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started: one that is left would hold the pipes open, and the GPU."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(process.pid)
        for one in (*found.children(recursive=True), found):
            with suppress(psutil.NoSuchProcess):
                one.kill()
