"""One byte string for each content that a label can have, the same in every process and for every order of names.

Every value is its kind (one byte), the length of what follows (eight bytes, little-endian) and what follows, so that
no two contents share an encoding. The names of a dict are sorted by their own encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError

_ALLOWED = "text, bytes, numbers, True, False, None, numpy arrays, torch tensors, and lists, tuples and dicts of these"
_MAX_SHOWN = 80
_KINDS = "biufcMm"
_PADDED = "gG"
"""Numbers of 80 bits lie in 16 bytes, the rest of which holds anything."""


def canonical_bytes(value: object, where: str) -> bytes:
    """Return the encoding of `value`, whose kinds tell an int from a float, a bool and a text, and a list from a tuple.

    A numpy scalar is the Python value it holds, a torch tensor the array it holds; arrays differ by dtype and shape,
    arrays of text by shape alone. Floats are compared by their bits: 0.0 is not -0.0, and a NaN is itself.

    Raises
    ------
    DataError : there is a value of another type in it; `where` names the label.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biufUS" and value.dtype.char not in _PADDED:
        value = value.item()
    if value is None:
        return _framed(b"N", b"")
    if isinstance(value, bool):
        return _framed(b"B", b"\1" if value else b"\0")
    if isinstance(value, int):
        return _framed(b"I", b"%d" % value)
    if isinstance(value, float):
        return _framed(b"F", struct.pack("<d", value))
    if isinstance(value, str):
        return _framed(b"S", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return _framed(b"Y", bytes(value))
    if isinstance(value, Mapping):
        pairs = [(canonical_bytes(name, where), canonical_bytes(item, where)) for name, item in value.items()]
        return _framed(b"D", b"".join(name + item for name, item in sorted(pairs)))
    if isinstance(value, (list, tuple)):
        kind = b"L" if isinstance(value, list) else b"T"
        return _framed(kind, b"".join(canonical_bytes(item, where) for item in value))
    return _array(value, where)


def _array(value: object, where: str) -> bytes:
    array: NDArray[Any] | None = value if isinstance(value, np.ndarray) else None
    tensor: Any = value
    try:
        if isinstance(value, np.generic):
            array = np.asarray(value)
        elif hasattr(value, "detach") and hasattr(value, "numpy"):
            array = np.asarray(tensor.detach().cpu().numpy())
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refused(value, where, str(error)) from error
    if array is None:
        raise _refused(value, where)
    shape = str(array.shape).encode()
    if array.dtype.kind in "OUS":
        return _framed(b"O", _framed(b"", shape) + b"".join(canonical_bytes(item, where) for item in array.flat))
    if array.dtype.kind not in _KINDS or array.dtype.char in _PADDED:
        raise _refused(value, where, f"dtype {array.dtype}")
    dtype = array.dtype.newbyteorder("<")
    content = np.ascontiguousarray(array, dtype).tobytes()
    return _framed(b"A", _framed(b"", dtype.str.encode()) + _framed(b"", shape) + content)


def _framed(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<Q", len(content)) + content


def _refused(value: object, where: str, why: str = "") -> DataError:
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
    return DataError(
        f"{where} holds {type(value).__name__}, whose content cannot be told from another's",
        value=f"{shown} ({why})" if why else shown,
        allowed=_ALLOWED,
        fix="give the label as these, for example as a dict of arrays",
    )
