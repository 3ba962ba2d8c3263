"""Ranges and rounding by NNCF, in one pass over the samples."""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.misfit import misfit
from pytest_quant.backends.onnx_files import model_file, write_normalized
from pytest_quant.backends.openvino.exclude import excluded_nodes
from pytest_quant.backends.openvino.files import is_own, read_model, save_model, signature_of
from pytest_quant.backends.openvino.options import parse_options
from pytest_quant.backends.openvino.recipe import overflow_fix
from pytest_quant.backends.openvino.refusal import refused
from pytest_quant.errors import DataError
from pytest_quant.spec import Calibration, EngineSpec, Model

_EMPTY = "Calibration dataset must not be empty"


def write_quantized(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Quantize the float model over `batches` and write it into `folder`.

    Raises
    ------
    DataError : there is no batch, or a batch does not fit the model.
    UsageError : `exclude` names a node that is not there.
    BuildError : NNCF could not quantize the model.
    """
    signature = signature_of(spec.model)
    count = 0
    for feeds in batches():
        wrong = misfit(feeds, signature)
        if wrong is not None:
            raise wrong
        count += 1
    if count == 0:
        raise DataError(
            f"calibration of {spec.model.name} got no batch",
            allowed="at least one calibration sample",
            fix="write Dataset.from_arrays(inputs, labels, calibration=100)",
        )
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        source = _source(spec.model, Path(work))
        model = read_model(source)
        ignored = excluded_nodes(spec, model, source)
        try:
            with _quiet():
                quantized = _quantize(spec, model, _Again(batches), count, ignored)
        except Exception as error:
            raise refused(f"to quantize {spec.model.name}", error, _fix(error)) from error
        save_model(quantized, folder)


def _fix(error: Exception) -> str:
    """NNCF quantizes each branch of an If over the samples that take it."""
    if _EMPTY in str(error):
        return "a branch of an If is taken by no calibration sample: add samples that take it"
    return "leave the operator that it names in float with exclude=[...], or use another backend: backend='ort'"


def _source(model: Model, work: Path) -> Path:
    """Return the file to quantize: an ONNX graph in its normal form, in `work`, or a model of OpenVINO's own."""
    if is_own(model):
        return model_file(model)
    normal = work / model_file(model).name
    write_normalized(model_file(model), normal)
    return normal


def _quantize(spec: EngineSpec, model: Any, batches: _Again, count: int, ignored: list[str]) -> Any:
    import nncf

    options = parse_options(spec.options)
    return nncf.quantize(
        model,
        nncf.Dataset(batches),
        preset=nncf.QuantizationPreset[options.preset.upper()],
        target_device=nncf.TargetDevice.CPU,
        subset_size=count,
        fast_bias_correction=options.fast_bias_correction,
        model_type=None if options.model_type is None else nncf.ModelType.TRANSFORMER,
        ignored_scope=nncf.IgnoredScope(names=ignored, validate=False),
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            overflow_fix=nncf.OverflowFix[overflow_fix(options).upper()],
            activations_range_estimator_params=_range_estimator(spec.calibration),
        ),
    )


def _range_estimator(asked: Calibration) -> Any:
    """Return how ranges are found: NNCF's own default is a mean over batches, which cuts off peaks."""
    from nncf.quantization.range_estimator import (
        AggregatorType,
        RangeEstimatorParameters,
        RangeEstimatorParametersSet,
        StatisticsCollectorParameters,
        StatisticsType,
    )

    if asked.method == "minmax":
        return RangeEstimatorParametersSet.MINMAX
    cut = StatisticsCollectorParameters(
        StatisticsType.QUANTILE, AggregatorType.MEAN, quantile_outlier_prob=1.0 - asked.percentile / 100.0
    )
    return RangeEstimatorParameters(cut, cut)


class _Again:
    """Iterates over the batches anew each time; NNCF makes several passes."""

    def __init__(self, batches: Callable[[], Iterator[Feeds]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Feeds]:
        return self._batches()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep NNCF's log lines and progress bars off the screen; its logger is as it was afterwards.

    NNCF is imported before the screen is taken away, since its logger keeps the stream that it finds then.
    """
    logger = logging.getLogger("nncf")
    before = logger.disabled
    logger.disabled = True
    try:
        import_module("nncf")
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.disabled = before
