"""Other processes that use a cache, for tests of what happens between several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PRELUDE = """
import pathlib, sys, time
from pytest_quant.cache import Cache
root = pathlib.Path(sys.argv[1])
def say(text):
    print(text, flush=True)
def build(folder, content=b"theirs"):
    (folder / "weights.bin").write_bytes(content)
    return {"build_s": 1.5}
cache = Cache(root, notify=say)
"""

BUILD_UNTIL_TOLD = """
def slow(folder):
    say('building')
    sys.stdin.readline()
    return build(folder)
entry = cache.obtain('engine', 'slot', {'model': sys.argv[2]}, slow)
say(entry.status)
"""
"""Builds one entry, and ends the build when it reads a line."""

BUILD_MANY = """
def large(folder):
    (folder / "sub").mkdir()
    for part in range(8):
        (folder / "sub" / f"{part}.bin").write_bytes(bytes([part]) * 200_000)
    return {"parts": 8}
say('started')
for number in range(10_000):
    cache.obtain('engine', 'slot', {'number': str(number % 7), 'round': str(number // 7)}, large)
"""
"""Builds entries without end."""


def start(script: str, root: Path, argument: str = "") -> subprocess.Popen[str]:
    """Start `script` in a process of its own over the cache at `root`; its lines can be read and written."""
    return subprocess.Popen(
        [sys.executable, "-c", _PRELUDE + script, str(root), argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that `process` prints; empty when it has ended."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def finish(process: subprocess.Popen[str]) -> str:
    """Let a waiting process go on to its end, and return what else it printed."""
    return process.communicate("\n", timeout=60)[0]
