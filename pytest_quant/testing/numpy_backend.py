"""A backend that runs small ONNX graphs in numpy, as plainly as can be: something to compare other backends with.

Its int8 is a simulation: weights, and with scheme ``static`` activations too, are rounded to 8 bits and computed in
float. Its engines say so (``simulated``), so that accuracy is judged and latency is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends import Availability, Backend, Engine, Feeds, Offer
from pytest_quant.backends.feeds import check_batches
from pytest_quant.environment.machine import version
from pytest_quant.spec import EngineSpec

_RANGES = "ranges.json"
_MODEL = "model.onnx"


class NumpyBackend(Backend):
    """onnx's reference evaluator as a backend; it has no options."""

    name = "numpy"
    offer = Offer({"fp32": (None,), "int8": ("static", "weight-only")}, calibrations=("minmax",))

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnx is installed."""
        if find_spec("onnx") is None:
            return Availability(False, reason="onnx is not installed", fix="pip install onnx")
        return Availability(True, version=version("numpy"), device="cpu")

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, precision, scheme, excluded nodes, versions."""
        from pytest_quant.backends.onnx_files import model_ingredients

        return {
            **model_ingredients("model", spec.model),
            "precision": spec.precision,
            "scheme": str(spec.scheme),
            "exclude": json.dumps(sorted(spec.exclude)),
            "onnx": version("onnx"),
            "numpy": version("numpy"),
            "recipe": "1",
        }

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the smallest and largest value of each activation that an eligible node reads."""
        from pytest_quant.testing.numpy_engine import activation_ranges

        fitting = check_batches(batches(), self.signature(spec.model), spec.model.name)
        ranges = activation_ranges(spec.model, fitting)
        (folder / _RANGES).write_text(json.dumps(ranges), encoding="utf-8")

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the rounded model; the float model stays where it is."""
        from pytest_quant.testing.numpy_engine import write_rounded

        if spec.scheme is None:
            return
        ranges = {} if calibration is None else json.loads((calibration / _RANGES).read_text(encoding="utf-8"))
        write_rounded(spec, ranges, folder / _MODEL)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the evaluator. Raises `BuildError` for an operator that it does not know."""
        from pytest_quant.backends.onnx_files import model_file
        from pytest_quant.testing.numpy_engine import NumpyEngine

        return NumpyEngine(spec, model_file(spec.model) if spec.scheme is None else folder / _MODEL)
