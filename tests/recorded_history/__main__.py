"""Adds the fields that documents have gained to ``fields.json``; none is ever taken out of it.

Run ``python -m tests.recorded_history`` once a release was made with them.
"""

from __future__ import annotations

import json

from tests.recorded_history import RECORDED, fields_now

recorded = json.loads((RECORDED / "fields.json").read_text("utf-8")) if (RECORDED / "fields.json").exists() else {}
now = {name: [name_of for name_of, _ in listed] for name, listed in fields_now().items()}
merged = {name: list(dict.fromkeys((*recorded.get(name, []), *now.get(name, [])))) for name in {**recorded, **now}}
(RECORDED / "fields.json").write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n", "utf-8")
