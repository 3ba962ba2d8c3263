"""The session of one process: made from the options when the first check needs it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pytest_quant.cache import Cache
from pytest_quant.console import open_console
from pytest_quant.environment import fingerprint
from pytest_quant.history import open_store
from pytest_quant.history.baselines import Baselines, Evaluated
from pytest_quant.progress import Progress
from pytest_quant.record import series_key
from pytest_quant.result import Baseline, NoBaseline
from pytest_quant.session import DIAGNOSE_S, Measurement, Session
from pytest_quant.settings import Settings, settings_of

SESSION = pytest.StashKey[Session]()


def session_of(config: pytest.Config) -> Session:
    """Return the session of this process, made once."""
    if SESSION not in config.stash:
        settings = settings_of(config)
        baselines = _baselines(config, settings)
        progress = Progress(open_console(config))
        config.stash[SESSION] = Session(
            Cache(settings.cache, notify=progress.notify),
            baseline=lambda measurement: _baseline(baselines, measurement),
            notify=progress.notify,
            step=progress.step,
            times=not settings.latency_off,
            diagnose_s=DIAGNOSE_S if settings.diagnose_s is None else settings.diagnose_s,
        )
    return config.stash[SESSION]


def _baseline(baselines: Baselines, measurement: Measurement) -> Baseline | NoBaseline | None:
    """Look for a baseline only where a limit needs it."""
    check = measurement.check
    if check.limits.max_slowdown is None and check.limits.max_drop_increase is None:
        return None
    now = Evaluated(check.nodeid, measurement.accuracy, measurement.samples)
    return baselines.find(series_key(check, measurement.accuracy.metric), measurement.digests.get("data"), now)


def _baselines(config: pytest.Config, settings: Settings) -> Baselines:
    place = settings.history
    return Baselines(
        config.rootpath,
        None if place is None else lambda: open_store(place),
        fingerprint().identity,
        datetime.now(UTC).date(),
    )
