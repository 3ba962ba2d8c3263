"""The request of a check: model, data, engines and limits as frozen values; standard library only."""

from pytest_quant.spec.check import (
    PRECISIONS,
    QUANTIZED_PRECISIONS,
    REFERENCE_PRECISIONS,
    SCHEMES,
    UNKNOWN,
    UNMEASURED,
    Calibration,
    Check,
    EngineSpec,
    LatencyPlan,
    Pages,
    Spread,
    check_percentile,
)
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.limits import LIMITS, Limit, Limits, OutputLimit, limits_on
from pytest_quant.spec.model import ChannelGroup, InputShapes, Model, Shape, Signature, TensorInfo

__all__ = [
    "LIMITS",
    "PRECISIONS",
    "QUANTIZED_PRECISIONS",
    "REFERENCE_PRECISIONS",
    "SCHEMES",
    "UNKNOWN",
    "UNMEASURED",
    "Calibration",
    "ChannelGroup",
    "Check",
    "Dataset",
    "EngineSpec",
    "InputShapes",
    "LatencyPlan",
    "Limit",
    "Limits",
    "Model",
    "OutputLimit",
    "Pages",
    "Shape",
    "Signature",
    "Spread",
    "TensorInfo",
    "check_percentile",
    "limits_on",
]
