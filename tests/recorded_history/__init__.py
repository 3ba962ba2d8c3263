"""What this package wrote when its formats became ones that are kept, see ``README.md`` beside this file."""

from __future__ import annotations

import gzip
import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from pytest_quant.cache.entry import Manifest
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import BaselineEntry
from pytest_quant.history.json_lines import read_runs
from pytest_quant.history.summaries import CheckSummary
from pytest_quant.record import Record, Run

RECORDED = Path(__file__).parent


def recorded_documents() -> list[dict[str, Any]]:
    """Return the document of each run, the oldest first, without what the package's own readers do to it."""
    lines = gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines[1:]]


def import_history(folder: Path) -> Path:
    """Write the runs of the export into a database in `folder`."""
    database = folder / "history.db"
    open_store(database).append_many(read_runs(unpacked(folder, "export.jsonl")))
    return database


def unpacked(folder: Path, name: str) -> Path:
    """Write a recorded file into `folder`, without its packing."""
    packed = RECORDED / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else (RECORDED / name).read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def fields_now() -> dict[str, list[tuple[str, bool]]]:
    """Return the fields of every type that documents have, by its name, each with whether it has a default."""
    found: dict[str, list[tuple[str, bool]]] = {}
    waiting: list[Any] = [Record, Run, CheckSummary, BaselineEntry, Manifest]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if not isinstance(kind, type) or kind.__name__ in found:
            continue
        if issubclass(kind, msgspec.Struct):
            found[kind.__name__] = [(each.name, not each.required) for each in msgspec.structs.fields(kind)]
        elif is_dataclass(kind):
            kept = [each for each in fields(kind) if each.metadata.get("kept", True)]
            defaults = [each.default is not MISSING or each.default_factory is not MISSING for each in kept]
            found[kind.__name__] = [(each.name, told) for each, told in zip(kept, defaults, strict=True)]
        else:
            continue
        waiting += get_type_hints(kind).values()
    return found
