"""Points of a series that nobody measured."""

from __future__ import annotations

from pytest_quant.history.summaries import CheckSummary
from pytest_quant.result import Status


def a_point(number: int, **figures: object) -> CheckSummary:
    """The point of one commit a day."""
    told: dict[str, object] = {
        "run_id": f"run-{number}",
        "started_at": f"2026-{number // 28 + 1:02}-{number % 28 + 1:02}T00:00:00+00:00",
        "commit": f"c{number}",
        "branch": "main",
        "dirty": False,
        "series": "key",
        "version": "v",
        "identity": "machine",
        "isa": "avx2",
        "status": Status.PASS,
        "metric": "top1",
        "unit": "%",
        "better": "higher",
    }
    return CheckSummary(**(told | figures))  # type: ignore[arg-type]
