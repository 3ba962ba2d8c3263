"""What identifies a machine, and its instruction set."""

from __future__ import annotations

import platform
from importlib import metadata

import pytest

from pytest_quant.environment import machine as isa
from pytest_quant.environment.machine import (
    ONEDNN_LIMIT,
    fingerprint,
    first_value,
    flags_in,
    has_vnni,
    isa_tier,
    onednn_tier,
    quota_cores,
    tier_of,
    usable_cores,
    version,
)
from tests.support.nvml_stub import NvmlStub, StubCard, error, uuid_of


def test_identity_is_what_decides_speed() -> None:
    """CPU, instruction set, cores, system and architecture, all of them known here, as text; not the host's name."""
    identity = fingerprint().identity
    assert list(identity) == ["cpu", "isa", "cores", "os", "arch"]
    assert identity["isa"] == isa_tier()
    assert all(identity.values())
    assert platform.node() not in identity.values()
    assert all(type(value) is str for value in {**identity, **fingerprint().context}.values())


def test_a_lowered_instruction_set_is_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency under a limit of oneDNN's is not compared with latency without it."""
    monkeypatch.setenv(ONEDNN_LIMIT, "AVX2")
    assert fingerprint.__wrapped__().identity["isa_limit"] == "AVX2"
    monkeypatch.delenv(ONEDNN_LIMIT)
    assert "isa_limit" not in fingerprint.__wrapped__().identity


def test_context_has_versions_of_what_is_installed() -> None:
    """A package that is absent is left out and not called unknown."""
    context = fingerprint().context
    assert context["numpy"] == version("numpy") == metadata.version("numpy")
    assert context["python"] == platform.python_version()
    assert "onnxruntime-gpu" not in context


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("", None), ("100000 0", None)]
)
def test_a_container_grants_quota_over_period(text: str, cores: float | None) -> None:
    """``cpu.max`` holds microseconds of CPU time per period, ``max`` for no limit."""
    assert quota_cores(text) == cores


def test_the_model_name_is_one_line() -> None:
    """Vendors pad it with spaces; ARM kernels tell none."""
    text = "vendor_id : X\nmodel name\t: Some   CPU @ 2.0GHz \n"
    assert first_value(text, ("model name",)) == "Some CPU @ 2.0GHz"
    assert first_value("CPU part : 0xd0c", ("model name",)) == ""


L4, T4 = StubCard(), StubCard(name="NVIDIA T4", capability="7.5")


