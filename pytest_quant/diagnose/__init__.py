"""Search for remedies of a broken limit: only what was tried and helped is advised."""

from pytest_quant.diagnose.advise import Budget, Trials, advise
from pytest_quant.diagnose.effect import Judged, broken
from pytest_quant.diagnose.hints import timing_hints

__all__ = ["Budget", "Judged", "Trials", "advise", "broken", "timing_hints"]
