"""``--quant-launches`` and ``--quant-total-time``: how often a check is launched, and its share of the time."""

from __future__ import annotations

import math

import pytest

from pytest_quant.measure.launches import Wanted
from pytest_quant.measure.total_time import TotalTime
from pytest_quant.plugin.settings import Settings

CHECKS = pytest.StashKey[int]()
"""How many checks pytest is about to run."""


def wanted_launches(settings: Settings) -> Wanted:
    """Return how often the options want every check launched."""
    return Wanted(auto=True) if settings.launches == "auto" else Wanted(settings.launches)


def total_time(config: pytest.Config, settings: Settings) -> TotalTime:
    """Return the accounts of this process: all of the time, or as a worker of xdist its part of time and checks."""
    if settings.total_time_s is None:
        return TotalTime()
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    checks = math.ceil(config.stash.get(CHECKS, 1) / workers)
    return TotalTime(settings.total_time_s / workers, checks)