def test_the_gpu_is_the_one_that_cuda_has(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's first card may be one that the environment hides. Name and compute capability must match, the UUID not."""
    nvml_stub.play(L4, T4, driver="580.1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    environment = fingerprint.__wrapped__()
    assert (environment.identity["gpu"], environment.identity["sm"]) == ("NVIDIA T4", "SM75")
    assert (environment.context["driver"], environment.context["gpu_uuid"]) == ("580.1", uuid_of(1))
    assert uuid_of(1) not in environment.identity.values()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "gpu" not in fingerprint.__wrapped__().identity
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    nvml_stub.play(StubCard(capability=error(3)), T4)
    assert fingerprint.__wrapped__().identity["sm"] == "unknown"


def test_cards_of_the_model_that_cuda_has_first_are_one_machine(nvml_stub: NvmlStub) -> None:
    """All of them are noted, and none of another model; only CUDA's driver knows its order by speed."""
    nvml_stub.play(T4, L4, L4, cuda=(uuid_of(1), uuid_of(0), uuid_of(2)))
    environment = fingerprint.__wrapped__()
    assert (environment.identity["gpu"], environment.context["gpu_uuid"]) == (
        "NVIDIA L4",
        f"{uuid_of(1)}, {uuid_of(2)}",
    )


_CASCADE_LAKE = "fpu sse2 avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni"


@pytest.mark.parametrize(
    ("flags", "tier"),
    [
        ("fpu sse2 avx2 fma", "avx2"),
        ("fpu sse2", "sse"),
        ("sse2 avx2 avx_vnni", "avx_vnni"),
        ("sse2 avx2 avx512f avx512bw", "avx512"),
        (_CASCADE_LAKE, "avx512_vnni"),
        (_CASCADE_LAKE + " avx_vnni amx_int8 amx_tile", "amx_int8"),
        ("fp asimd crc32", "neon"),
        ("fp asimd asimddp", "dotprod"),
        ("fp asimd asimddp sve i8mm", "i8mm"),
        ("", "unknown"),
    ],
)
def test_the_best_flag_decides_the_tier(flags: str, tier: str) -> None:
    """A CPU with several sets is named after the one that int8 kernels prefer."""
    assert tier_of(flags.split()) == tier


def test_only_x86_without_vnni_saturates(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2 and AVX512F add u8 x s8 products in 16 bits; an unknown CPU is taken for one that does."""
    assert not any(map(has_vnni, ("avx2", "avx512", "sse", "unknown")))
    assert all(map(has_vnni, ("amx_int8", "avx512_vnni", "avx_vnni", "neon", "dotprod", "sve", "i8mm")))
    monkeypatch.setattr(isa, "isa_tier", lambda: "avx2")
    assert not has_vnni()


_SAPPHIRE_RAPIDS = f"flags : {_CASCADE_LAKE} avx_vnni avx512_bf16 amx_int8 amx_tile\n"


@pytest.mark.parametrize(
    ("cpuinfo", "level", "tier"),
    [
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_AMX", "amx_int8"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE_BF16", "avx512_vnni"),
        (_SAPPHIRE_RAPIDS, "AVX512_CORE", "avx512"),
        (_SAPPHIRE_RAPIDS, "avx2_vnni", "avx_vnni"),
        (_SAPPHIRE_RAPIDS, "AVX2", "avx2"),
        (_SAPPHIRE_RAPIDS, "SSE41", "sse"),
        (_SAPPHIRE_RAPIDS, "DEFAULT", "amx_int8"),
        (f"flags : {_CASCADE_LAKE}\n", "AVX2_VNNI", "avx512"),
        ("flags : sse2 avx2\n", "AVX512_CORE_VNNI", "avx2"),
    ],
)
def test_a_limit_of_onednn(monkeypatch: pytest.MonkeyPatch, cpuinfo: str, level: str, tier: str) -> None:
    """The best of what the CPU has and the variable leaves; a set that the CPU lacks is not given to it.

    AVX-512 without VNNI in place of AVX2 is another word for kernels that saturate.
    """
    monkeypatch.setattr(isa, "proc_cpuinfo", lambda: cpuinfo)
    monkeypatch.setenv(ONEDNN_LIMIT, level)
    assert onednn_tier() == tier
    assert has_vnni(onednn_tier()) is (tier not in ("avx512", "avx2", "sse"))


def test_flags_are_those_of_the_first_cpu() -> None:
    """Both spellings of the line are known, and other lines that mention flags are not taken for it."""
    assert flags_in("processor : 0\nvmx flags : ept\nflags\t\t: fpu  avx2\n\nflags : fpu\n") == ["fpu", "avx2"]
    assert flags_in("processor : 0\nFeatures\t: fp asimd\n") == ["fp", "asimd"]
    assert flags_in("") == []


@pytest.mark.parametrize(
    ("visible", "quota", "workers", "cores"),
    [
        (8, None, None, 8),
        (8, "max 100000", "1", 8),
        (8, "350000 100000", None, 3),
        (8, None, "3", 2),
        (2, None, "4", 1),
    ],
    ids=["affinity", "no quota", "quota", "workers", "more workers than cores"],
)
def test_the_cores_of_a_process_are_its_share(
    visible: int, quota: str | None, workers: str | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its affinity or its container, whichever are fewer, over the workers of pytest-xdist; at least one."""
    monkeypatch.setattr(isa, "processors", lambda: range(visible))
    monkeypatch.setattr(isa, "cpu_limit", lambda: quota or "")
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if workers is not None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)
    assert usable_cores() == cores
