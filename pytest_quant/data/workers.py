"""The death of a process that loads the user's data."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from pytest_quant.errors import DataError

_DEATH = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (is killed by signal: [\w ]+|exited unexpectedly)")


_LOADER = "/torch/utils/data/"
"""The folder of PyTorch's loaders and their signal handler."""


@contextmanager
def dead_workers_named() -> Iterator[None]:
    """Turn the death of a DataLoader's worker into an error of the data, and let no error of a loader keep its workers.

    PyTorch raises a death from a signal handler, in whatever code happens to run, and again whenever any process ends
    for as long as the loader's iterator lives: in pytest's own code it would end the whole run. So the frames of every
    error that came through a loader, which hold the iterator, are cleared.

    Raises
    ------
    DataError : a worker died.
    """
    try:
        yield
    except Exception as error:
        chain = list(_chain(error))
        if not any(map(_came_through_loader, chain)):
            raise
        for one in chain:
            traceback.clear_frames(one.__traceback__)
        deaths = [text for one in chain if (text := _death_in(one))]
        if not deaths:
            raise
        del chain
    else:
        return
    raise DataError(
        "a process that loads the data died",
        value=deaths[0],
        fix="find the sample with num_workers=0; a worker is also killed where memory, or room in /dev/shm, runs out",
    )


def _death_in(error: BaseException) -> str:
    """Return what an error says about a worker that died; empty when it is about something else."""
    told = _DEATH.search(str(error))
    if told is not None:
        return f"DataLoader worker {told[1]} {told[2]}"
    # Its death is seen sooner where it was about to hand over a batch.
    return f"{type(error).__name__}: {error}" if isinstance(error, (ConnectionError, EOFError)) else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from or during."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _came_through_loader(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(_LOADER in PurePath(frame.f_code.co_filename).as_posix() for frame, _ in frames)
