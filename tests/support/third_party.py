"""A third party's package as the tests install it: its entry point, and modules on the path, forgotten afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_quant.backends import GROUP

HIDING = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
"""The first lines of a program that is not to find the packages `hidden`, as where they are not installed."""


def register_backend(folder: Path, name: str, value: str = "pytest_quant.testing:NumpyBackend") -> None:
    """Register `value` as the backend `name`, for every process that has `folder` on its path."""
    info = folder / f"{name}_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")


def forget_modules(*packages: str) -> None:
    """Drop `packages` with all below them, so that the next import looks where the path leads then.

    Asking for a module below a package without `__init__.py` imports the package, and its folder stays known.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
