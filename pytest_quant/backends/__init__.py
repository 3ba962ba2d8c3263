"""One file or folder per runtime; the only place that imports it."""

from pytest_quant.backends.base import (
    Availability,
    Backend,
    EarlyBackend,
    Engine,
    Feeds,
    Outputs,
    PackagedBackend,
    ShapedBackend,
    TargetedBackend,
    Tf32Backend,
    TuningBackend,
    plan_of,
    prepare_events,
    threads_of,
)
from pytest_quant.backends.registry import backend_names, get_backend, get_exporter

__all__ = [
    "Availability",
    "Backend",
    "EarlyBackend",
    "Engine",
    "Feeds",
    "Outputs",
    "PackagedBackend",
    "ShapedBackend",
    "TargetedBackend",
    "Tf32Backend",
    "TuningBackend",
    "backend_names",
    "get_backend",
    "get_exporter",
    "plan_of",
    "prepare_events",
    "threads_of",
]
