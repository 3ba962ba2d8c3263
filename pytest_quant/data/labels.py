"""Labels of any form: one for each sample in an array, what kind they are, and their content as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.batch import without_torch
from pytest_quant.errors import DataError

_NUMBERS = "biuf"


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
        return as_objects(_taken_apart(value, n, what))
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
    return as_objects(every.tolist() if text else list(every))


def label_of(value: object, what: str) -> NDArray[Any]:
    """Return the label of one sample as an array without a sample axis: its numbers, or () around the object.

    Raises
    ------
    DataError : the label contains NaN or infinity.
    """
    numbers = None if isinstance(value, Mapping) else _numbers(value)
    return as_objects([value]).reshape(()) if numbers is None else widened(numbers, what)


def widened(labels: NDArray[Any], what: str) -> NDArray[Any]:
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


def as_objects(labels: Sequence[object]) -> NDArray[Any]:
    """Return an object array (n,) with one element for each label, even where the labels are sequences themselves."""
    objects = np.empty(len(labels), object)
    for index, label in enumerate(labels):
        objects[index] = label
    return objects


def _numbers(value: object) -> NDArray[Any] | None:
    """Return numbers of one shape as an array, ``None`` where `value` contains anything else."""
    try:
        array = np.asarray(without_torch(value))
        if array.dtype.kind == "O":
            array = np.asarray(array.tolist())
    except (TypeError, ValueError, RuntimeError):
        return None
    return array if array.dtype.kind in _NUMBERS else None


def _taken_apart(value: object, n: int, what: str) -> list[Any]:
    if isinstance(value, Mapping):
        parts = {name: _taken_apart(part, n, f"{what}['{name}']") for name, part in value.items()}
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

_ALLOWED = "text, bytes, numbers, True, False, None, numpy arrays, torch tensors, and lists, tuples and dicts of these"
_MAX_SHOWN = 80
_PLAIN = (bool, int, float, str, bytes, type(None))
_KINDS = "biufcMm"
_PADDED = "gG"
"""Numbers of 80 bits lie in 16 bytes, the rest of which holds anything."""


def canonical_bytes(value: object, where: str) -> bytes:
    """Return bytes that are equal for equal labels only; 1, 1.0, True and "1" differ, a list equals a tuple.

    A numpy scalar is encoded as the Python value it holds, a torch tensor as an array. Arrays differ by dtype and
    shape, arrays of text by shape alone; 0.0 differs from -0.0.

    Raises
    ------
    DataError : `value` contains a type that has no encoding; `where` names the label in the message.
    """
    return repr(_canonical(value, where)).encode()


def _canonical(value: object, where: str) -> object:
    """Return a value of Python's own types whose text is that of equal contents only: dicts are sorted lists in it."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufUS" and value.dtype.char not in _PADDED:
        value = value.item()
    # The very types, since a subclass may print as it likes.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [_canonical(item, where) for item in value]
    if isinstance(value, Mapping):
        texts = ((repr(_canonical(name, where)), repr(_canonical(item, where))) for name, item in value.items())
        return {"names": sorted(texts)}
    try:
        array = np.asarray(without_torch(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refused(value, where, str(error)) from error
    if array.dtype.kind in "OUS" and (array.ndim or array.dtype.kind != "O" or isinstance(value, np.ndarray)):
        return {"objects": (array.shape, [_canonical(item, where) for item in array.flat])}
    if array.dtype.kind not in _KINDS or array.dtype.char in _PADDED:
        raise _refused(value, where, "" if array.dtype.kind == "O" else f"dtype {array.dtype}")
    dtype = array.dtype.newbyteorder("<")
    return {"array": (dtype.str, array.shape, np.ascontiguousarray(array, dtype).tobytes())}


def _refused(value: object, where: str, why: str = "") -> DataError:
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
    return DataError(
        f"{where} holds {type(value).__name__}, whose content cannot be told from another's",
        value=f"{shown} ({why})" if why else shown,
        allowed=_ALLOWED,
        fix="give the label as these, for example as a dict of arrays",
    )
