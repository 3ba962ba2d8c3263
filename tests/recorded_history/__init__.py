"""What an older commit wrote, see ``README.md`` beside this file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from pytest_quant.history import open_store
from pytest_quant.history.json_lines import read_runs

RECORDED = Path(__file__).parent


def recorded_documents() -> list[dict[str, Any]]:
    """Return the document of each run, the oldest first, without what the package's own readers do to it."""
    lines = gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines[1:]]


def import_history(folder: Path) -> Path:
    """Write the runs of the export into a database in `folder`."""
    export, database = folder / "export.jsonl", folder / "history.db"
    export.write_bytes(gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()))
    open_store(database).append_many(read_runs(export))
    export.unlink()
    return database
