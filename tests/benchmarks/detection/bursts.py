"""A load of our own: processes that burn the processors in bursts, and end whatever happens.

Run as a program it is one of these processes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

BUSY_S, IDLE_S = 0.2, 0.3
"""Means of exponential durations."""


@contextmanager
def load(name: str, seed: int) -> Iterator[None]:
    """Burn every processor while the block runs, at times that `seed` decides, if the load is called ``bursty``."""
    with ExitStack() as stack:
        for number in range((os.cpu_count() or 1) if name == "bursty" else 0):
            command = [sys.executable, __file__, str(seed + number), str(os.getpid())]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL))
            stack.callback(process.kill)
        yield


def burn(seed: int, parent: int) -> None:
    """Burn in bursts until the process that asked for it is gone."""
    draw = random.Random(seed)  # noqa: S311 - a load, not a secret
    while os.getppid() == parent:
        until = time.monotonic() + draw.expovariate(1.0 / BUSY_S)
        while time.monotonic() < until:
            sum(range(1000))
        time.sleep(draw.expovariate(1.0 / IDLE_S))


if __name__ == "__main__":
    burn(int(sys.argv[1]), int(sys.argv[2]))
