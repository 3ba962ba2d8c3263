"""What native code may do to a process, for the tests of the fuzzer itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pytest_quant.errors import UsageError


def crash(case: object, folder: Path) -> None:
    """Die as by a bad pointer."""
    del case, folder
    os.kill(os.getpid(), signal.SIGSEGV)


def never_end(case: object, folder: Path) -> None:
    """Compute for ever."""
    del case, folder
    while True:
        pass


def refuse(case: object, folder: Path) -> None:
    """Raise one of our errors."""
    del case, folder
    raise UsageError("not this one")
