"""A module of Python as a shell runs it in the foreground, where Ctrl-C ends it.

What a shell runs in the background ignores Ctrl-C, and so do its children: a run of the tests may be one of them.
"""

from __future__ import annotations

import sys

START = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def interruptible(module: str, *arguments: str) -> list[str]:
    """Return the command line of ``python -m module`` that takes SIGINT, whoever starts it."""
    return [sys.executable, "-c", START, module, *arguments]
