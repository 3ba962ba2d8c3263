"""What else is not the same at base and head, so that a change can be traced to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_quant.history.compare.comparison import Difference
from pytest_quant.history.compare.pairing import Pair
from pytest_quant.history.rows import StoredCheck


def what_differs(pair: Pair) -> tuple[Difference, ...]:
    """Return what differs between the last launch of the base and that of the head.

    Calibration, reference and provider first, then digests by their name, the machine, and the versions of
    libraries.
    """
    base, head = pair.base[-1], pair.head[-1]
    kinds = zip(_facts(base), _facts(head), strict=True)
    return tuple(one for before, after in kinds for one in _between(before, after))


def _facts(check: StoredCheck) -> Iterator[Mapping[str, str]]:
    record, environment = check.record, check.run.environment
    told = {
        "calibration": record.calibration,
        "calibration samples": None if record.calibration_samples is None else str(record.calibration_samples),
        "threads": None if record.threads is None else str(record.threads),
        "reference": record.reference,
        "provider": record.coverage.provider if record.coverage else None,
        "samples": str(record.accuracy.n) if record.accuracy else None,
    }
    yield {name: value for name, value in told.items() if value is not None}
    yield {f"{name.replace('_', ' ')} digest": value for name, value in record.digests.items()}
    yield environment.identity
    yield environment.context


def _between(base: Mapping[str, str], head: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys([*base, *head]):
        if base.get(name) != head.get(name):
            yield Difference(name, base.get(name), head.get(name))
