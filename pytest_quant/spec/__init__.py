"""What was asked: frozen values with no behaviour, standard library only."""

from pytest_quant.spec.channels import ChannelGroup
from pytest_quant.spec.check import Check
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.engine import (
    PRECISIONS,
    QUANTIZED_PRECISIONS,
    SCHEMES,
    Calibration,
    EngineSpec,
    check_percentile,
)
from pytest_quant.spec.latency import LatencyPlan
from pytest_quant.spec.limits import Limits, OutputLimit
from pytest_quant.spec.model import Model
from pytest_quant.spec.shapes import InputShapes, Shape
from pytest_quant.spec.signature import Signature, TensorInfo

__all__ = [
    "PRECISIONS",
    "QUANTIZED_PRECISIONS",
    "SCHEMES",
    "Calibration",
    "ChannelGroup",
    "Check",
    "Dataset",
    "EngineSpec",
    "InputShapes",
    "LatencyPlan",
    "Limits",
    "Model",
    "OutputLimit",
    "Shape",
    "Signature",
    "TensorInfo",
    "check_percentile",
]
