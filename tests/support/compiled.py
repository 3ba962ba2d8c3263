"""Compile the package once, the way pytest does, for the many processes that the tests start.

pytest rewrites the modules of its plugins when it imports them, which takes longer than all else that a short run does.
The processes that tests start read what was compiled and write nothing: a file that a test rewrites within one second
and at one size would be taken for the compiled one.

``python -m tests.support.compiled`` is what `compile_once` starts; it is nothing to call by hand.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pytest_quant

NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_PACKAGE = Path(pytest_quant.__file__).parent
_IMPORTS_TORCH = "pytest_quant.testing.conformance"
"""Imported by no process but those that test backends, which import what takes far longer."""


def compile_once() -> None:
    """Compile all modules unless that was done since the last change, and keep child processes from writing any."""
    stamp = _PACKAGE / "__pycache__" / f"compiled.{sys.implementation.cache_tag}-pytest-{pytest.__version__}"
    newest = max(path.stat().st_mtime_ns for path in _PACKAGE.rglob("*.py"))
    if not stamp.is_file() or stamp.stat().st_mtime_ns < newest:
        environment = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
        command = [sys.executable, "-m", "tests.support.compiled"]
        subprocess.run(command, cwd=_PACKAGE.parent, env=environment, check=True, capture_output=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
    os.environ[NO_BYTECODE] = "1"


def pytest_cmdline_main() -> int:
    """Import every module of the package instead of running tests, as a plugin of the run below."""
    for module in pkgutil.walk_packages(pytest_quant.__path__, "pytest_quant."):
        if not module.name.startswith(_IMPORTS_TORCH):
            import_module(module.name)
    return 0


if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "tests.support.compiled", "-p", "no:cacheprovider"]))
