"""The request of a check: model, data, engines and limits as frozen values; standard library only."""

from pytest_quant.spec.check import (
    PRECISIONS,
    QUANTIZED_PRECISIONS,
    SCHEMES,
    Calibration,
    Check,
    EngineSpec,
    LatencyPlan,
    Limits,
    OutputLimit,
    check_percentile,
)
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.model import ChannelGroup, InputShapes, Model, Shape, Signature, TensorInfo

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
