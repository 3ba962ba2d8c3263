"""Load native TensorRT once and say what came of it: ``python -m ... [device]`` prints JSON on its last line.

A process of its own: a TensorRT that does not fit its driver or its CUDA may end the process that loads it.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from pytest_quant.backends.trt.logger import make_logger

WITH_DEVICE = "device"


def answer(*, with_device: bool) -> dict[str, str]:
    """Return ``version`` when the module loads, and gives a runtime where there is a device for it; else ``error``."""
    try:
        trt = import_module("tensorrt")
        if with_device:
            trt.Runtime(make_logger(trt, []))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"version": str(trt.__version__)}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(answer(with_device=WITH_DEVICE in sys.argv)) + "\n")
