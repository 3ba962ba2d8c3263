"""Do the inputs fit the model? Names, dtypes, ranks and fixed dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import Feeds
from pytest_quant.data.convert import dtype_name, to_array
from pytest_quant.data.layout import Layout
from pytest_quant.errors import DataError, nearest
from pytest_quant.spec import Signature, TensorInfo

_TEXT = ("object", "str")
"""How a signature may spell the dtype of strings."""


def name_inputs(value: object, signature: Signature, where: str, optional: frozenset[str] = frozenset()) -> Feeds:
    """Return arrays by input name, in the model's order; a single array is the only input's.

    `optional` names inputs that may be missing.

    Raises
    ------
    DataError : an input is unknown or missing, or one array is given to several inputs.
    """
    names = [tensor.name for tensor in signature.inputs]
    needed = [name for name in names if name not in optional]
    example = "{" + ", ".join(f"'{name}': ..." for name in needed) + "}"
    if not isinstance(value, Mapping):
        if len(needed) != 1:
            raise DataError(
                f"{where}: the model has {len(needed)} inputs, and the data does not say which is which",
                value=type(value).__name__,
                allowed=f"a dict by input name: {', '.join(needed)}",
                fix=f"give {example}",
            )
        return {needed[0]: to_array(value, f"{where}, input '{needed[0]}'")}
    for name in value:
        if name not in names:
            raise DataError(
                f"{where}: the model has no input '{name}'",
                value=f"inputs {', '.join(map(str, value))}",
                allowed=nearest(str(name), names),
                fix=f"give {example}",
            )
    for name in needed:
        if name not in value:
            raise DataError(
                f"{where}: input '{name}' is missing",
                value=f"inputs {', '.join(value)}",
                allowed=f"all of {', '.join(needed)}",
                fix=f"give {example}",
            )
    return {name: to_array(value[name], f"{where}, input '{name}'") for name in names if name in value}


def check_fit(feeds: Feeds, signature: Signature, layout: Layout, where: str) -> None:
    """Raise `DataError` when an array that leads with the samples does not fit its input."""
    for tensor in signature.inputs:
        if tensor.name in feeds:
            _check_dtype(feeds[tensor.name], tensor, f"{where}, input '{tensor.name}'")
            _check_shape(feeds[tensor.name].shape[1:], tensor, layout, f"{where}, input '{tensor.name}'")


def _check_dtype(array: NDArray[np.generic], tensor: TensorInfo, where: str) -> None:
    is_text = tensor.dtype in _TEXT and array.dtype.kind == "O"
    if is_text or (dtype_name(array.dtype) == tensor.dtype and array.dtype.isnative):
        return
    raise DataError(
        f"{where}: the dtype is not the model's",
        value=array.dtype.name if array.dtype.isnative else f"{array.dtype.str} (bytes swapped)",
        allowed=tensor.dtype,
        fix=f"convert it: inputs.astype(np.{tensor.dtype})",
    )


def _check_shape(shape: tuple[int, ...], tensor: TensorInfo, layout: Layout, where: str) -> None:
    """`shape` is that of one sample, without the batch axis."""
    if tensor.shape is None:
        return
    axis = layout.axes[tensor.name]
    wanted = tensor.shape if axis is None else tensor.shape[:axis] + tensor.shape[axis + 1 :]
    if tensor.name in layout.stepped:
        wanted = (None, *wanted)
    if len(shape) != len(wanted):
        raise DataError(
            f"{where}: a sample has {len(shape)} dimensions and the model takes {len(wanted)}",
            value=f"a sample of shape {_text(shape)}",
            allowed=_text(wanted),
            fix="reshape the samples; a sample has no batch axis"
            + (f", or say that this input has none: batch_axes={{'{tensor.name}': None}}" if axis is not None else ""),
        )
    if any(size not in (None, found) for size, found in zip(wanted, shape, strict=True)):
        raise DataError(
            f"{where}: a sample's shape is not the model's",
            value=f"a sample of shape {_text(shape)}",
            allowed=_text(wanted),
            fix="resize the samples, or export the model with this dimension free",
        )


def _text(shape: tuple[int | None, ...]) -> str:
    """``(3, ?, 224)``: a question mark where any size will do."""
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
