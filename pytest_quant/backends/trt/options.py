"""The options of these backends. An option of another scheme is ignored, an unknown one is not.

====================  ====================  ==============================================================
option                type                  meaning
====================  ====================  ==============================================================
compute_capability    "SM75" and later      the GPU to build for; needed where there is none
workspace_mb          int >= 1              memory that a layer may use while it runs, 10^6 bytes
optimization_level    int 0..5              time the builder takes to find faster kernels
max_batch             int >= 1, default 64  largest size of a free axis
opt_batch             int >= 1, default 1   size of a free axis that kernels are chosen for
====================  ====================  ==============================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_quant.backends.option_rules import Rule, checked, one_of, whole_number
from pytest_quant.errors import UsageError

RULES = {
    "compute_capability": Rule(
        "a compute capability such as 'SM89'",
        lambda value: isinstance(value, str) and bool(re.fullmatch(r"SM\d{2,3}", value)),
    ),
    "workspace_mb": whole_number(1),
    "optimization_level": one_of(0, 1, 2, 3, 4, 5),
    "max_batch": whole_number(1),
    "opt_batch": whole_number(1),
}


@dataclass(frozen=True, slots=True)
class TrtOptions:
    """Options as asked; ``None`` leaves the choice to TensorRT."""

    compute_capability: str | None = None
    workspace_mb: int | None = None
    optimization_level: int | None = None
    max_batch: int = 64
    opt_batch: int = 1


def parse_options(backend: str, options: Iterable[tuple[str, object]]) -> TrtOptions:
    """Turn the options of a mark into `TrtOptions`. Raises `UsageError`."""
    found: dict[str, Any] = checked(backend, options, RULES)
    parsed = TrtOptions(**found)
    if parsed.opt_batch > parsed.max_batch:
        raise UsageError(
            "opt_batch lies above max_batch",
            value=f"{parsed.opt_batch} above {parsed.max_batch}",
            fix="raise max_batch",
        )
    return parsed
