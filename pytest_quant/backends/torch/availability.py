"""Whether PyTorch and torchao are here, and can compile."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec

from pytest_quant.backends.base import Availability

_INSTALL = 'pip install "pytest-quant[torch]"'
_REPAIR = "pip install --force-reinstall torch torchao"
_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)
"""What a package that is installed and does not load raises."""


def find_runtime() -> Availability:
    """Tell whether torch, torchao and a C++ compiler are here; torchao takes seconds to import and is looked for."""
    trouble = import_torch()
    if trouble is not None:
        return trouble
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        reason = "Inductor compiles with a C++ compiler, and g++ is not on the PATH"
        return Availability(False, reason=reason, fix="apt-get install g++, or set CXX")
    return Availability(True, version=str(import_module("torch").__version__), device="cpu")


def import_torch() -> Availability | None:
    """Return why torch and torchao cannot be had, ``None`` when they can."""
    missing = [name for name in ("torch", "torchao") if find_spec(name) is None]
    if missing:
        return Availability(False, reason=f"{' and '.join(missing)} not installed", fix=_INSTALL)
    try:
        import_module("torch")
    except _BROKEN_IMPORT as error:
        reason = f"import fails: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=_REPAIR, broken=True)
    return None
