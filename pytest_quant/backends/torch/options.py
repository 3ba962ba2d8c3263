"""The options of this backend. An option of another scheme is ignored, an unknown one is not.

=============  ===================  =====================================================================
option         type                 meaning
=============  ===================  =====================================================================
threads        int >= 1, default 1  threads of PyTorch, for the whole process
compiled       bool, default True   compile with Inductor; an int8 model that is not is a float simulation
reduce_range   bool                 7-bit activations; default True on x86 without VNNI
dtype          str, default fp32    weight-only: what the rest is computed in, "fp32", "bf16" or "fp16"
=============  ===================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_quant.backends.option_rules import FLAG, checked, one_of, whole_number
from pytest_quant.environment import has_vnni, onednn_tier
from pytest_quant.spec import EngineSpec

RULES = {
    "threads": whole_number(1),
    "compiled": FLAG,
    "reduce_range": FLAG,
    "dtype": one_of("fp32", "bf16", "fp16"),
}


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options as asked; ``None`` leaves the choice to the machine."""

    threads: int = 1
    compiled: bool = True
    reduce_range: bool | None = None
    dtype: str = "fp32"

    @property
    def seven_bits(self) -> bool:
        """Whether ranges are reduced: where kernels add in 16 bits, unless the user says."""
        return not has_vnni(onednn_tier()) if self.reduce_range is None else self.reduce_range


def parse_options(options: Iterable[tuple[str, object]]) -> TorchOptions:
    """Turn the options of a mark into `TorchOptions`. Raises `UsageError`."""
    found: dict[str, Any] = checked("torch", options, RULES)
    return TorchOptions(**found)


def float_type(spec: EngineSpec) -> str:
    """Return the floating type that an engine computes in: ``fp32``, ``bf16`` or ``fp16``."""
    if spec.precision in ("bf16", "fp16"):
        return spec.precision
    return parse_options(spec.options).dtype if spec.scheme == "weight-only" else "fp32"
