"""Start pytest in a folder many times, with the plugin and without in turn, and print the milliseconds as JSON.

A whole start varies by more between two alike than the plugin may add, most of it in the interpreter and in pytest's
own imports. Both are done once here, without the plugin, and each start is a fork of that process: it loads plugins,
collects and runs, from a state that has never seen ours.
"""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

ARGS = ("-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
BARE = ("-p", "no:quant")


def start_ms(args: tuple[str, ...]) -> float:
    """Return the milliseconds of one run of pytest with `args`, in a process of its own."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        started = time.perf_counter_ns()
        status = pytest.main([*ARGS, *args])
        taken_ms = (time.perf_counter_ns() - started) / 1e6
        os.write(writes, str(taken_ms).encode())
        os._exit(status)
    os.close(writes)
    with os.fdopen(reads) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"pytest {' '.join(args)} ended with {os.waitstatus_to_exitcode(status)}")
    return float(text)


def main(rounds: int) -> dict[str, list[float]]:
    """Return the times of so many starts of each kind."""
    if pytest.main([*ARGS, *BARE]) != pytest.ExitCode.OK:
        sys.exit("pytest fails without the plugin")
    sys.modules.pop("test_plain", None)
    if any(name.partition(".")[0] == "pytest_quant" for name in sys.modules):
        sys.exit("the plugin was loaded before the first start that is timed")
    times: dict[str, list[float]] = {"bare": [], "ours": []}
    # The first of each kind compiles what is not compiled yet.
    for turn in range(-1, rounds):
        for kind in ("bare", "ours") if turn % 2 else ("ours", "bare"):
            taken_ms = start_ms(BARE if kind == "bare" else ())
            if turn >= 0:
                times[kind].append(taken_ms)
    return times


if __name__ == "__main__":
    # What pytest prints goes nowhere; the answer keeps the way out.
    answer_to = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.write(answer_to, json.dumps(main(int(sys.argv[1]))).encode())
