"""A stand-in for ``tensorrt`` and for CUDA's runtime where there is no GPU, strict where the real ones are."""

from tests.support.fake_tensorrt.device import HostMemory
from tests.support.fake_tensorrt.engine import (
    ACTIVATION_BYTES,
    COLUMNS,
    LAYER_MS,
    MAX_BATCH,
    RUN_MS,
    WEIGHT_BYTES,
)
from tests.support.fake_tensorrt.inspection import inspection
from tests.support.fake_tensorrt.module import drive, make

__all__ = [
    "ACTIVATION_BYTES",
    "COLUMNS",
    "LAYER_MS",
    "MAX_BATCH",
    "RUN_MS",
    "WEIGHT_BYTES",
    "HostMemory",
    "drive",
    "inspection",
    "make",
]
