"""Inputs and outputs of a run by name: which belong together in two engines, and what is wrong with inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError, ModelError, nearest
from pytest_quant.spec import Signature, TensorInfo

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name: arrays with a leading batch axis."""

Outputs: TypeAlias = dict[str, NDArray[Any]]
"""Outputs of one run by name: arrays that belong to the caller."""


def explain_misfit(feeds: Mapping[str, NDArray[Any]], signature: Signature) -> DataError | None:
    """Return what is wrong with the names, ranks, sizes or dtypes of `feeds`; ``None`` when they fit."""
    wanted = {tensor.name: tensor for tensor in signature.inputs}
    for name in feeds:
        if name not in wanted:
            return DataError(
                f"the model has no input '{name}'",
                allowed=nearest(name, wanted),
                fix="give " + str(dict.fromkeys(wanted, ...)).replace("Ellipsis", "..."),
            )
    for name, tensor in wanted.items():
        if name not in feeds:
            return DataError(
                f"the model's input '{name}' is missing", value=f"inputs given: {', '.join(feeds) or 'none'}"
            )
        if wrong := _misfit_of(np.asarray(feeds[name]), tensor):
            return wrong
    return None


def check_batches(batches: Iterable[Feeds], signature: Signature, model: str) -> Iterator[Feeds]:
    """Yield calibration batches, each of which fits the model.

    Parameters
    ----------
    batches : by input name, in order.
    signature : the inputs that the model takes.
    model : its name, for messages.

    Raises
    ------
    DataError : a batch does not fit, see `explain_misfit`; or, at the end, there was none.
    """
    empty = True
    for feeds in batches:
        if wrong := explain_misfit(feeds, signature):
            raise wrong
        empty = False
        yield feeds
    if empty:
        raise DataError(
            f"calibration of {model} got no batch",
            allowed="at least one calibration sample",
            fix="write Dataset.from_arrays(inputs, labels, calibration=100)",
        )


def _misfit_of(array: NDArray[Any], tensor: TensorInfo) -> DataError | None:
    if array.dtype != np.dtype(tensor.dtype) and not (tensor.dtype == "object" and array.dtype.kind in "OUS"):
        return DataError(
            f"input '{tensor.name}' has the wrong dtype",
            value=str(array.dtype),
            allowed=tensor.dtype,
            fix=f"convert it: array.astype('{tensor.dtype}')",
        )
    if tensor.shape is None:
        return None
    if array.ndim != len(tensor.shape):
        return DataError(
            f"input '{tensor.name}' has the wrong rank",
            value=f"{array.ndim} axes, shape {array.shape}",
            allowed=f"{len(tensor.shape)} axes, {describe_tensor(tensor)}",
            fix="a batch has a leading sample axis; one sample x is x[None]",
        )
    if [size for size, length in zip(tensor.shape, array.shape, strict=True) if size not in (None, length)]:
        return DataError(
            f"input '{tensor.name}' has the wrong shape",
            value=str(array.shape),
            allowed=describe_tensor(tensor),
            fix="give it that shape, or export the model with a free size",
        )
    return None


def describe_tensor(tensor: TensorInfo) -> str:
    """Return the shape of `tensor` in words, ``(any, 3, 224, 224)``, and ``(...)`` where its rank is unknown."""
    sizes = ", ".join("any" if size is None else str(size) for size in tensor.shape or ())
    return "(...)" if tensor.shape is None else f"({sizes})"


def match_names(reference: tuple[TensorInfo, ...], candidate: tuple[TensorInfo, ...], what: str) -> dict[str, str]:
    """Map the reference's names to the candidate's: by name, else by position when the counts agree.

    Parameters
    ----------
    reference, candidate : all inputs, or all outputs, of the two engines.
    what : ``input`` or ``output``, for the message.

    Raises
    ------
    ModelError : names and counts both differ, so that a tensor would not be compared.
    """
    ours, theirs = ({tensor.name: tensor for tensor in side} for side in (reference, candidate))
    if len(ours) != len(theirs):
        missing = sorted(set(ours) - set(theirs))
        raise ModelError(
            f"the candidate has {len(theirs)} {what}s, the reference {len(ours)}",
            value=f"candidate: {', '.join(theirs)}; missing: {', '.join(missing) or 'none'}",
            allowed=f"the same {what} names, or as many of them: {', '.join(ours)}",
            fix=f"give the quantized model the {what}s of the float one",
        )
    by_name = ours.keys() == theirs.keys()
    return dict(zip(ours, ours if by_name else theirs, strict=True))


def match_inputs(
    reference: tuple[TensorInfo, ...], candidate: tuple[TensorInfo, ...], axes: Mapping[str, int | None]
) -> dict[str, str]:
    """Return the candidate's name of each input of the reference, by name or else by position.

    Of outputs what a file says of axes may be wrong, and they are compared as they come.

    Parameters
    ----------
    reference, candidate : all inputs of the two engines.
    axes : by the reference's names, the axis of samples, whose sizes may differ; 0 for a name that it does not have.

    Raises
    ------
    ModelError : as `match_names`; or two that belong together take no array in common: the number of axes, another
        fixed size or the dtype differs, but for two floats, which are cast.
    """
    names = match_names(reference, candidate, "input")
    ours, theirs = ({tensor.name: tensor for tensor in side} for side in (reference, candidate))
    for name, other in names.items():
        first, second = ours[name], theirs[other]
        if not _share_arrays(first, second, axes.get(name, 0)):
            takes, others = (f"{each.dtype} {describe_tensor(each)}" for each in (first, second))
            raise ModelError(
                f"the candidate's input '{other}' does not take what the reference's input '{name}' takes",
                value=f"candidate: {others}; reference: {takes}",
                allowed="the same data for both",
                fix="export both models with one layout, size and type of inputs, the quantized one from the float one",
            )
    return names


FLOATS = ("float16", "float32", "float64")
"""Types of inputs that floats of the data are cast to."""


def _share_arrays(first: TensorInfo, second: TensorInfo, batch_axis: int | None) -> bool:
    """Whether one array, but for its size on `batch_axis`, can be given to both."""
    types = {first.dtype, second.dtype}
    if len(types) > 1 and not (types <= {*FLOATS} or types == {"object", "str"}):
        return False
    if first.shape is None or second.shape is None:
        return True
    if len(first.shape) != len(second.shape):
        return False
    pairs = enumerate(zip(first.shape, second.shape, strict=True))
    return all(axis == batch_axis or None in pair or pair[0] == pair[1] for axis, pair in pairs)
