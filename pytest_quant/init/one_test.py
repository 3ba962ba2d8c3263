"""The test that ``pytest-quant check`` runs and prints: its model, and the samples in a file of NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import UsageError
from pytest_quant.init.model_search import ModelToTest, describe_input
from pytest_quant.init.render import templates

_LABELS = "labels"
"""Name of the labels in a file of several arrays."""


def write_test(model: ModelToTest, given: str, data: str, labels: str | None, mark: Mapping[str, object]) -> str:
    """Return a test that checks a model with the samples of a file.

    Parameters
    ----------
    model : what `given` names.
    given : path of the ONNX file as the user writes it, for a model without an expression.
    data : a file of ``np.savez`` with inputs by name, or with one array, or a file of ``np.save``.
    labels : a file of ``np.save``; ``None`` takes the array ``labels`` of `data`, if there is one.
    mark : keys of the mark.

    Raises
    ------
    UsageError : `data` cannot be read, or no array of it fits.
    """
    arrays, inputs = _read(data), model.signature.inputs
    names = [tensor.name for tensor in inputs]
    has_labels = _LABELS not in names and arrays.pop(_LABELS, None) is not None
    chosen = [name for name in names if name in arrays] or list(arrays)
    if not arrays or (len(arrays) > 1 and chosen[0] not in names):
        raise UsageError(
            f"no array of {data} fits the inputs of the model",
            value=", ".join(f"{name} {array.dtype}{array.shape}" for name, array in arrays.items()) or "no array",
            allowed=f"one array, or arrays by the names of the inputs: {', '.join(map(describe_input, inputs))}",
            fix=f"np.savez('samples.npz', {', '.join(f'{name}=...' for name in names)}, {_LABELS}=...)",
        )
    n = (arrays[chosen[0]].shape or (0,))[0]
    is_calibrated = not mark.get("quantized") and mark.get("scheme", "static") == "static"
    template = templates().get_template("one_test.py.j2")
    return template.render(
        model=model,
        given=given,
        data=data,
        inputs=chosen,
        is_named=len(names) > 1 and chosen[0] in names,
        labels=f"np.load({json.dumps(labels)})" if labels else f'samples["{_LABELS}"]' if has_labels else "",
        # As many as the guides take, of few samples a tenth.
        calibration=min(100, max(1, n // 10)) if is_calibrated else 0,
        mark=", ".join(f"{key}={json.dumps(value)}" for key, value in mark.items()),
    )


def _read(file: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a file by their names; that of ``np.save`` has an empty one."""
    try:
        loaded = np.load(file)
        return {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (OSError, ValueError, EOFError, BadZipFile):
        raise UsageError(
            f"{file} is no file of NumPy that can be read, or has objects in it",
            fix=f'write np.savez("samples.npz", NAME_OF_INPUT=array, {_LABELS}=array); texts as an array of dtype str',
        ) from None
