"""Keys: what an entry was made from decides its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def canonical_json(value: object) -> bytes:
    """One spelling for equal values: keys sorted, no spaces, ASCII only. Raises `ValueError` on NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def key_of(kind: str, ingredients: Mapping[str, str]) -> str:
    """Sha256 in hex over the kind and the sorted ingredients."""
    return hashlib.sha256(canonical_json([kind, dict(ingredients)])).hexdigest()
