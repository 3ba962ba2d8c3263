"""What this process knows about the noise of its runner: read from the history once, and only where latency counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.environment import fingerprint
from pytest_quant.errors import HistoryError
from pytest_quant.history import missing_libraries
from pytest_quant.history.runner_noise import UNMEASURED, SessionNoise, session_noise
from pytest_quant.plugin.collect import PLANNED, Planned
from pytest_quant.plugin.console import Progress, open_console
from pytest_quant.plugin.settings import settings_of
from pytest_quant.report.selftest import FIVE, remedy, smallest_pct
from pytest_quant.spec import Limits

_NOISE = pytest.StashKey[dict[str, SessionNoise]]()


def noise_of_runner(config: pytest.Config, device: str) -> SessionNoise:
    """Return the noise between sessions on `device`, ``cpu`` or ``cuda:0``.

    It is the default where nothing is known, or the history is off. A history that cannot be read is told to the user,
    once, and changes nothing else.
    """
    known = config.stash.setdefault(_NOISE, {})
    if device not in known:
        known[device] = _read(config, device)
    return known[device]


def _read(config: pytest.Config, device: str) -> SessionNoise:
    place = settings_of(config).history
    # Without libraries there is no history, which the end of the run says.
    if place is None or missing_libraries():
        return UNMEASURED
    try:
        return session_noise(place, fingerprint().identity, device)
    except HistoryError as error:
        why = f"{error.what}: {error.value}" if error.value else error.what
        Progress(open_console(config)).notify(f"the noise of this runner is taken to be {UNMEASURED.source}: {why}")
        return UNMEASURED


_NEAR_ONE = 0.8
"""A smaller `min_speedup` asks for a speed that no noise reaches; one above 1 says nothing about what it is near to."""


def tell_what_is_too_tight(config: pytest.Config, marked: Sequence[pytest.Item]) -> None:
    """Show which limits on speed lie below what this runner was found to hold, each once for all of its tests.

    Only a runner that tested itself is known so well. Of xdist's workers, which collect the same, the first one speaks.
    """
    settings = settings_of(config)
    if settings.latency_off or _is_another_worker(config):
        return
    launches = FIVE if settings.launches == "auto" else settings.launches or 1
    asked: dict[tuple[str, str], list[tuple[float, Planned]]] = {}
    for planned in (item.stash[PLANNED] for item in marked if PLANNED in item.stash):
        device = get_backend(planned.variant.backend).device
        for written, percent in _limits_on_speed(planned.asked.limits):
            asked.setdefault((device, written), []).append((percent, planned))
    for (device, written), tests in asked.items():
        found = noise_of_runner(config, device).selftest
        if found is not None and tests[0][0] < min(smallest_pct(kind, launches) for kind in found.kinds):
            of = f"{tests[0][1].nodeid}" + (f" and {len(tests) - 1} more" if len(tests) > 1 else "")
            what = f"{written} of {of} is less than this runner holds"
            Progress(open_console(config)).notify(f"{what}: {remedy(found, launches)}")


def _limits_on_speed(limits: Limits) -> Iterator[tuple[str, float]]:
    """Yield each limit that noise may exceed, as it is written, with the slowdown in percent that it allows."""
    for name, percent in (("max_slowdown", limits.max_slowdown), ("max_p50_increase", limits.max_p50_increase)):
        if percent is not None:
            yield f"{name}={percent:g}", percent
    if limits.min_speedup is not None and _NEAR_ONE < limits.min_speedup < 1.0:
        yield f"min_speedup={limits.min_speedup:.4g}", 100.0 * (1.0 / limits.min_speedup - 1.0)


def _is_another_worker(config: pytest.Config) -> bool:
    return bool(getattr(config, "workerinput", {}).get("workerid", "gw0") != "gw0")
