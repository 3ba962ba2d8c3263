"""The backend ``trt``: TensorRT 10 and 11."""

from __future__ import annotations

from pytest_quant.backends.base import Availability
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt.rtx import TrtRtxBackend
from pytest_quant.spec import EngineSpec

_FIX = "pytest --quant-simulate=SM89 judges the build and, by simulation, accuracy; backend='ort-trt' runs on a GPU"


class TrtBackend(TrtRtxBackend):
    """Builds for a named GPU through TensorRT-RTX's parser and builder, and simulates.

    Engines are not run on a GPU by this backend yet: without a target it is UNAVAILABLE, also where there is one.
    """

    name = "trt"

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether a build for the named target can be simulated."""
        if spec is not None and parse_options(self.name, spec.options).compute_capability:
            return super().availability(spec)
        return Availability(False, reason="running TensorRT engines on a GPU is not supported yet", fix=_FIX)
