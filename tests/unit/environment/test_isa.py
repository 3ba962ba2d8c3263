"""The instruction set is read from the flags that the system lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.environment import ONEDNN_LIMIT, has_vnni, isa_tier, onednn_tier
from pytest_quant.environment import machine as isa
from pytest_quant.environment.machine import flags_in, tier_of

_CASCADE_LAKE = "fpu sse2 avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni"


@pytest.mark.parametrize(
    ("flags", "tier"),
    [
        ("fpu sse2 avx2 fma", "avx2"),
        ("fpu sse2", "sse"),
        ("sse2 avx2 avx_vnni", "avx_vnni"),
        ("sse2 avx2 avx512f avx512bw", "avx512"),
        (_CASCADE_LAKE, "avx512_vnni"),
        ("sse2 avx2 avx512f avx512vnni", "avx512_vnni"),
        (_CASCADE_LAKE + " avx_vnni amx_int8 amx_tile", "amx_int8"),
        ("fp asimd crc32", "neon"),
        ("fp asimd asimddp", "dotprod"),
        ("fp asimd asimddp sve i8mm", "i8mm"),
        ("fp asimd sve", "sve"),
        ("", "unknown"),
    ],
)
def test_the_best_flag_decides_the_tier(flags: str, tier: str) -> None:
    """A CPU with several sets is named after the one that int8 kernels prefer."""
    assert tier_of(flags.split()) == tier


@given(st.permutations(_CASCADE_LAKE.split()))
def test_the_order_of_flags_says_nothing(flags: list[str]) -> None:
    """Kernels list flags in any order."""
    assert tier_of(flags) == "avx512_vnni"


@pytest.mark.parametrize(
    ("tier", "exact"),
    [("avx2", False), ("avx512", False), ("sse", False), ("unknown", False)]
    + [(tier, True) for tier in ("amx_int8", "avx512_vnni", "avx_vnni", "neon", "dotprod", "sve", "i8mm")],
)
def test_only_x86_without_vnni_saturates(monkeypatch: pytest.MonkeyPatch, tier: str, exact: bool) -> None:
    """AVX2 and AVX512F add u8 x s8 products in 16 bits; an unknown CPU is taken for one that does."""
    monkeypatch.setattr(isa, "isa_tier", lambda: tier)
    assert has_vnni() is exact


_SAPPHIRE_RAPIDS = f"flags : {_CASCADE_LAKE} avx_vnni avx512_bf16 amx_int8 amx_tile\n"


@pytest.mark.parametrize(
    ("cpuinfo", "level", "tier"),
    [
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_AMX", "amx_int8"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_AMX_FP16", "amx_int8"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_BF16", "avx512_vnni"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_VNNI", "avx512_vnni"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE", "avx512"),
        (_SAPPHIRE_RAPIDS, "AVX2_VNNI_2", "avx_vnni"),
        (_SAPPHIRE_RAPIDS, "avx2_vnni", "avx_vnni"),
        (_SAPPHIRE_RAPIDS, "AVX2", "avx2"),
        (_SAPPHIRE_RAPIDS, "SSE41", "sse"),
        (_SAPPHIRE_RAPIDS, "DEFAULT", "amx_int8"),
        (f"flags : {_CASCADE_LAKE}\n", "AVX2_VNNI", "avx2"),
        ("flags : sse2 avx2\n", "AVX512_CORE_VNNI", "avx2"),
    ],
)
def test_a_limit_of_onednn(monkeypatch: pytest.MonkeyPatch, cpuinfo: str, level: str, tier: str) -> None:
    """The best of what the CPU has and the variable leaves; a set that the CPU lacks is not given to it."""
    monkeypatch.setattr(isa, "proc_cpuinfo", lambda: cpuinfo)
    monkeypatch.setenv(ONEDNN_LIMIT, level)
    assert onednn_tier() == tier
    assert has_vnni(onednn_tier()) is (tier not in ("avx512", "avx2", "sse"))


def test_without_a_limit_onednn_has_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is not set on most machines."""
    monkeypatch.delenv(ONEDNN_LIMIT, raising=False)
    assert onednn_tier() == isa_tier()


def test_flags_are_those_of_the_first_cpu() -> None:
    """Both spellings of the line are known, and other lines that mention flags are not taken for it."""
    assert flags_in("processor : 0\nvmx flags : ept\nflags\t\t: fpu  avx2\n\nflags : fpu\n") == ["fpu", "avx2"]
    assert flags_in("processor : 0\nFeatures\t: fp asimd\n") == ["fp", "asimd"]
    assert flags_in("") == []


def test_the_quick_way_agrees_with_py_cpuinfo() -> None:
    """The kernel's text and the library find the same tier on this machine."""
    import cpuinfo  # type: ignore[import-untyped]

    info = cpuinfo.get_cpu_info()
    assert isa_tier() == tier_of(info.get("flags", []))
