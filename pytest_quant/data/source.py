"""Every form of data as blocks of consecutive samples, checked against the model's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import (
    Feeds,
    Sample,
    dtype_name,
    is_object,
    label_of,
    labels_of,
    to_array,
    widen,
    wrap_objects,
)
from pytest_quant.data.layout import Layout, find_layout
from pytest_quant.errors import DataError, nearest
from pytest_quant.spec import Dataset, Signature, TensorInfo

_TEXT = ("object", "str")
"""Spellings of the dtype of strings in a signature."""


ANY_INPUTS = Signature((), ())
"""Of a model that declares none, and takes those of the data."""

UNNAMED = "(batch)"
"""Name of an input that the data gives none; no Python name, so that data of the user's has no other of that name."""


def name_inputs(
    value: object,
    signature: Signature,
    where: str,
    optional: frozenset[str] = frozenset(),
    hint: str = "",
    label: str | None = None,
    by: str = "",
) -> Feeds:
    """Return the inputs of one sample or batch as arrays by input name, in the model's order.

    Parameters
    ----------
    value : a dict by input name, or a single array for a model with one required input.
    signature : inputs of the model; `ANY_INPUTS` takes all that there are.
    where : name of the sample or batch in messages.
    optional : names of inputs that may be missing.
    hint : how a label stays beside the inputs, where ``{name}`` is the key of the label.
    label : key that stays beside the inputs in a dict of the user, and is not in `value`.
    by : what makes the inputs, for messages.

    Raises
    ------
    DataError : an input is unknown or missing, a single array is given to a model with several inputs, or a value
        cannot become an array.
    """
    names = [tensor.name for tensor in signature.inputs]
    if signature is ANY_INPUTS:
        names = list(value) if isinstance(value, Mapping) else [UNNAMED]
    needed = [name for name in names if name not in optional]
    example = "{" + ", ".join(f"'{name}': ..." for name in needed) + "}"
    example += ("" if label is None else f", with '{label}' beside it") + by
    if not isinstance(value, Mapping):
        if len(needed) != 1:
            raise DataError(
                f"{where}: the model has {len(needed)} inputs, and the data does not say which is which",
                value=type(value).__name__,
                allowed=f"a dict by input name: {', '.join(needed)}",
                fix=f"give {example}",
            )
        return {needed[0]: to_array(value, f"{where}, input '{needed[0]}'")}
    if others := [str(name) for name in value if name not in names]:
        # Where an input is missing too, this may be that input under another name, and no label.
        is_label = len(others) == 1 and set(needed) <= value.keys()
        kept = f"; if '{others[0]}' is the label: {hint}" if is_label else f", with labels as 'KEY' in it for {hint}"
        unknown = "', '".join(others)
        raise DataError(
            f"{where}: the model has no input '{unknown}'",
            value=f"inputs {', '.join(map(str, value))}",
            allowed=nearest(others[0], names),
            fix=f"give {example}" + (kept.replace("{name}", others[0] if is_label else "KEY") if hint else ""),
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
    """Check dtype and shape of every array against its input.

    Parameters
    ----------
    feeds : arrays (n, ...) by input name, axis 0 the sample.
    signature : inputs of the model.
    layout : the batch axis of each input of the model.
    where : name of the samples in messages.

    Raises
    ------
    DataError : an array has another dtype, rank or size than its input takes.
    """
    for tensor in signature.inputs:
        if tensor.name in feeds:
            _check_dtype(feeds[tensor.name], tensor, f"{where}, input '{tensor.name}'")
            _check_shape(feeds[tensor.name].shape[1:], tensor, layout, f"{where}, input '{tensor.name}'")


def _check_dtype(array: NDArray[np.generic], tensor: TensorInfo, where: str) -> None:
    is_text = tensor.dtype in _TEXT and array.dtype.kind == "O"
    if is_text or (dtype_name(array.dtype) == tensor.dtype and array.dtype.isnative):
        return
    known = tensor.dtype in _TEXT or hasattr(np, tensor.dtype)
    raise DataError(
        f"{where}: the dtype is not the model's",
        value=array.dtype.name if array.dtype.isnative else f"{array.dtype.str} (bytes swapped)",
        allowed=tensor.dtype,
        fix=f"give one array of {tensor.dtype} for each input"
        if array.dtype.kind == "O"
        else f"convert it: inputs.astype('{tensor.dtype}')"
        + (f", or tensor.to(torch.{tensor.dtype})" if tensor.dtype not in _TEXT else "")
        if known
        else f"numpy has no {tensor.dtype}: use module.float()",
    )


def _check_shape(shape: tuple[int, ...], tensor: TensorInfo, layout: Layout, where: str) -> None:
    """Check `shape`, the shape of a sample without the batch axis."""
    axis = layout.axes[tensor.name]
    if tensor.shape is None:
        return
    wanted = tensor.shape if axis is None else tensor.shape[:axis] + tensor.shape[axis + 1 :]
    if tensor.name in layout.stepped:
        wanted = (None, *wanted)
    if len(shape) != len(wanted):
        raise DataError(
            f"{where}: a sample has {len(shape)} dimensions and the model takes {len(wanted)}",
            value=f"a sample of shape {_text(shape)}",
            allowed=_text(wanted),
            fix="reshape the samples; batches go to Dataset.from_loader, single ones to from_iterable; a sample has no "
            f"batch axis, and if the input has none either, say so: batch_axes={{'{tensor.name}': None}}",
        )
    if any(size not in (None, given) for size, given in zip(wanted, shape, strict=True)):
        raise DataError(
            f"{where}: a sample's shape is not the model's",
            value=f"a sample of shape {_text(shape)}",
            allowed=_text(wanted),
            fix="transpose or resize the samples, or export the model with this dimension free",
        )


def _text(shape: tuple[int | None, ...]) -> str:
    """Return ``(3, ?, 224)``, with a question mark for a free size."""
    return str(shape).replace("None", "?")


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Consecutive samples of one shape, on axis 0 of every array even if the model's input has no batch axis.

    Attributes
    ----------
    labels : numbers of one shape (n, ...), or objects (n,); ``None`` without labels.
    given : the labels before their conversion to numbers, for data whose other blocks hold objects.
    """

    feeds: Feeds
    labels: NDArray[Any] | None
    n: int
    given: Sequence[object] | None = None

    def rows(self, *, label_objects: bool) -> Iterator[Sample]:
        """Yield each sample as views; with `label_objects` each label is the object that the user gave."""
        labels = self.labels
        if label_objects and labels is not None and not is_object(labels) and self.given is not None:
            labels = wrap_objects(self.given)
        for i in range(self.n):
            inputs = {name: array[i, ...] for name, array in self.feeds.items()}
            yield inputs, None if labels is None else labels[i, ...]


Pass = Callable[[], Iterator[SampleBlock]]
"""Starts a pass over the data from the first sample."""


@dataclass(frozen=True, slots=True)
class DataContract:
    """Requirements of the model on the data.

    Attributes
    ----------
    signature : inputs and outputs of the model.
    axes : batch axes that the user names, by input or output name.
    in_arrays : those of them that hold in the arrays of the data too, and not in the model alone.
    states : inputs that receive an output of the step before, empty unless samples are sequences.
    """

    signature: Signature
    axes: Mapping[str, int | None]
    in_arrays: Mapping[str, int | None]
    states: frozenset[str]

    def layout(self, ranks: Mapping[str, int], where: str) -> Layout:
        """Return the batch axes, given the number of axes of the data's arrays; see `find_layout`."""
        return find_layout(self.signature, self.axes, ranks, where=where, states=self.states)


def open_source(
    dataset: Dataset, contract: DataContract, *, labelled: bool
) -> tuple[Pass, Feeds | None, NDArray[Any] | None]:
    """Return what starts a pass over data of any form; and all its inputs and labels if they are in memory.

    Parameters
    ----------
    dataset : the samples; its calibration samples are not read.
    contract : requirements of the model.
    labelled : keep the labels that come with the samples of an iterable or a loader; else they are dropped.

    Raises
    ------
    DataError : arrays do not fit together, or the data cannot be iterated, or only once; while iterating, when a
        sample is not what the model takes.
    """
    if dataset.kind == "arrays":
        return _read_arrays(dataset, contract)
    samples = _require_reiterable(dataset.inputs, dataset.name)
    blocks = partial(_loader_blocks, key=dataset.label) if dataset.kind == "loader" else _iterable_blocks
    return lambda: blocks(samples, contract, dataset.name, labelled=labelled), None, None


def inputs_of(dataset: Dataset) -> tuple[TensorInfo, ...]:
    """Return the inputs that the first sample of `dataset` has, of any sizes; none of data without samples.

    Raises
    ------
    DataError : arrays do not fit together, or the data cannot be iterated, or only once.
    """
    blocks, _, _ = open_source(dataset, DataContract(ANY_INPUTS, {}, {}, frozenset()), labelled=False)
    first = next(blocks(), None)
    feeds = {} if first is None else first.feeds
    return tuple(TensorInfo(name, dtype_name(array.dtype), (None,) * array.ndim) for name, array in feeds.items())


def _read_arrays(dataset: Dataset, contract: DataContract) -> tuple[Pass, Feeds, NDArray[Any] | None]:
    what, labels = dataset.name, dataset.labels
    feeds = name_inputs(dataset.inputs, contract.signature, what, contract.states)
    layout = contract.layout({name: array.ndim for name, array in feeds.items()}, what)
    feeds, shared = _put_samples_first(feeds, contract, layout)
    lengths = {f"input '{name}'": _length(array, f"{what}, input '{name}'") for name, array in feeds.items()}
    every_label = None if labels is None else labels_of(labels, next(iter(lengths.values()), 1), f"{what}, labels")
    if every_label is not None:
        lengths["labels"] = _length(every_label, f"{what}, labels")
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"{what}: the arrays differ in their number of samples",
            value=", ".join(f"{name}: {n}" for name, n in lengths.items()),
            allowed="the same length on the first axis of all",
            fix="cut them to the samples that belong together; if another axis counts samples, or none, say so: "
            "batch_axes={'name': 1}",
        )
    n = next(iter(lengths.values()), 1)
    feeds |= {name: np.broadcast_to(array, (n, *array.shape)) for name, array in shared.items()}

    def blocks() -> Iterator[SampleBlock]:
        row_bytes = sum(array.nbytes for array in feeds.values()) // max(n, 1)
        # A block has about a megabyte.
        step = max(1, (1 << 20) // max(row_bytes, 1))
        for first in range(0, n, step):
            cut = slice(first, min(first + step, n))
            part = {name: array[cut] for name, array in feeds.items()}
            numbers = None if every_label is None else widen(every_label[cut], f"{what}, labels")
            yield SampleBlock(part, numbers, cut.stop - first)

    return blocks, feeds, every_label


def _put_samples_first(feeds: Feeds, contract: DataContract, layout: Layout) -> tuple[Feeds, Feeds]:
    """Return the arrays with a value for each sample, samples on axis 0, and those with one value for all samples."""
    ranks = {tensor.name: None if tensor.shape is None else len(tensor.shape) for tensor in contract.signature.inputs}
    shared = {name for name in layout.whole if name in feeds and feeds[name].ndim == ranks[name]}
    each = {
        name: _move_to_front(array, contract.in_arrays.get(name)) for name, array in feeds.items() if name not in shared
    }
    return each, {name: feeds[name] for name in shared}


def _move_to_front(array: NDArray[Any], axis: int | None) -> NDArray[Any]:
    """Move the sample axis to the front; an array without that axis is refused later because of its rank."""
    return np.moveaxis(array, axis, 0) if axis and axis < array.ndim else array


def _length(array: NDArray[Any], where: str) -> int:
    if array.ndim == 0:
        raise DataError(
            f"{where}: one number is no array of samples",
            value=repr(array.item()),
            allowed="an array whose first axis counts samples",
            fix="give inputs and labels with an axis of samples in front; single samples go to Dataset.from_iterable",
        )
    return len(array)


def _require_reiterable(samples: object, what: str) -> Iterable[object]:
    if isinstance(samples, Iterator):
        raise DataError(
            f"{what} can be read only once, and reference and candidate both read it",
            value=type(samples).__name__,
            allowed="a list, a torch DataLoader, or an object whose __iter__ starts from the first sample each time",
            fix="write a class with `def __iter__(self): yield ...`, or list(...) when it fits in memory",
        )
    # An array without axes has __iter__, which raises.
    is_number = isinstance(samples, np.ndarray) and samples.ndim == 0
    if is_number or not (isinstance(samples, Iterable) or hasattr(samples, "__getitem__")):
        raise DataError(f"{what} cannot be iterated", value=type(samples).__name__, fix="give a list of samples")
    readable: Iterable[object] = samples  # type: ignore[assignment]  # a torch Dataset has __getitem__ only
    return readable


def _iterable_blocks(
    samples: Iterable[object], contract: DataContract, what: str, *, labelled: bool
) -> Iterator[SampleBlock]:
    for index, item in enumerate(samples):
        where = f"{what}, sample {index}"
        inputs, label = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        named = name_inputs(inputs, contract.signature, where, contract.states)
        feeds = {name: array[np.newaxis] for name, array in named.items()}
        if labelled and label is not None:
            yield SampleBlock(feeds, label_of(label, f"{where}, label")[np.newaxis], 1, (label,))
        else:
            yield SampleBlock(feeds, None, 1)


def _loader_blocks(
    batches: Iterable[object], contract: DataContract, what: str, *, labelled: bool, key: str | None
) -> Iterator[SampleBlock]:
    hint = "Dataset.from_loader(loader, label='{name}')" if key is None else ""
    for index, item in enumerate(batches):
        where = f"{what}, batch {index}"
        inputs, label = item, None
        if isinstance(item, (tuple, list)) and len(item) in (1, 2):
            inputs, label = (item[0], None) if len(item) == 1 else item
        elif key is not None and isinstance(item, Mapping):
            inputs, label = {name: each for name, each in item.items() if name != key}, item.get(key)
            if label is None and labelled:
                raise DataError(f"{where}: there is no '{key}', which label= names", allowed=nearest(key, item))
        named = name_inputs(inputs, contract.signature, where, contract.states, hint, key, ", by a collate_fn")
        feeds = {name: _move_to_front(array, contract.in_arrays.get(name)) for name, array in named.items()}
        lengths = {_length(array, where) for array in feeds.values()}
        labels = None
        if labelled and label is not None:
            labels = widen(labels_of(label, min(lengths, default=0), f"{where}, labels"), f"{where}, labels")
            lengths.add(_length(labels, f"{where}, labels"))
        if len(lengths) != 1:
            raise DataError(
                f"{where}: inputs and labels differ in their number of samples",
                value=" and ".join(map(str, sorted(lengths))),
                allowed="the same length on the first axis",
                fix="look at the DataLoader's collate_fn",
            )
        given: Any = label
        yield SampleBlock(feeds, labels, lengths.pop(), given)
