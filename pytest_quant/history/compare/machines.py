"""Launches by the machine they ran on."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.series import identity_of

_TELLING = ("gpu", "cpu", "isa", "cores")


def by_identity(launches: Iterable[StoredCheck]) -> dict[str, list[StoredCheck]]:
    """Return the launches of each identity, in the order given."""
    found: dict[str, list[StoredCheck]] = {}
    for one in launches:
        found.setdefault(identity_of(one.run, one.record), []).append(one)
    return found


def on_common_machines(pair: Pair) -> tuple[Pair, bool]:
    """Return the launches of identities that both sides have, and true; all of them, and false, when there is none."""
    base, head = by_identity(pair.base), by_identity(pair.head)
    common = base.keys() & head.keys()
    if not common:
        return pair, False
    sides = (
        tuple(one for one in side if identity_of(one.run, one.record) in common) for side in (pair.base, pair.head)
    )
    return Pair(pair.series, *sides), True


def describe_machine(launch: StoredCheck) -> str:
    """Return the parts of an identity that a reader knows a machine by, and the provider that ran."""
    identity = launch.run.environment.identity
    provider = launch.record.coverage.provider if launch.record.coverage else ""
    parts = [f"{identity[name]} cores" if name == "cores" else identity[name] for name in _TELLING if name in identity]
    return ", ".join([*parts, provider] if provider else parts)
