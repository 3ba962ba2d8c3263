"""Values that another process reads: pickled, with registered backends by their names."""

from __future__ import annotations

import io
import pickle
from typing import Any

from pytest_quant.backends import Backend, backend_names, get_backend

CANNOT_BE_PACKED = (pickle.PicklingError, AttributeError, TypeError)
"""What `pack` raises for a value that exists in this process only."""


def pack(value: object) -> bytes:
    """Return `value` as bytes. Raises one of `CANNOT_BE_PACKED`."""
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
    return content.getvalue()


def unpack(content: bytes) -> Any:
    """Return what `pack` was given. Only for bytes of this user: as any pickle, they can run what they say."""
    return pickle.loads(content)  # nosec B301 # noqa: S301 - see above


class _Pickler(pickle.Pickler):
    """Writes registered backends by their names: they may hold what belongs to one process."""

    def reducer_override(self, obj: object) -> Any:
        # First by its type: the name of each array's dtype would be looked up among all that is installed.
        if isinstance(obj, Backend) and obj.name in backend_names() and get_backend(obj.name) is obj:
            return get_backend, (obj.name,)
        return NotImplemented
