"""Tests that fail when a quantized neural network is wrong, slow, or not quantized at all.

Public names are imported on first use, so that a pytest start without quant marks loads none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_quant.errors import InconclusiveWarning as InconclusiveWarning
    from pytest_quant.errors import QuantError as QuantError
    from pytest_quant.errors import UsageError as UsageError
    from pytest_quant.measure.pipeline import Measurement as Measurement
    from pytest_quant.metrics import Metric as Metric
    from pytest_quant.metrics.texts import character_errors as character_errors
    from pytest_quant.metrics.texts import span_f1 as span_f1
    from pytest_quant.metrics.texts import word_errors as word_errors
    from pytest_quant.record import Record as Record
    from pytest_quant.spec import Calibration as Calibration
    from pytest_quant.spec import Dataset as Dataset
    from pytest_quant.spec import Model as Model
    from pytest_quant.spec import Scores as Scores

_NAMES = {
    "errors": ("InconclusiveWarning", "QuantError", "UsageError"),
    "measure.pipeline": ("Measurement",),
    "metrics": ("Metric",),
    "metrics.texts": ("character_errors", "span_f1", "word_errors"),
    "record": ("Record",),
    "spec": ("Calibration", "Dataset", "Model", "Scores"),
}
_HOME = {name: f"pytest_quant.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from where it lives (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'pytest_quant' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_HOME)
