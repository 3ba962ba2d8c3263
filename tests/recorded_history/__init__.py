"""What an older commit wrote, see ``README.md`` beside this file."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

from pytest_quant.history import open_store
from pytest_quant.history.json_lines import read_runs

RECORDED = Path(__file__).parent


def recorded_documents() -> list[dict[str, Any]]:
    """Return the document of each run, the oldest first, without what the package's own readers do to it."""
    lines = gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines[1:]]


def recorded_comparison() -> dict[str, Any]:
    """Return the comparison of the first commit of ``main`` with that of ``topic``."""
    found: dict[str, Any] = json.loads(gzip.decompress((RECORDED / "compare.json.gz").read_bytes()))
    return found


def import_history(folder: Path) -> Path:
    """Write the runs of the export into a database in `folder`."""
    export, database = folder / "export.jsonl", folder / "history.db"
    export.write_bytes(gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()))
    open_store(database).append_many(read_runs(export))
    export.unlink()
    return database


def clone_project(folder: Path) -> Path:
    """Clone the project into `folder`, with ``main`` checked out and all of its branches at ``origin``."""
    command = ("git", "clone", "-q", "-b", "main", str(RECORDED / "project.bundle"), str(folder))
    subprocess.run(command, check=True, capture_output=True)
    return folder
