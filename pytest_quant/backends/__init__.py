"""One file or folder per runtime; the only place that imports it."""

from pytest_quant.backends.base import Availability, Backend, Engine, Feeds, Outputs, ShapedBackend
from pytest_quant.backends.registry import backend_names, get_backend

__all__ = ["Availability", "Backend", "Engine", "Feeds", "Outputs", "ShapedBackend", "backend_names", "get_backend"]
