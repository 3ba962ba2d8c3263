"""Labels of any form: one for each sample in an array, what kind they are, and their content as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    every: Any = value
    if isinstance(value, (str, bytes)) or not hasattr(value, "__getitem__"):
        return None
    try:
        return len(every)
    except TypeError:
        # An array or a tensor without axes has the method, which raises.
        return None


LabelKind = Literal["none", "int", "float", "object"]

LABEL_DTYPES: dict[LabelKind, type[np.int64 | np.float64 | np.object_]] = {
    "none": np.int64,
    "int": np.int64,
    "float": np.float64,
    "object": np.object_,
}
"""The dtype of each kind of labels in a batch."""


class LabelScan:
    """Kind and range of the labels of one pass.

    Attributes
    ----------
    kind : ``none``, ``int``, ``float`` when any label is one, or ``object`` when they are not numbers of one shape.
    range : smallest and largest number in any label, ``None`` without labels and for objects.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._shape: tuple[int, ...] | None = None
        self._seen = 0
        self._types: set[str] = set()
        self.kind: LabelKind = "none"
        self.range: tuple[float, float] | None = None

    @property
    def type_name(self) -> str:
        """Names of the Python types of object labels, for messages; empty for other kinds."""
        if self.kind != "object":
            return ""
        return " and ".join(sorted(self._types)) or "arrays of different shapes"

    def see(self, labels: NDArray[Any] | None, n: int) -> None:
        """Add the labels of the next `n` samples, ``None`` for samples without labels.

        Raises
        ------
        DataError : only some samples have a label.
        """
        if self._seen and (labels is None) != (self.kind == "none"):
            raise self._partly(self._seen)
        if labels is not None:
            if is_object(labels):
                self._see_objects(labels)
            else:
                self._see_numbers(labels)
        self._seen += n

    def _see_objects(self, labels: NDArray[Any]) -> None:
        for index, label in enumerate(labels):
            if label is None:
                raise self._partly(self._seen + index)
            self._types.add(type(label).__name__)
        self.kind, self.range = "object", None

    def _see_numbers(self, labels: NDArray[Any]) -> None:
        if self.kind == "object" or self._shape not in (None, labels.shape[1:]):
            self.kind, self.range = "object", None
            return
        self._shape = labels.shape[1:]
        if self.kind != "float":
            self.kind = "float" if labels.dtype.kind == "f" else "int"
        numbers = [labels.min().item(), labels.max().item(), *(self.range or ())] if labels.size else self.range
        self.range = (min(numbers), max(numbers)) if numbers else None

    def _partly(self, sample: int) -> DataError:
        return DataError(
            f"{self._what}: some samples have a label and some have none",
            value=f"sample {sample} is the first that is different",
            allowed="a label for every sample, or for none",
            fix="label them all, or give inputs only",
        )


_ALLOWED = "text, bytes, numbers, True, False, None, numpy arrays, torch tensors, and lists, tuples and dicts of these"
_MAX_SHOWN = 80
_KINDS = "biufcMm"
_PADDED = "gG"
"""Numbers of 80 bits lie in 16 bytes, the rest of which holds anything."""

_EXACT: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (int, int),
    (float, float),
    (str, str.__str__),
    (bytes, bytes),
    (bytearray, bytes),
)
"""Conversions to the very type, since a subclass may print as it likes."""


def canonical_bytes(value: object, where: str) -> bytes:
    """Return bytes that are equal for equal labels only; 1, 1.0, True and "1" differ, and so do a list and a tuple.

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
    if isinstance(value, (list, tuple)):
        items = [_canonical(item, where) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        pairs = [(repr(_canonical(name, where)), _canonical(item, where)) for name, item in value.items()]
        return {"names": sorted(pairs, key=lambda pair: pair[0])}
    if value is None or isinstance(value, bool):
        return value
    exact = next((convert for kind, convert in _EXACT if isinstance(value, kind)), None)
    return _canonical_array(value, where) if exact is None else exact(value)


def _canonical_array(value: object, where: str) -> object:
    try:
        array = np.asarray(value) if isinstance(value, np.generic) else without_torch(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refused(value, where, str(error)) from error
    if not isinstance(array, np.ndarray):
        raise _refused(value, where)
    if array.dtype.kind in "OUS":
        return {"objects": (array.shape, [_canonical(item, where) for item in array.flat])}
    if array.dtype.kind not in _KINDS or array.dtype.char in _PADDED:
        raise _refused(value, where, f"dtype {array.dtype}")
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
