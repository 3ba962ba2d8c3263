"""Which records of a series may be compared: in accuracy those of one version, in latency those of one identity."""

from __future__ import annotations

import hashlib
import json

from pytest_quant.record import Json, Record, Run

_LENGTH = 12


def version_of(record: Record) -> str:
    """Return a short digest of what was measured on and with what: evaluation data, metric, unit, which way is better.

    Two records of one series with different versions are never compared. Empty for a check that never came to be.
    """
    accuracy = record.accuracy
    if accuracy is None:
        return ""
    return _digest([record.digests.get("data"), accuracy.metric, accuracy.unit, accuracy.better])


def identity_of(run: Run, record: Record) -> str:
    """Return a short digest of what must match before latency is compared.

    The machine's identity (see `Environment`), the provider that ran, and the threads where the record tells them.
    """
    machine: list[Json] = [[name, value] for name, value in sorted(run.environment.identity.items())]
    provider = record.coverage.provider if record.coverage else None
    return _digest([machine, provider, record.threads])


def _digest(parts: list[Json]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_LENGTH]
