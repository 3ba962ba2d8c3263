"""From lines of cases to the table: shares with their exact intervals, by figure and by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from tests.benchmarks.blame.answers import Answer
from tests.benchmarks.blame.cases import LOSS_DB, Case
from tests.benchmarks.blame.graph import is_called
from tests.benchmarks.blame.rivals import RIVALS
from tests.benchmarks.detection.rates import Rate, rate
from tests.benchmarks.detection.table import Row, at_least, at_most

Line: TypeAlias = Mapping[str, Any]
"""A case and what was answered, as JSON."""

BLAMING = ("calibration", "range", "weights", "layer")
MOST_RUNS, MOST_EVALUATIONS, MOST_SECONDS = 70, 4, 5.0


def line_of(case: Case, found: Answer, rivals: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the line of a case."""
    own = ("network", "half", "backend", "kind", "seed", "variant", "stages", "nodes", "healthy_db", "planted_db")
    cause = found.cause
    return {
        "key": case.key,
        **{name: getattr(case, name) for name in own},
        "cause": None if cause is None else asdict(cause),
        "runs": found.runs,
        "seconds": found.seconds,
        "evaluation_s": found.evaluation_s,
        "rivals": rivals,
    }


def loss_db(line: Line) -> float:
    """Return what the plant cost."""
    return float(line["healthy_db"] - line["planted_db"])


def is_costly(line: Line) -> bool:
    """Whether the plant cost enough to be counted."""
    return loss_db(line) >= LOSS_DB


def is_sound(line: Line) -> bool:
    """Whether nothing was planted, or what costs nothing, and the method of calibration itself costs little."""
    return line["stages"] == ["none"] and not is_costly(line)


def stage_of(line: Line) -> str:
    """Return the stage that was named, empty where there was no answer."""
    return line["cause"]["stage"] if line.get("cause") else ""


def stage_is_right(line: Line) -> bool:
    """Whether the stage is one that a right answer names."""
    return stage_of(line) in line["stages"]


def hits(named: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether products are named, most of them next to what was planted."""
    right = [name for name in named if any(is_called(name, each) for each in wanted)]
    return bool(right) and 2 * len(right) >= len(named)


def is_first(line: Line) -> bool:
    """Whether the stage is right and what it blames is the place of the plant."""
    return stage_is_right(line) and hits(line["cause"]["nodes"], line["nodes"])


def is_among_three(line: Line) -> bool:
    """Whether it is what is blamed, or among the first three rows of that table."""
    if is_first(line):
        return True
    rows = (line["cause"] or {}).get("ranges" if line["stages"] == ["range"] else "sites", ())
    return any(hits(row["nodes"], line["nodes"]) for row in rows[:3])


def rows(lines: Sequence[Line]) -> list[Row]:
    """Return the figures that must be reached."""
    built = [line for line in lines if "error" not in line]
    planted = [line for line in built if line["stages"] != ["none"]]
    costly = [line for line in planted if is_costly(line)]
    placed = [line for line in costly if line["nodes"]]
    sound = [line for line in built if is_sound(line)]
    right = rate(map(stage_is_right, costly))
    least = [*_seconds_rows(built)]
    return [
        at_least(f"stage right, of those that cost {LOSS_DB:g} dB and more", right, 95.0),
        _lower("the same, lower bound", right, 90.0),
        at_least("layer or range among the first three", rate(map(is_among_three, placed)), 95.0),
        at_least("layer or range first", rate(map(is_first, placed)), 85.0, peers=_peers(placed)),
        at_most(
            "nothing planted: a layer, range or calibration is blamed",
            rate(stage_of(line) in BLAMING for line in sound),
            2.0,
        ),
        *least,
        Row(f"cost less than {LOSS_DB:g} dB, counted apart", "-", _apart(planted), None),
        Row("nothing planted, but the method itself costs more", "-", _apart(built, of_methods=True), None),
        Row("no engine or no answer for an error", "0", str(len(lines) - len(built)), len(lines) == len(built)),
    ]


def _lower(figure: str, found: Rate, limit_pct: float) -> Row:
    low = found.interval_pct[0]
    return Row(figure, f">= {limit_pct:g} %", f"{low:.1f} %", low >= limit_pct if found.n else None)


def _peers(placed: Sequence[Line]) -> str:
    shown = []
    for kind, called in RIVALS.items():
        ranked = [hits(line["rivals"][kind], line["nodes"]) for line in placed if kind in line["rivals"]]
        shown.append(f"{called}: {rate(ranked)}")
    return "; ".join(shown)


def _apart(lines: Sequence[Line], *, of_methods: bool = False) -> str:
    wanted = ["none"]
    if of_methods:
        chosen = [line for line in lines if line["stages"] == wanted and is_costly(line)]
    else:
        chosen = [line for line in lines if not is_costly(line)]
    right = rate(stage_is_right(line) or stage_of(line) == "none" for line in chosen)
    return f"{len(chosen)}; right or nothing blamed: {right}"


def _seconds_rows(lines: Sequence[Line]) -> list[Row]:
    answered = [line for line in lines if line["cause"] is not None]
    if not answered:
        return [Row("runs of the graph", f"<= {MOST_RUNS}", "not run", None), Row("seconds", "", "not run", None)]
    most = max(line["runs"] for line in answered)
    early = [line for line in answered if stage_of(line) in ("kernels", "calibration", "range")]
    slow = [line for line in early if line["seconds"] > max(MOST_SECONDS, MOST_EVALUATIONS * line["evaluation_s"])]
    seconds = sorted(line["seconds"] for line in answered)
    return [
        Row("runs of the graph, the most", f"<= {MOST_RUNS}", f"{most:.0f}", most <= MOST_RUNS),
        Row(
            "longer than 4 evaluations and 5 s, of answers at steps 1, 3 and 4",
            "0",
            f"{len(slow)} of {len(early)}; all: median {seconds[len(seconds) // 2]:.2f} s, most {seconds[-1]:.2f} s",
            not slow,
        ),
    ]


KIND_HEAD = ("kind", "cases", "cost 3 dB", "stage right", "first", "first three", *RIVALS.values())


def by_kind(lines: Sequence[Line]) -> str:
    """Return a row for each kind, as Markdown."""
    shown = [KIND_HEAD, ("---",) * len(KIND_HEAD)]
    built = [line for line in lines if "error" not in line]
    for kind in dict.fromkeys(line["kind"] for line in built):
        own = [line for line in built if line["kind"] == kind]
        counted = [line for line in own if is_sound(line) or (is_costly(line) and line["stages"] != ["none"])]
        placed = [line for line in counted if line["nodes"]]
        ranks = [
            [hits(line["rivals"][each], line["nodes"]) for line in placed if each in line["rivals"]] for each in RIVALS
        ]
        shares: list[tuple[Sequence[Line], Callable[[Line], bool]]] = [
            (counted, stage_is_right),
            (placed, is_first),
            (placed, is_among_three),
        ]
        cells = [_share([check(line) for line in chosen]) for chosen, check in shares]
        shown.append((kind, str(len(own)), str(sum(map(is_costly, own))), *cells, *map(_share, ranks)))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in shown)


def _share(outcomes: Sequence[bool]) -> str:
    return f"{sum(outcomes)} / {len(outcomes)}" if outcomes else "-"
