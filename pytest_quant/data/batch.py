"""Samples: inputs and labels of any form as arrays, stacked into batches, and the content of a label as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError
from pytest_quant.printable import shorten

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name."""

Sample: TypeAlias = tuple[Feeds, NDArray[Any] | None]
"""Inputs by name without a batch axis, and the label: its numbers, or an array () that holds the object."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that one run of an engine takes.

    Attributes
    ----------
    feeds : arrays as the model takes them; when padded, samples from `n` on repeat the last one.
    labels : never padded; numbers of one shape as int64 or float64 (n, ...), any others as the objects that were given,
        (n,); ``None`` without labels.
    start : index of the first sample in the evaluation set.
    n : real samples.
    positions : index of each sample in the evaluation set where they are not consecutive, else ``None``.
    """

    feeds: Feeds
    labels: NDArray[Any] | None
    start: int
    n: int
    positions: tuple[int, ...] | None = None


def assemble(
    samples: Iterable[Sample], batch_size: int, *, pad: bool, whole: frozenset[str] = frozenset()
) -> Iterator[Batch]:
    """Stack samples of equal shapes, which need not follow each other.

    A batch is yielded as soon as it is full. When too many samples wait for others of their shape, the oldest group
    is yielded although it is not full, so that memory is bounded. Axis 0 of every array in the feeds is the sample.

    Parameters
    ----------
    samples : in the order of the data.
    batch_size : samples in a full batch.
    pad : fill up a batch that is not full by repeating its last sample.
    whole : inputs that take one value for all samples of a run; samples whose values differ are batched separately.
    """
    waiting: dict[object, list[tuple[int, Sample]]] = {}
    samples_waiting = bytes_waiting = 0
    for position, (inputs, label) in enumerate(samples):
        key: object = tuple([row.tobytes() if name in whole else row.shape for name, row in inputs.items()])
        # Copied, because an iterable may reuse its buffer.
        sample = {name: row.copy() for name, row in inputs.items()}, deepcopy(label)
        group = waiting.setdefault(key, [])
        group.append((position, sample))
        samples_waiting += 1
        bytes_waiting += _sample_bytes(inputs)
        # Of the samples that wait for others of their shape.
        too_much = bytes_waiting > 64 << 20 or samples_waiting > 8 * batch_size
        if len(group) < batch_size:
            if not too_much or len(waiting) == 1:
                continue
            key = next(iter(waiting))
        group = waiting.pop(key)
        samples_waiting -= len(group)
        bytes_waiting -= len(group) * _sample_bytes(group[0][1][0])
        yield _stack(group, batch_size if pad else len(group))
    for group in waiting.values():
        yield _stack(group, batch_size if pad else len(group))


def _sample_bytes(inputs: Feeds) -> int:
    return sum(row.nbytes for row in inputs.values())


