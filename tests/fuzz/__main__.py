"""Look for inputs that break us, for as long as it is told.

::

    python -m tests.fuzz --minutes 60
    python -m tests.fuzz --minutes 5 --target marks --seed 7

Every target gets an equal share of the time. A finding is printed with its smallest input and the line that repeats it.
Exit status 1 when something was found.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis.errors import DidNotReproduce

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.fuzz import on_commands, on_data, on_files, on_marks, on_models
from tests.fuzz.hunt import Finding, Tally, Target, hunt, repeat

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *(on_marks.READ, on_marks.COLLECT, on_data.DATA, on_models.READ, on_models.MEASURE),
        *(on_files.RUNS, on_files.BASELINES, on_files.MANIFESTS, on_commands.COMMANDS),
    )
}
"""All targets by name."""

_BLOCK = 25
"""Inputs between two looks at the clock; hypothesis begins each block with a seed of its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="for all targets together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: a new one")
    parser.add_argument("--target", choices=list(TARGETS), help="default: all")
    parser.add_argument("--again", metavar="BLOB", help="repeat one finding of the target")
    asked = parser.parse_args(arguments)
    chosen = [TARGETS[asked.target]] if asked.target else list(TARGETS.values())
    if asked.again:
        with _own_places():
            try:
                repeat(chosen[0], asked.again)
            except DidNotReproduce:
                _tell("nothing came out of it")
        return 0
    with _own_places():
        found = sum(_look(target, asked.seed, asked.minutes / len(chosen)) for target in chosen)
    _tell(f"{found} findings, seed {asked.seed}")
    return int(found > 0)


@contextmanager
def _own_places() -> Iterator[None]:
    """Leave this user's locks alone."""
    with (
        TemporaryDirectory(prefix="pytest-quant-fuzz-") as folder,
        patch.dict(os.environ, {FOLDER_VARIABLE: str(Path(folder) / "locks")}),
    ):
        yield


def _look(target: Target, seed: int, minutes: float) -> int:
    """Try one target for so many minutes, tell what was found and return the number of findings."""
    tally = Tally()
    began = time.monotonic()
    block = 0
    while time.monotonic() - began < 60.0 * minutes:
        told = set(tally.findings)
        hunt(target, seed * 1_000_003 + block, _BLOCK, tally)
        for place in tally.findings.keys() - told:
            _tell_finding(target, tally.findings[place], seed)
        block += 1
    spent = (time.monotonic() - began) / 60.0
    _tell(
        f"{target.name}: {tally.tried} inputs in {spent:.1f} minutes, {tally.refused} refused with our errors, "
        f"{len(tally.findings)} findings"
    )
    return len(tally.findings)


def _tell_finding(target: Target, finding: Finding, seed: int) -> None:
    _tell(f"FOUND in {target.name}: {finding.place}\n{finding.text}")
    # What hypothesis itself finds fault with, as a draw that differs the second time, is no single input.
    words = f"--again {finding.again}" if finding.again else f"--seed {seed}"
    _tell(f"again: python -m tests.fuzz --target {target.name} {words}\n")


def _tell(text: str) -> None:
    """Print at once, and nothing that a terminal would act upon."""
    sys.stdout.write("".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
