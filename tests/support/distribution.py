"""What an installer writes down of this package, in a folder that Python searches first."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

GIT_URL = "https://host.invalid/me/pytest-quant.git"


def installed(folder: Path, origin: dict[str, Any] | None) -> None:
    """Write the metadata of version 9.9 of this package, and in ``direct_url.json`` where it came from, if given."""
    entry_points = distribution("pytest-quant").read_text("entry_points.txt")
    metadata = folder / "pytest_quant-9.9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-quant\nVersion: 9.9\n")
    (metadata / "entry_points.txt").write_text(entry_points or "")
    if origin is not None:
        (metadata / "direct_url.json").write_text(json.dumps(origin))