def _stack(group: list[tuple[int, Sample]], size: int) -> Batch:
    """Return a batch of the samples of one shape, filled up to `size` with the last one."""
    n, (first, (inputs, label)), last = len(group), group[0], group[-1]
    rows = [sample[0] for _, sample in [*group, *[last] * (size - n)]]
    feeds = {name: np.stack([row[name] for row in rows]) for name in inputs}
    labels = None if label is None else np.stack([sample[1] for _, sample in group if sample[1] is not None])
    consecutive = last[0] - first == n - 1
    return Batch(feeds, labels, first, n, None if consecutive else tuple(position for position, _ in group))


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ``dtype.name``, cached because numpy builds it at each access, as slowly as a small sample is hashed."""
    return dtype.name


def convert_torch(value: object) -> object:
    """Return the numpy array that a torch tensor holds, and any other value as it is."""
    tensor: Any = value
    return tensor.detach().cpu().numpy() if hasattr(value, "detach") and hasattr(value, "numpy") else value


def to_array(value: object, what: str) -> NDArray[Any]:
    """Return `value` as an array, without a copy where possible. Raises `DataError` when it cannot be converted."""
    try:
        array = np.asarray(convert_torch(value))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be turned into an array",
            value=f"{type(value).__name__}: {error}",
            allowed="a numpy array, a torch tensor, or numbers of one shape",
            fix="give inputs alone or a tuple of two, inputs and labels, with several inputs in a dict by name; what "
            "is no array becomes one, for example with .float().numpy()",
        ) from error
    # numpy's fixed-width text would truncate a longer text in the same batch.
    return array.astype(object) if array.dtype.kind == "U" else array


def is_object(labels: NDArray[Any]) -> bool:
    """Whether the labels are Python objects, not numbers of one shape."""
    return labels.dtype.kind == "O"


def labels_of(value: object, n: int, what: str) -> NDArray[Any]:
    """Convert the labels of several samples to one array.

    Parameters
    ----------
    value : an array, a tensor, a sequence with one label for each sample, or a dict that holds the labels of all
        samples under each key, as torch collates them; such a dict is split into one dict for each sample.
    n : samples; only a dict is checked against it, the caller compares the length of any other form.
    what : name of the labels in messages.

    Returns
    -------
    Numbers of one shape as an array (n, ...), any other labels as an object array (n,).

    Raises
    ------
    DataError : a dict cannot be split into `n` labels, or `value` is a single value.
    """
    if isinstance(value, Mapping):
        return wrap_objects(_take_apart(value, n, what))
    numbers = _numbers(value)
    if numbers is not None:
        return numbers
    every: Any = value
    if _count_of(value) is None:
        raise DataError(
            f"{what}: one value is no list of labels",
            value=type(value).__name__,
            allowed="one label for each sample, in an array, a tensor or a list; or a dict of such",
            fix="give [label] for a single sample",
        )
    text = isinstance(value, np.ndarray) and value.dtype.kind in "US" and value.ndim == 1
    return wrap_objects(every.tolist() if text else list(every))


def groups_of(value: object, n: int, what: str) -> NDArray[np.str_]:
    """Return the group of each of `n` samples, as texts (n,).

    Parameters
    ----------
    value : texts or integers, in an array, a tensor or a list.
    what : name of the data in messages.

    Raises
    ------
    DataError : there is not one for each sample.
    """
    given: Any = convert_torch(value)
    rows = [] if _count_of(given) is None else given.tolist() if hasattr(given, "tolist") else list(given)
    named = [isinstance(row, (str, Integral)) and row != "" for row in rows]
    if len(rows) == n and all(named):
        return np.array(list(map(str, rows)))
    place = named.index(False) if len(rows) == n else 0
    raise DataError(
        f"{what}: groups name one group for each sample",
        value=f"{rows[place]!r} for sample {place}" if len(rows) == n else f"{len(rows)} for {n} samples",
        allowed="a text or an integer for each sample",
        fix="give groups=['day', 'night', ...], and samples of no group a name too",
    )


def label_of(value: object, what: str) -> NDArray[Any]:
    """Return the label of one sample as an array without a sample axis: its numbers, or () around the object.

    Raises
    ------
    DataError : the label contains NaN or infinity.
    """
    numbers = None if isinstance(value, Mapping) else _numbers(value)
    return wrap_objects([value]).reshape(()) if numbers is None else widen(numbers, what)


def widen(labels: NDArray[Any], what: str) -> NDArray[Any]:
    """Return numbers as int64 or float64, so that arithmetic on them cannot overflow; objects as they are.

    Raises
    ------
    DataError : the numbers contain NaN or infinity.
    """
    if is_object(labels):
        return labels
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64, copy=False)
    numbers = labels.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise DataError(f"{what} holds NaN or infinity", allowed="finite labels", fix="remove these samples")
    return numbers


def wrap_objects(labels: Sequence[object]) -> NDArray[Any]:
    """Return an object array (n,) with one element for each label, even if the labels are sequences themselves."""
    objects = np.empty(len(labels), object)
    for index, label in enumerate(labels):
        objects[index] = label
    return objects


def _numbers(value: object) -> NDArray[Any] | None:
    """Return numbers of one shape as an array, ``None`` if `value` contains anything else."""
    try:
        array = np.asarray(convert_torch(value))
        if array.dtype.kind == "O":
            array = np.asarray(array.tolist())
    except (TypeError, ValueError, RuntimeError):
        return None
    return array if array.dtype.kind in "biuf" else None


def _take_apart(value: object, n: int, what: str) -> list[Any]:
    if isinstance(value, Mapping):
        parts = {name: _take_apart(part, n, f"{what}['{name}']") for name, part in value.items()}
        return [{name: part[index] for name, part in parts.items()} for index in range(n)]
    every: Any = value
    length = _count_of(value)
    if length != n:
        raise DataError(
            f"{what} does not hold one value for each of {n} samples",
            value=type(value).__name__ if length is None else f"{type(value).__name__} of {length}",
            allowed=f"a dict of arrays, tensors or lists, each of {n}",
            fix="give a list with one label for each sample; in a DataLoader by a collate_fn of your own",
        )
    return [every[index] for index in range(n)]


def _count_of(value: object) -> int | None:
    """Return how many values a sequence holds; ``None`` for one value."""
    try:
        return None if isinstance(value, (str, bytes)) or not hasattr(value, "__getitem__") else len(value)  # type: ignore[arg-type]
    except TypeError:
        # An array or a tensor without axes has the method, which raises.
        return None


LabelKind = Literal["none", "int", "float", "object"]


def canonical_bytes(value: object, where: str) -> bytes:
    """Return bytes that are equal for equal labels only; 1, 1.0, True and "1" differ, a list equals a tuple.

    A numpy scalar is encoded as the Python value it holds, a torch tensor as an array, and a name in a dict as text.
    Arrays differ by dtype and shape, arrays of text by shape alone; 0.0 differs from -0.0.

    Raises
    ------
    DataError : `value` contains a type that has no encoding; `where` names the label in the message.
    """
    try:
        return json.dumps(value, sort_keys=True, default=_encode_value).encode()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{where} holds {type(value).__name__}, whose content cannot be compared with another's",
            value=f"{shorten(repr(value))} ({error})",
            allowed="text, bytes, numbers, True, False, None, numpy arrays, torch tensors, and lists, tuples and dicts "
            "of these",
            fix="give the label as these, for example as a dict of arrays",
        ) from error


def _encode_value(value: object) -> object:
    """Return what stands in JSON for a value that it does not have: bytes, a scalar of numpy, an array."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    array = np.asarray(convert_torch(value))
    kind = array.dtype.kind
    if kind not in "biufcMmOUS" or (kind == "O" and not array.ndim):
        raise TypeError(f"{type(value).__name__} is none of the types that are allowed")
    if kind in "OUS":
        return {"objects": [array.shape, array.tolist()]}
    if not array.ndim and kind in "biuf":
        return array.item()
    dtype = array.dtype.newbyteorder("<")
    return {"array": [dtype.str, array.shape, np.ascontiguousarray(array, dtype).tobytes().hex()]}
