"""The instruction set that decides which int8 kernels a CPU runs."""

from __future__ import annotations

import os
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

ONEDNN_LIMIT = "ONEDNN_MAX_CPU_ISA"
"""The variable that keeps oneDNN, and with it OpenVINO and PyTorch, from instruction sets that the CPU has."""

_SSE = frozenset({"sse2"})
_AVX2 = _SSE | {"avx2"}
_AVX512 = _AVX2 | {"avx512f"}
_VNNI = _AVX512 | {"avxvnni", "avx512vnni"}
_ONEDNN_LEVELS = (
    ("AVX512_CORE_AMX", _VNNI | {"amxint8"}),
    ("AVX10_1_512_AMX", _VNNI | {"amxint8"}),
    ("AVX10_2_512_AMX", _VNNI | {"amxint8"}),
    ("AVX10", _VNNI),
    ("AVX512_CORE_", _VNNI),
    ("AVX512_CORE", _AVX512),
    ("AVX2_VNNI", _AVX2 | {"avxvnni"}),
    ("AVX2", _AVX2),
    ("AVX", _SSE),
    ("SSE41", _SSE),
)
"""How a value of the variable begins, and what it leaves of the flags above; the first that fits holds."""


@cache
def isa_tier() -> str:
    """Return the best instruction set for int8 of this machine, in one word.

    One of ``amx_int8 avx512_vnni avx_vnni avx512 avx2 sse`` on x86, ``i8mm dotprod sve neon`` on ARM, else
    ``unknown``. Read once per process.
    """
    return tier_of(_flags(), platform.machine())


def onednn_tier() -> str:
    """Return the best instruction set for int8 that oneDNN may use in this process, in the words of `isa_tier`.

    That of the machine, unless the variable ``ONEDNN_MAX_CPU_ISA`` lowers it. ONNX Runtime's own kernels know no such
    switch and run at the machine's.
    """
    level = os.environ.get(ONEDNN_LIMIT, "").upper()
    return tier_of(_allowed(_flags(), level), platform.machine()) if level else isa_tier()


def has_vnni(tier: str | None = None) -> bool:
    """Tell whether u8 x s8 dot products add up in 32 bits, so that full-range weights cannot saturate.

    True with VNNI or AMX, and on ARM, whose kernels widen; false where it is not known.

    Parameters
    ----------
    tier : see `isa_tier`; that of this machine unless given.
    """
    return (tier or isa_tier()) not in _SATURATING


def _allowed(flags: Iterable[str], level: str) -> list[str]:
    """Return those of `flags` that oneDNN uses at `level`; all of them for a level that it does not know."""
    plain = [flag.lower().replace("_", "") for flag in flags]
    left = next((left for start, left in _ONEDNN_LEVELS if level.startswith(start)), plain)
    return [flag for flag in plain if flag in left]


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
