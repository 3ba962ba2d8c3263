"""Count how often the cause that is named is right: ``python -m tests.benchmarks.blame [options]``.

Faults are planted in engines of real networks, and engines without any fault are held against a limit that is too
hard. Thresholds of the search are fixed on the tuned half of the networks and counted on the other. Each case is one
line of the file that --json names: the same command goes on where it was cut, and prints the table of all lines.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pytest_quant.files import temporary_folder
from tests.benchmarks.blame.answers import answer
from tests.benchmarks.blame.counts import by_kind, line_of, rows
from tests.benchmarks.blame.networks import HALVES, networks
from tests.benchmarks.blame.plants import KINDS
from tests.benchmarks.blame.rivals import rank
from tests.benchmarks.blame.workshop import LEAST_DB, Workshop
from tests.benchmarks.detection.table import markdown

BACKENDS = ("ort", "openvino")
SOUND_SEEDS = 8
"""Engines without a fault for each other case of a network, since their figure needs 150 of them."""


@dataclass(frozen=True, slots=True)
class Work:
    """The cases of one network in one backend, as ``(kind, seed)``."""

    network: str
    backend: str
    cases: tuple[tuple[str, int], ...]


def arguments(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.blame",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choices = {"networks": [*networks()], "kinds": [*KINDS], "backends": [*BACKENDS]}
    for name, known in choices.items():
        parser.add_argument(f"--{name}", default=",".join(known), metavar="NAME[,NAME]", help=f"of {', '.join(known)}")
    parser.add_argument("--half", choices=[*HALVES, "all"], default="all", help="of the networks; default: all")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="cases of each kind; default: 1")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="JSON lines to go on from and to add to")
    parser.add_argument("--no-rivals", action="store_true", help="do not ask other tools")
    chosen = parser.parse_args(args)
    for name, known in choices.items():
        asked = getattr(chosen, name).split(",")
        if unknown := [each for each in asked if each not in known]:
            parser.error(f"no {name} {', '.join(unknown)}; there are {', '.join(known)}")
        setattr(chosen, name, asked)
    return chosen


def plan(chosen: argparse.Namespace, done: set[str]) -> Iterator[Work]:
    """Yield what is left to do, a network and backend at a time."""
    for name in chosen.networks:
        network = networks()[name]
        if chosen.half not in ("all", network.half):
            continue
        if network.missing():
            _say(f"{name} is left out: its package {network.package} is missing, see packages.txt")
            continue
        for backend in chosen.backends:
            cases = [
                (kind, seed)
                for kind in chosen.kinds
                for seed in range(chosen.seeds * (SOUND_SEEDS if kind == "nothing" else 1))
                if f"{name}/{backend}/{kind}/{seed}" not in done
            ]
            if cases:
                yield Work(name, backend, tuple(cases))


def do(work: Work, out: Path | None, *, rivals: bool) -> list[dict[str, Any]]:
    """Build the cases, ask, and add a line for each to the file."""
    lines = []
    with temporary_folder() as folder:
        shop = Workshop(networks()[work.network], work.backend, folder)
        for kind, seed in work.cases:
            line = _line(shop, kind, seed, rivals=rivals)
            lines.append(line)
            if out is not None:
                with out.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(line)}\n")
    return lines


def _line(shop: Workshop, kind: str, seed: int, *, rivals: bool) -> dict[str, Any]:
    """Return the line of a case; one that cannot be built, or is not answered, has what was raised."""
    key = f"{shop.network.name}/{shop.backend}/{kind}/{seed}"
    known = {"key": key, "network": shop.network.name, "half": shop.network.half, "backend": shop.backend, "kind": kind}
    try:
        if shop.healthy[2] < LEAST_DB:
            return known | {"no_place": f"the sound engine has {shop.healthy[2]:.1f} dB"}
        case = KINDS[kind](shop, seed)
        if case is None:
            return known | {"no_place": "the network has none for this kind"}
        # Where a tool ranks layers for a case without any, nobody counts it.
        ranked = rank(case) if rivals and case.nodes else {}
        # As it is read from the file.
        line: dict[str, Any] = json.loads(json.dumps(line_of(case, answer(case), ranked)))
    except Exception as error:
        return known | {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    return line


def read(out: Path | None) -> list[dict[str, Any]]:
    """Return the lines that are there."""
    if out is None or not out.is_file():
        return []
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def main(args: Sequence[str] | None = None) -> int:
    """Do what is left, print the table; returns 1 if a case could not be built or answered."""
    chosen = arguments(args)
    lines = read(chosen.json)
    works = list(plan(chosen, {line["key"] for line in lines}))
    if chosen.jobs == 1:
        for work in works:
            lines += do(work, chosen.json, rivals=not chosen.no_rivals)
            _say(f"{work.network} on {work.backend}: {len(work.cases)} cases")
    else:
        with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
            asked = {pool.submit(do, work, chosen.json, rivals=not chosen.no_rivals): work for work in works}
            for each in as_completed(asked):
                lines += each.result()
                _say(f"{asked[each].network} on {asked[each].backend}: {len(asked[each].cases)} cases")
    asked_for = [line for line in lines if line["network"] in chosen.networks and line["kind"] in chosen.kinds]
    asked_for = [line for line in asked_for if line["backend"] in chosen.backends]
    asked_for = [line for line in asked_for if chosen.half in ("all", line["half"])]
    counted = [line for line in asked_for if "no_place" not in line]
    _say(f"\n{markdown(rows(counted))}\n{by_kind(counted)}")
    unfit = [line for line in asked_for if "dB" in line.get("no_place", "")]
    for pair in dict.fromkeys((line["network"], line["backend"], line["no_place"]) for line in unfit):
        _say(f"{pair[0]} on {pair[1]} is left out: {pair[2]}")
    failed = [line for line in counted if "error" in line]
    for line in failed:
        _say(f"{line['key']}: {line['error']}")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
