"""One file or folder for each runtime, the only place that imports it; and the table of backends.

The table holds ours and third parties', found through one entry-point group.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from pytest_quant.backends.base import Backend as Backend
from pytest_quant.backends.base import Engine as Engine
from pytest_quant.backends.base import Feeds as Feeds
from pytest_quant.backends.base import Outputs as Outputs
from pytest_quant.backends.offer import TARGET as TARGET
from pytest_quant.backends.offer import TF32 as TF32
from pytest_quant.backends.offer import Availability as Availability
from pytest_quant.backends.offer import Offer as Offer
from pytest_quant.backends.offer import Precisions as Precisions
from pytest_quant.backends.offer import Reads as Reads
from pytest_quant.backends.offer import set_tf32 as set_tf32
from pytest_quant.errors import UsageError, nearest
from pytest_quant.readers import find_registered

if TYPE_CHECKING:
    from pytest_quant.backends.torch import TorchBackend

GROUP = "pytest_quant.backends"


def backend_names() -> tuple[str, ...]:
    """Names of all registered backends, sorted; imports none of them."""
    return tuple(sorted(find_registered(GROUP, "backend")))


_OTHER_NAMES = {"onnx": "ort", "onnxruntime": "ort", "onnx-runtime": "ort", "onnxruntime-gpu": "ort-cuda"}


def nearest_backend(name: str) -> str:
    """Return which backend an unknown `name` may mean, and all there are."""
    return nearest(name, backend_names(), _OTHER_NAMES)


@cache
def get_backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises
    ------
    UsageError : there is none of that name, the message names the nearest; or what is registered is no `Backend`.
    """
    table = find_registered(GROUP, "backend")
    if name not in table:
        raise UsageError(f"unknown backend '{name}'", allowed=nearest_backend(name))
    kind = table[name].load()
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        raise UsageError(
            f"backend '{name}' does not inherit from pytest_quant.backends.Backend",
            value=table[name].value,
            fix="write class MyBackend(Backend): pytest-quant guide add-a-backend",
        )
    missing = sorted(kind.__abstractmethods__ | (Backend.__annotations__.keys() - set(dir(kind))))
    if missing:
        raise UsageError(
            f"backend '{name}' is not complete",
            value=f"{table[name].value} has no {', '.join(missing)}",
            fix="write them: pytest-quant guide add-a-backend",
        )
    return kind()


def get_exporter() -> TorchBackend:
    """Return the backend that reads the user's torch modules, and writes them as ONNX for the others."""
    return cast("TorchBackend", get_backend("torch"))
