"""The dict ``extra``: ONNX Runtime ignores a key that it does not know, so we do not."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.errors import UsageError, nearest

_QUANTIZER_KEYS = frozenset(
    {
        "ActivationRestrictedAsymmetric",
        "ActivationSymmetric",
        "AddQDQPairToWeight",
        "BlockSize",
        "DedicatedQDQPair",
        "DefaultTensorType",
        "EnableSubgraph",
        "ForceQuantizeNoInputCheck",
        "MatMulConstBOnly",
        "MinimumRealRange",
        "OpTypesToExcludeOutputQuantization",
        "QDQDisableWeightAdjustForInt32Bias",
        "QDQKeepRemovableActivations",
        "QDQOpTypePerChannelSupportToAxis",
        "QuantizeBias",
        "UseQDQContribOps",
        "WeightSymmetric",
    }
)
CALIBRATOR_KEYS = {
    "CalibMovingAverage": "moving_average",
    "CalibMovingAverageConstant": "averaging_constant",
    "CalibTensorRangeSymmetric": "symmetric",
}
"""Key in ``extra`` and the calibrator's own word for it."""

_REFUSED = {
    "CalibMaxIntermediateOutputs": "it throws collected batches away (onnxruntime 1.31); memory is bounded without",
    "CalibPercentile": "the mark has a key for it: calibration=Calibration(method='percentile', percentile=99.99)",
    "CalibStridedMinMax": "calibration data is streamed already",
    "SmoothQuant": "it needs neural-compressor and its own calibration pass",
}


def check_extra(extra: Mapping[object, object]) -> dict[str, object]:
    """Return `extra` with known keys and values that JSON can hold.

    Raises
    ------
    UsageError : a key is unknown, or does harm here; or a value is not made of numbers, strings, lists and dicts.
    """
    known = _QUANTIZER_KEYS | CALIBRATOR_KEYS.keys()
    for key, value in extra.items():
        if key in _REFUSED:
            raise UsageError(f"extra option '{key}' is not taken", value=repr(value), fix=_REFUSED[str(key)])
        if key not in known:
            raise UsageError(
                f"ONNX Runtime has no extra option '{key}', and would ignore it",
                value=repr(value),
                allowed=nearest(str(key), known),
            )
        if not _is_plain(value):
            raise UsageError(
                f"extra option '{key}' cannot be that", value=repr(value), allowed="numbers, strings, lists and dicts"
            )
    return {str(key): value for key, value in extra.items()}


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))
