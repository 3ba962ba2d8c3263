"""How OpenVINO builds and quantizes: the options of this backend, and its choices where the user leaves them open.

=====================  ==============================  =======================================================
option                 type                            meaning
=====================  ==============================  =======================================================
threads                int >= 1, default 1             threads of the one stream
preset                 "performance" or "mixed"        mixed: activations need not be symmetric; default performance
overflow_fix           "enable", "first_layer" or      7-bit weights against saturation; default: enable without
                       "disable"                       VNNI, else disable
model_type             "transformer"                   NNCF's rules for attention
fast_bias_correction   bool, default True              False is slower and may be more accurate
=====================  ==============================  =======================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_quant.backends.options import FLAG, checked, one_of, whole_number
from pytest_quant.environment import has_vnni, onednn_tier
from pytest_quant.spec import EngineSpec


def overflow_fix(options: OpenVinoOptions) -> str:
    """Return which weights get seven bits: all of them where the kernels add in 16 bits, unless the user says."""
    return options.overflow_fix or ("disable" if has_vnni(onednn_tier()) else "enable")


def notes_of(spec: EngineSpec) -> tuple[str, ...]:
    """Say what was chosen and the reader should know."""
    options = parse_options(spec.options)
    if spec.scheme != "static" or options.overflow_fix is not None or overflow_fix(options) != "enable":
        return ()
    cause = f"this CPU ({onednn_tier()}) has no VNNI, and its int8 kernels saturate with 8"
    return (f"weights have 7 bits: {cause}; options={{'overflow_fix': 'disable'}} keeps 8",)


RULES = {
    "threads": whole_number(1),
    "preset": one_of("performance", "mixed"),
    "overflow_fix": one_of("enable", "first_layer", "disable"),
    "model_type": one_of("transformer"),
    "fast_bias_correction": FLAG,
}


@dataclass(frozen=True, slots=True)
class OpenVinoOptions:
    """Options as asked; ``None`` leaves the choice to the machine or to NNCF."""

    threads: int = 1
    preset: str = "performance"
    overflow_fix: str | None = None
    model_type: str | None = None
    fast_bias_correction: bool = True


def parse_options(options: Iterable[tuple[str, object]]) -> OpenVinoOptions:
    """Turn the options of a mark into `OpenVinoOptions`. Raises `UsageError`."""
    found: dict[str, Any] = checked("openvino", options, RULES)
    return OpenVinoOptions(**found)
