"""The instruction set that decides which int8 kernels a CPU runs."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache

from pytest_quant.environment.cpu import first_value, probe, proc_cpuinfo

UNKNOWN = "unknown"

_TIERS = (
    ("amxint8", "amx_int8"),
    ("avx512vnni", "avx512_vnni"),
    ("avxvnni", "avx_vnni"),
    ("avx512f", "avx512"),
    ("avx2", "avx2"),
    ("sse2", "sse"),
    ("i8mm", "i8mm"),
    ("asimddp", "dotprod"),
    ("sve", "sve"),
    ("asimd", "neon"),
)
"""Flag without its underscores, because systems spell them differently, and the tier it stands for; best first."""

_SATURATING = ("avx512", "avx2", "sse", UNKNOWN)
"""Tiers whose u8 x s8 products are added in 16 bits, where two large ones saturate."""


@cache
def isa_tier() -> str:
    """Return the best instruction set for int8 of this machine, in one word.

    One of ``amx_int8 avx512_vnni avx_vnni avx512 avx2 sse`` on x86, ``i8mm dotprod sve neon`` on ARM, else
    ``unknown``. Read once per process.
    """
    return tier_of(_flags(), platform.machine())


def has_vnni() -> bool:
    """Tell whether u8 x s8 dot products add up in 32 bits here, so that full-range weights cannot saturate.

    True with VNNI or AMX, and on ARM, whose kernels widen; false where it is not known.
    """
    return isa_tier() not in _SATURATING


def tier_of(flags: Iterable[str], machine: str) -> str:
    """Return the tier of a CPU with these feature `flags`; `machine` is the architecture as `platform` spells it."""
    present = {flag.lower().replace("_", "") for flag in flags}
    for flag, tier in _TIERS:
        if flag in present:
            return tier
    # Every 64-bit ARM has it; Apple's list no flags.
    return "neon" if machine.lower() in ("arm64", "aarch64") else UNKNOWN


def _flags() -> list[str]:
    found = flags_in(proc_cpuinfo())
    if found:
        return found
    flags = probe().get("flags")
    return [str(flag) for flag in flags] if isinstance(flags, list) else []


def flags_in(cpuinfo_text: str) -> list[str]:
    """Return the feature flags of the first CPU in the text of ``/proc/cpuinfo``; empty when it lists none."""
    return first_value(cpuinfo_text, ("flags", "Features")).split()
