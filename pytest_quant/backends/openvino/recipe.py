"""Choices that the user left open."""

from __future__ import annotations

from pytest_quant.backends.openvino.options import OpenVinoOptions, parse_options
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
