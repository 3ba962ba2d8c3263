"""What the history knows of a runner: its newest self-test, and the noise between its sessions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends import backend_names, get_backend
from pytest_quant.history import is_there, open_store
from pytest_quant.history.rows import StoredCheck, decode_json, encode, machine_of, searchable, to_utc
from pytest_quant.record.record import decode, plain
from pytest_quant.result import LatencyFigures, SelfTest
from pytest_quant.spec import UNMEASURED, Spread
from pytest_quant.stats.means import ValueWithError, median_with_error, session_spread


def keep_selftest(place: str | Path, selftest: SelfTest) -> None:
    """Add a self-test to the history at `place`. Raises `HistoryError` when it cannot be opened or written."""
    open_store(place).keep_selftest(
        {
            "machine": machine_of(selftest.identity),
            "device": searchable(selftest.device),
            "measured_at": searchable(to_utc(selftest.measured_at)),
            "document": encode(plain(selftest, "self-test")),
        }
    )


def newest_selftest(place: str | Path, identity: Mapping[str, str], device: str) -> SelfTest | None:
    """Return the newest self-test of machines like this one, ``None`` without one.

    Parameters
    ----------
    place : file or database URL of the history; a file that does not exist is not created.
    identity : of the machine, see `Environment`.
    device : ``cpu`` or ``cuda:0``.

    Raises
    ------
    HistoryError : the history cannot be opened or read, or the row is damaged.
    """
    document = open_store(place).newest_selftest(machine_of(identity), device) if is_there(place) else None
    if document is None:
        return None
    return decode_json(lambda value: decode(SelfTest, value, "self-test"), document, "the self-test")


_NEWEST = 200
"""Checks whose nulls are read: some 0.1 s, and with so many a standard deviation is known within 10 %."""

_FEWEST_ROUNDS = 8

_MOST_FREEDOM = 20.0
"""However many draws there are: they are of other models, whose sessions may differ by twice as much or by half, so
that what a launch's own null shows must keep its weight."""


def session_noise(place: str | Path, identity: Mapping[str, str], device: str) -> Spread:
    """Return the noise of log(reference / candidate) between sessions within one launch, on machines of one identity.

    It is known from their newest self-test and the nulls of later checks; unmeasured without either.

    Parameters
    ----------
    place : file or database URL of the history; a file that does not exist is not created.
    identity : of the machine, see `Environment`.
    device : that the sessions run on, ``cpu`` or ``cuda:0``.

    Raises
    ------
    HistoryError : the history cannot be opened or read.
    """
    if not is_there(place):
        return UNMEASURED
    selftest = newest_selftest(place, identity, device)
    checks = open_store(place).checks(limit=_NEWEST)
    since = "" if selftest is None else to_utc(selftest.measured_at)
    measured = [] if selftest is None else [ValueWithError(*draw) for kind in selftest.kinds for draw in kind.draws]
    spread = session_spread(UNMEASURED, [*measured, *null_draws(checks, identity, device, since)])
    return replace(spread, freedom=min(spread.freedom, _MOST_FREEDOM))


def null_draws(
    checks: Iterable[StoredCheck], identity: Mapping[str, str], device: str, since: str = ""
) -> Iterator[ValueWithError]:
    """Yield the log ratio of null and reference of each latency that was measured on machines of one identity.

    Both are sessions of one engine in one process, so that their ratio is noise alone. One that is off counts as any
    other: it is what is looked for. Records without their rounds, which were pruned, tell nothing.

    Parameters
    ----------
    checks : any records.
    identity, device : of those that count.
    since : only of runs that started later, in UTC; empty for all.
    """
    mine = dict(identity)
    backends = backend_names()
    for check in checks:
        here = dict(check.run.environment.identity) == mine and to_utc(check.run.started_at) > since
        name = check.record.backend
        if here and name in backends and get_backend(name).device == device:
            yield from _read_draws(check.record.latency)


def _read_draws(latency: LatencyFigures | None) -> Iterator[ValueWithError]:
    if latency is None:
        return
    reference, null = (latency.round_p50_ms.get(name, ()) for name in ("reference", "null"))
    rounds = list(zip(reference, null, strict=False))
    if len(rounds) >= _FEWEST_ROUNDS and all(min(pair) > 0.0 for pair in rounds):
        draw = median_with_error([math.log(nul / ref) for ref, nul in rounds])
        # The middle of several sets of sessions varies less than one of them.
        yield ValueWithError(draw.value * math.sqrt(latency.sets), draw.error * math.sqrt(latency.sets))
    yield from _read_draws(latency.repeat)
