"""Which of the two engines changed its speed, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_quant.history.compare.comparison import Outcome


class Pace(StrEnum):
    """How an engine's latency at the head is to that at the base."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`moved` is ``candidate reference both`` or empty; `note` is a sentence, or empty."""

    outcome: Outcome
    moved: str
    note: str = ""


def when_ratio_changed(candidate: Pace, reference: Pace, *, worse: bool) -> Diagnosis:
    """Return what a proven change of the speedup is.

    A speedup that is worse only because the reference became faster is no regression of the candidate, and one
    that is better only because the reference became slower is no improvement.
    """
    lost, gained = (Pace.SLOWER, Pace.FASTER) if worse else (Pace.FASTER, Pace.SLOWER)
    if reference is gained and candidate is not lost:
        note = f"the reference became {gained}, and the candidate did not become {lost}"
        return Diagnosis(Outcome.CHANGED, "reference", note)
    outcome = Outcome.REGRESSION if worse else Outcome.IMPROVEMENT
    if candidate is not lost:
        return Diagnosis(outcome, "", "neither engine alone moved by more than its noise; their ratio did")
    if reference is Pace.SAME:
        return Diagnosis(outcome, "candidate")
    return Diagnosis(outcome, "both", f"the candidate became {candidate}, and the reference {reference}")


def when_ratio_held(candidate: Pace, reference: Pace) -> Diagnosis | None:
    """Return what it is when both engines moved alike, which a ratio does not show; ``None`` for anything else."""
    if candidate is reference and candidate is not Pace.SAME:
        return Diagnosis(Outcome.CHANGED, "both", f"both became {candidate} alike: the machine, or the runtime")
    return None
