"""Draw many graphs, check each, and print how many there were and what was found.

::

    python -m tests.generated_graphs --examples 500 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis

from tests.generated_graphs.asked import Independent
from tests.generated_graphs.checked import check_graph
from tests.generated_graphs.drawn import Plan, build, plans

NOISY_DB = 3.0
"""An engine with less SQNR is no rounding of the model; it is shown, to be looked at."""

FINDINGS = ("wrong figures", "raised")
_BLOCK = 10


def main() -> int:
    """Return 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated_graphs", description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    tally: Counter[str] = Counter()
    found = 0
    started = time.perf_counter()
    with Independent() as independent:
        for plan in _many(asked.examples, asked.seed):
            kind, text = _outcome(plan, independent)
            tally[kind] += 1
            found += kind in FINDINGS
            if text:
                _say(f"{kind}: {plan!r}\n  {text}")
    _say(f"{tally.total()} graphs in {time.perf_counter() - started:.0f} s, seed {asked.seed}: {found} findings")
    for kind, count in tally.most_common():
        _say(f"{count:6d} {kind}")
    return 1 if found else 0


def _many(count: int, seed: int) -> dict[Plan, None]:
    """Draw `count` different plans, in blocks: hypothesis begins each anew, and later changes what it has drawn."""
    plans_drawn: dict[Plan, None] = {}
    while len(plans_drawn) < count:

        @hypothesis.settings(max_examples=_BLOCK, phases=[hypothesis.Phase.generate], deadline=None, database=None)
        @hypothesis.seed(seed)
        @hypothesis.given(plans())
        def draw(plan: Plan) -> None:
            if len(plans_drawn) < count:
                plans_drawn.setdefault(plan)

        draw()
        seed += 1
    return plans_drawn


def _outcome(plan: Plan, independent: Independent) -> tuple[str, str]:
    """Return what came of a plan, and the text to show where somebody should look at it."""
    with TemporaryDirectory() as folder:
        try:
            outcome = check_graph(build(plan), independent, Path(folder))
        except Exception as error:
            # Whatever is raised past our own errors is what this looks for.
            return "raised", f"{type(error).__name__}: {error}"
    if outcome.wrong:
        return "wrong figures", outcome.wrong
    if outcome.refusal:
        return f"refused: {_general(outcome.refusal)}", outcome.refusal
    if outcome.sqnr_db is not None and outcome.sqnr_db < NOISY_DB:
        return "equal figures, noisy", f"{outcome.sqnr_db:.1f} dB"
    return f"equal figures ({plan.scheme}) at batch sizes {', '.join(map(str, outcome.sizes))}", ""


def _general(refusal: str) -> str:
    """Return the first line without the numbers in names of values."""
    return "".join(letter for letter in refusal.splitlines()[0] if not letter.isdigit())


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
