"""``--quant-launches`` and ``--quant-total-time``: how often a check is launched, and its share of the time."""

from __future__ import annotations

import math

import pytest

from pytest_quant.measure.launches import Wanted
from pytest_quant.measure.measurement import Measurement
from pytest_quant.measure.total_time import TotalTime
from pytest_quant.plugin.settings import Settings
from pytest_quant.record import series_key

CHECKS = pytest.StashKey[int]()
"""How many checks pytest is about to run."""


def wanted_launches(config: pytest.Config, settings: Settings, measurement: Measurement) -> Wanted:
    """Return how often a check is launched: as the option says, else as often as a comparison needs."""
    if isinstance(settings.launches, int):
        return Wanted(settings.launches)
    least = 1
    if settings.compare:
        # Here, because only runs that compare should import it.
        from pytest_quant.plugin.head_launches import lacking_launches

        least = lacking_launches(config, settings, series_key(measurement.check, measurement.accuracy.metric))
    return Wanted(least, auto=settings.launches == "auto")


def total_time(config: pytest.Config, settings: Settings) -> TotalTime:
    """Return the accounts of this process: all of the time, or as a worker of xdist its part of time and checks."""
    if settings.total_time_s is None:
        return TotalTime()
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    checks = math.ceil(config.stash.get(CHECKS, 1) / workers)
    return TotalTime(settings.total_time_s / workers, checks)
