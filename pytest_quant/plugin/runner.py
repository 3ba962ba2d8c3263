"""What this process knows about the noise of its runner: read from the history once, and only where latency counts."""

from __future__ import annotations

import pytest

from pytest_quant.environment import fingerprint
from pytest_quant.errors import HistoryError
from pytest_quant.history import missing_libraries
from pytest_quant.history.runner_noise import DEFAULT, RunnerNoise, session_noise
from pytest_quant.measure.steps import Steps
from pytest_quant.plugin.console import open_console
from pytest_quant.plugin.settings import settings_of

_NOISE = pytest.StashKey[dict[str, RunnerNoise]]()


def noise_of_runner(config: pytest.Config, device: str) -> RunnerNoise:
    """Return the noise between sessions on `device`, ``cpu`` or ``cuda:0``.

    It is the default where nothing is known, or the history is off. A history that cannot be read is told to the user,
    once, and changes nothing else.
    """
    known = config.stash.setdefault(_NOISE, {})
    if device not in known:
        known[device] = _read(config, device)
    return known[device]


def _read(config: pytest.Config, device: str) -> RunnerNoise:
    place = settings_of(config).history
    # Without libraries there is no history, which the end of the run says.
    if place is None or missing_libraries():
        return DEFAULT
    try:
        return session_noise(place, fingerprint().identity, device)
    except HistoryError as error:
        why = f"{error.what}: {error.value}" if error.value else error.what
        Steps(open_console(config)).notify(f"the noise of this runner is taken to be {DEFAULT.source}: {why}")
        return DEFAULT
