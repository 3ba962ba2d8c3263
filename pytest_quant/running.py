"""The session of one process: made from the options when the first check needs it."""

from __future__ import annotations

import pytest

from pytest_quant.cache import Cache
from pytest_quant.console import open_console
from pytest_quant.environment import fingerprint
from pytest_quant.history import open_store
from pytest_quant.progress import Progress
from pytest_quant.record import series_key
from pytest_quant.result import Baseline
from pytest_quant.session import Session
from pytest_quant.settings import Settings, settings_of
from pytest_quant.spec import Check

SESSION = pytest.StashKey[Session]()


def session_of(config: pytest.Config) -> Session:
    """Return the session of this process, made once."""
    if SESSION not in config.stash:
        settings = settings_of(config)
        progress = Progress(open_console(config))
        config.stash[SESSION] = Session(
            Cache(settings.cache, notify=progress.notify),
            baseline=lambda check, metric: _baseline(settings, check, metric),
            notify=progress.notify,
            step=progress.step,
        )
    return config.stash[SESSION]


def _baseline(settings: Settings, check: Check, metric: str | None) -> Baseline | None:
    """Read the accepted record of the check's series; the history is opened only for a limit that needs it."""
    if check.limits.max_slowdown is None and check.limits.max_drop_increase is None:
        return None
    if settings.history is None:
        return None
    return open_store(settings.history).baseline(series_key(check, metric), fingerprint().identity)
