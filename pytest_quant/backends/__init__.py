"""One file or folder per runtime; the only place that imports it."""

from pytest_quant.backends.base import Backend, Engine, Feeds, Outputs
from pytest_quant.backends.offer import TARGET, Availability, Offer, Precisions, Reads
from pytest_quant.backends.registry import backend_names, get_backend, get_exporter
from pytest_quant.backends.tf32 import TF32, with_tf32

__all__ = [
    "TARGET",
    "TF32",
    "Availability",
    "Backend",
    "Engine",
    "Feeds",
    "Offer",
    "Outputs",
    "Precisions",
    "Reads",
    "backend_names",
    "get_backend",
    "get_exporter",
    "with_tf32",
]
