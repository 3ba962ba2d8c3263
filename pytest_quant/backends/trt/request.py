"""What a build needs to know, as JSON between the process that asks and the one that builds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

PLAN_FILE = "model.engine"
LAYERS_FILE = "layers.json"
LOG_FILE = "build.log"


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build: `module` is the one to import, `target` the compute capability, ``None`` for the GPU here."""

    module: str
    model: str
    folder: str
    target: str | None
    workspace_mb: int | None
    optimization_level: int | None
    max_batch: int
    opt_batch: int


def write_request(request: BuildRequest, file: Path) -> None:
    """Write `request` for the building process."""
    file.write_text(json.dumps(asdict(request)), encoding="utf-8")


def read_request(file: Path) -> BuildRequest:
    """Read what `write_request` wrote."""
    return BuildRequest(**json.loads(file.read_text(encoding="utf-8")))
