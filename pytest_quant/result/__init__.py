"""What was found: frozen values, standard library only. Nothing here judges."""

from pytest_quant.result.accuracy import (
    AccuracyResult,
    ClassScore,
    OutputError,
    OutputFault,
    SelfDifference,
    WorstClass,
)
from pytest_quant.result.kinds import Better, Count, Interval, Percent, Positive, Probability, Status
from pytest_quant.result.latency import (
    NOTHING_KNOWN,
    NULL_OFF,
    Blocks,
    DeviceTimes,
    LatencyFigures,
    LatencyResult,
    LaunchFigures,
    LaunchNoise,
    OverLaunches,
    PercentileBound,
    WhichClock,
)
from pytest_quant.result.proof import Coverage, Environment, OpCoverage, Resources
from pytest_quant.result.selftest import KindNoise, SelfTest
from pytest_quant.result.verdict import Baseline, Hint, Measured, Verdict

__all__ = [
    "NOTHING_KNOWN",
    "NULL_OFF",
    "AccuracyResult",
    "Baseline",
    "Better",
    "Blocks",
    "ClassScore",
    "Count",
    "Coverage",
    "DeviceTimes",
    "Environment",
    "Hint",
    "Interval",
    "KindNoise",
    "LatencyFigures",
    "LatencyResult",
    "LaunchFigures",
    "LaunchNoise",
    "Measured",
    "OpCoverage",
    "OutputError",
    "OutputFault",
    "OverLaunches",
    "Percent",
    "PercentileBound",
    "Positive",
    "Probability",
    "Resources",
    "SelfDifference",
    "SelfTest",
    "Status",
    "Verdict",
    "WhichClock",
    "WorstClass",
]
