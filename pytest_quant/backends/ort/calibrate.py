"""Ranges of activations, found by ONNX Runtime's calibrators over streamed batches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds, fitting_batches
from pytest_quant.backends.onnx_files import model_file, needs_external_data, read_signature
from pytest_quant.backends.ort.prepare import NORMALIZED_FILE, check_same, prepare, raised_opset
from pytest_quant.backends.ort.recipe import recipe_of, static_op_types
from pytest_quant.backends.ort.session import ort_error
from pytest_quant.backends.runtime import quiet
from pytest_quant.errors import DataError, QuantError
from pytest_quant.spec import EngineSpec

RANGES_FILE = "ranges.json"
_MINMAX_BATCHES = 64
"""MinMax keeps two numbers for each tensor and batch until it merges them."""

_HISTOGRAM_BYTES = 256 << 20
"""Histogram methods keep whole activations until they merge them."""

_ENTROPY_BINS = 1024
"""With ORT's own 128 bins for 128 levels there is nothing to choose, and entropy gives the ranges of minmax."""


def calibration_method(name: str) -> Any:
    """Return ONNX Runtime's ``CalibrationMethod`` for ``minmax``, ``entropy`` or ``percentile``."""
    from onnxruntime.quantization import CalibrationMethod

    methods = CalibrationMethod
    return {"minmax": methods.MinMax, "entropy": methods.Entropy, "percentile": methods.Percentile}[name]


def write_ranges(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Run the float model over `batches` and write the ranges of its activations into `folder`.

    Parameters
    ----------
    spec : the engine; its calibration gives the method and the percentile.
    batches : returns the calibration batches; it is called once.
    folder : gets `RANGES_FILE`.

    Raises
    ------
    ModelError : the model is missing or broken.
    DataError : there is no batch; a batch does not fit the model; or, for entropy and percentile, samples
        differ in shape.
    BuildError : the model cannot be prepared or run.
    """
    from onnxruntime.quantization.calibrate import save_tensors_data

    signature = read_signature(model_file(spec.model))
    recipe = recipe_of(spec)
    feeds = fitting_batches(batches(), signature, spec.model.name)
    first = next(feeds)
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        prepared = prepare(spec, Path(work), per_channel=recipe.per_channel)
        if raised_opset(spec, per_channel=recipe.per_channel):
            check_same(model_file(spec.model), Path(work) / NORMALIZED_FILE, first)
        try:
            with quiet():
                ranges = _ranges(spec, prepared, _checked(chain([first], feeds), spec))
                save_tensors_data(ranges, folder / RANGES_FILE)
        except QuantError:
            raise
        except Exception as error:
            raise ort_error(f"to calibrate {spec.model.name}", error) from error


def _ranges(spec: EngineSpec, prepared: Path, feeds: Iterator[Feeds]) -> object:
    from onnxruntime.quantization.calibrate import create_calibrator

    recipe, method = recipe_of(spec), spec.calibration.method
    own: dict[str, dict[str, object]] = {
        "entropy": {"num_bins": _ENTROPY_BINS},
        "percentile": {"percentile": spec.calibration.percentile},
    }
    calibrator = create_calibrator(
        prepared,
        static_op_types(recipe),
        augmented_model_path=str(prepared.with_name("augmented.onnx")),
        calibrate_method=calibration_method(method),
        use_external_data_format=needs_external_data(prepared),
        extra_options=own.get(method, {}) | recipe.calibrator_extra,
    )
    first, size = next(feeds), _MINMAX_BATCHES
    if method != "minmax":
        # So many batches keep all activations within the bound.
        outputs = calibrator.infer_session.run(None, first)
        size = max(1, _HISTOGRAM_BYTES // max(1, sum(np.asarray(output).nbytes for output in outputs)))
    for chunk in _chunks(chain([first], feeds), size):
        # It is asked for batches one by one, by `get_next`, until there is none.
        calibrator.collect_data(SimpleNamespace(get_next=partial(next, iter(chunk), None)))
    return calibrator.compute_data()


def _chunks(feeds: Iterator[Feeds], size: int) -> Iterator[list[Feeds]]:
    """Yield up to `size` batches of equal shapes at a time: histograms of unequal ones cannot be merged at once."""
    for _, alike in groupby(feeds, key=lambda batch: {name: np.shape(array) for name, array in batch.items()}):
        while chunk := list(islice(alike, size)):
            yield chunk


def _checked(batches: Iterator[Feeds], spec: EngineSpec) -> Iterator[Feeds]:
    """Pass batches on; a histogram needs samples of one shape, so that none weighs more than another."""
    shapes: dict[str, tuple[int, ...]] = {}
    for feeds in batches:
        for name, array in feeds.items():
            shape = np.shape(array)[1:]
            expected = shapes.setdefault(name, shape)
            if spec.calibration.method != "minmax" and shape != expected:
                raise DataError(
                    f"calibration by {spec.calibration.method} needs samples of one shape, and '{name}' has two",
                    value=f"{expected} and {shape}",
                    fix="pad or crop the calibration samples, or take the extremes: calibration='minmax'",
                )
        yield feeds
