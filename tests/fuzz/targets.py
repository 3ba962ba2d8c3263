"""All targets by name."""

from __future__ import annotations

from tests.fuzz import on_commands, on_data, on_files, on_marks, on_models
from tests.fuzz.hunt import Target

_ALL = (
    on_marks.READ,
    on_marks.COLLECT,
    on_data.DATA,
    on_models.READ,
    on_models.MEASURE,
    on_files.RUNS,
    on_files.BASELINES,
    on_files.MANIFESTS,
    on_commands.NAMES,
    on_commands.COMMANDS,
)

TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
