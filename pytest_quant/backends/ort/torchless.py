"""Shape inference of ONNX Runtime without PyTorch, which its package of tools would load on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_PACKAGE = "onnxruntime.tools"
_HELPER = "onnxruntime.tools.pytorch_export_helpers"


@contextmanager
def tools_without_torch() -> Iterator[None]:
    """Let `onnxruntime.tools` be imported without PyTorch in here, and be forgotten afterwards.

    The package imports PyTorch, where it is installed, for a helper that shape inference never calls: seconds of
    every build and hundreds of megabytes. An empty module stands in the place of that helper. Whoever imports the
    package later gets it whole. Where either is loaded already, nothing is done.
    """
    if "torch" in sys.modules or _PACKAGE in sys.modules:
        yield
        return
    import onnxruntime

    placeholder = ModuleType(_HELPER)
    vars(placeholder)["infer_input_info"] = None
    sys.modules[_HELPER] = placeholder
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]:
            del sys.modules[name]
        vars(onnxruntime).pop("tools", None)
