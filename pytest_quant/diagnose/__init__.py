"""Where the error of a broken limit comes from, and what mends it: advice is tried before it is given."""

from pytest_quant.diagnose.advise import Budget, Trials, advise
from pytest_quant.diagnose.effect import Judged, broken
from pytest_quant.diagnose.hints import timing_hints

__all__ = ["Budget", "Judged", "Trials", "advise", "broken", "timing_hints"]
