"""A third party's package as the tests install it: nothing but its entry point."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends import GROUP


def register_backend(folder: Path, name: str, value: str = "pytest_quant.testing:NumpyBackend") -> None:
    """Register `value` as the backend `name`, for every process that has `folder` on its path."""
    info = folder / f"{name}_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")
