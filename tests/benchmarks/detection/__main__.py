"""Find out how often verdicts are wrong and what they catch: ``python -m tests.benchmarks.detection [options]``.

Real launches are made on this machine, quiet and beside a load of our own, with other tools in the same minutes; the
rest is simulated on the functions that judge. What was found is kept in --out after each trial: the same command goes
on where it was cut, and prints the table of all that is there.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_quant.environment.machine import fingerprint
from tests.benchmarks.detection import (
    accuracy,
    against,
    baseline,
    changes,
    compared,
    launches,
    memory,
    runs,
    score_files,
    scores,
    simulated,
)
from tests.benchmarks.detection.arms import Arm, work
from tests.benchmarks.detection.ledger import Ledger
from tests.benchmarks.detection.table import Row, markdown, renew

README = Path(__file__).parents[1] / "README.md"


@dataclass(frozen=True, slots=True)
class Family:
    """Rows that share their trials.

    Attributes
    ----------
    meaning : what they are, for --help.
    arms : makes the arms whose trials they need; models and engines go into the folder they are given.
    rows : makes them out of all trials.
    """

    meaning: str
    arms: Callable[[Path], Sequence[Arm]]
    rows: Callable[[Ledger], Iterable[Row]]


FAMILIES: Mapping[str, Family] = {
    "launch": Family("real launches of one check, and other tools beside them", launches.arms, launches.rows),
    "memory": Family("networks that wait for their weights", memory.arms, memory.rows),
    "pytest": Family("real runs of pytest: --quant-launches auto, and xdist", runs.arms, runs.rows),
    "against": Family("pairs of processes of two sides, real and simulated", against.arms, against.rows),
    "worlds": Family("min_speedup in worlds of known noise, simulated", lambda _: simulated.arms(), simulated.rows),
    "baseline": Family("max_slowdown at its limit, simulated", lambda _: baseline.arms(), baseline.rows),
    "compare": Family("compare over 20 series without a change, simulated", lambda _: compared.arms(), compared.rows),
    "accuracy": Family("coverage of intervals of f1 and mae, simulated", lambda _: accuracy.arms(), accuracy.rows),
    "scores": Family(
        "scores of language models in several runs, simulated, and large files of them",
        lambda folder: [*scores.arms(), *score_files.arms(folder)],
        lambda ledger: [*scores.rows(ledger), *score_files.rows(ledger)],
    ),
    "changes": Family("change points of histories, simulated", lambda _: changes.arms(), changes.rows),
}


def machine() -> str:
    """Return what the figures were found on."""
    identity = fingerprint().identity
    where = f"{identity['cores']} cores of {identity['cpu']}, {identity['isa']}, {platform.system()}"
    return f"{where}, Python {platform.python_version()}"


def arguments(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    names = "\n".join(f"  {name:<12} {family.meaning}" for name, family in FAMILIES.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.detection",
        description=__doc__,
        epilog=f"rows:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default=",".join(FAMILIES), metavar="NAME[,NAME]", help="which rows; default: all")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no trial after so many; default: 60")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random; default: 0")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON lines to go on from and to add to")
    parser.add_argument("--write", action="store_true", help=f"put the rows into {README.parent.name}/{README.name}")
    chosen = parser.parse_args(args)
    chosen.rows = chosen.rows.split(",")
    if unknown := [name for name in chosen.rows if name not in FAMILIES]:
        parser.error(f"no rows {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    return chosen


def main(args: Sequence[str] | None = None) -> int:
    """Make the trials, print the table; returns 1 when time was over before all were made."""
    chosen = arguments(args)
    ledger = Ledger(chosen.out)
    began = time.monotonic()
    families = {name: FAMILIES[name] for name in chosen.rows}
    with tempfile.TemporaryDirectory() as folder:
        arms = [arm for family in families.values() for arm in family.arms(Path(folder))]
        done = work(arms, ledger, chosen.seed, began + 60.0 * chosen.minutes, _say)
    origin = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}: `python -m tests.benchmarks.detection --rows {{}}`"
    for name, family in families.items():
        rows = list(family.rows(ledger))
        _say(f"\n## {name}\n\n{markdown(rows)}")
        if chosen.write:
            renew(README, name, origin.format(name), rows)
    return 0 if done else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
