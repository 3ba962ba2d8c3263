"""One file or folder per runtime; the only place that imports it."""

from pytest_quant.backends.base import (
    Availability,
    Backend,
    Engine,
    Feeds,
    Outputs,
    ShapedBackend,
    TargetedBackend,
    plan_of,
    prepare_events,
    threads_of,
)
from pytest_quant.backends.registry import backend_names, get_backend, get_exporter

__all__ = [
    "Availability",
    "Backend",
    "Engine",
    "Feeds",
    "Outputs",
    "ShapedBackend",
    "TargetedBackend",
    "backend_names",
    "get_backend",
    "get_exporter",
    "plan_of",
    "prepare_events",
    "threads_of",
]
