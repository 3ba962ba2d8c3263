"""Frees the locked clocks of a GPU when the process that locked them ends without doing so.

Runtimes crash, and a worker that hangs is killed: then nothing in that process frees a clock, which would stay locked
until the driver is loaded anew. A process of its own waits for the end of the other one. It does not belong to the
terminal, so that what interrupts the run does not end it too.
"""

from __future__ import annotations

import subprocess
import sys

_DONE = b"done"
_TIME_LIMIT_S = 10.0


class ClockGuard:
    """Guards the clocks of the card with this UUID until it is dismissed."""

    def __init__(self, card: str) -> None:
        self._process = subprocess.Popen(  # nosec B603 # noqa: S603 - this file
            (sys.executable, "-I", __file__, card),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Number of the guarding process."""
        return self._process.pid

    def dismiss(self) -> None:
        """End the guard, which then frees nothing; it has ended when this returns."""
        try:
            self._process.communicate(_DONE, timeout=_TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free(card: str) -> None:
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(card)
    for free in (pynvml.nvmlDeviceResetGpuLockedClocks, pynvml.nvmlDeviceResetMemoryLockedClocks):
        try:
            free(handle)
        except pynvml.NVMLError:
            # The memory of cards before Ampere has no lock, and the clocks of the other are freed all the same.
            continue


if __name__ == "__main__" and sys.stdin.buffer.read() != _DONE:
    _free(sys.argv[1])
