"""What must be the same before two records of one series are compared."""

from __future__ import annotations

import hashlib
import json

from pytest_quant.record import Record, Run


def version_of(record: Record) -> str:
    """Return a short digest of the evaluation data and the metric; records of other versions are never compared."""
    found = record.accuracy
    metric = (record.metric, found.unit, found.better) if found else (record.metric, None, None)
    return _digest([record.digests.get("data"), *metric])


def identity_of(run: Run, record: Record) -> str:
    """Return a short digest of the machine and of the provider that ran; latency is compared only within one."""
    provider = record.coverage.provider if record.coverage else None
    return _digest([sorted(run.environment.identity.items()), provider])


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
