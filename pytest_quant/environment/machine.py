"""Identification of the machine: its CPU, its instruction set, and the versions of its libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata

from pytest_quant.environment.gpu import find_alike_gpus
from pytest_quant.host import cpu_limit, proc_cpuinfo, processors, system_name
from pytest_quant.result import Environment


def first_value(cpuinfo_text: str, names: tuple[str, ...]) -> str:
    """Return the first value of one of the fields `names` in the text of ``/proc/cpuinfo``; empty without one."""
    for line in cpuinfo_text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return " ".join(value.split())
    return ""


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
"""Flag without underscores, because kernels and oneDNN spell it differently, and its tier; best first."""

_SATURATING = ("avx512", "avx2", "sse", UNKNOWN)
"""Tiers that accumulate u8 x s8 products in 16 bits, where two large ones saturate."""

ONEDNN_LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Environment variable that disables instruction sets of the CPU for oneDNN, and so for OpenVINO and PyTorch."""

_ONEDNN_LEVELS = (
    *(("AVX512_CORE_AMX", 0), ("AVX512_CORE_", 1), ("AVX10", 1), ("AVX2_VNNI", 2), ("AVX512_CORE", 3)),
    *(("AVX2", 4), ("AVX", 5), ("SSE41", 5)),
)
"""Prefix of the variable's value, and how many of the best tiers it disables; the first match applies.

AVX2_VNNI disables AVX-512 too, which a CPU is then still named after that has no avx_vnni: it saturates as with AVX2.
"""


@cache
def isa_tier() -> str:
    """Return the best instruction set for int8 of this machine, in one word.

    One of ``amx_int8 avx512_vnni avx_vnni avx512 avx2 sse`` on x86, ``i8mm dotprod sve neon`` on ARM, else
    ``unknown``. Read once per process.
    """
    return tier_of(flags_in(proc_cpuinfo()))


def onednn_tier() -> str:
    """Return the best instruction set for int8 that oneDNN may use in this process, in the words of `isa_tier`.

    It is that of the machine, unless the variable ``ONEDNN_MAX_CPU_ISA`` lowers it. ONNX Runtime's own kernels have no
    such switch and use that of the machine.
    """
    level = os.environ.get(ONEDNN_LIMIT, "").upper()
    disabled = next((count for start, count in _ONEDNN_LEVELS if level.startswith(start)), 0)
    return tier_of(flags_in(proc_cpuinfo()), disabled) if level else isa_tier()


def is_x86() -> bool:
    """Whether this process runs on an x86 processor of 64 bits."""
    return platform.machine().lower() in ("amd64", "x86_64")


def has_vnni(tier: str | None = None) -> bool:
    """Whether u8 x s8 dot products are accumulated in 32 bits, so that full-range weights cannot saturate.

    True with VNNI or AMX, and on ARM, whose kernels widen; false where it is not known.

    Parameters
    ----------
    tier : see `isa_tier`; ``None`` for that of this machine.
    """
    return (tier or isa_tier()) not in _SATURATING


def adds_in_16_bits(tier: str, cpus: str = "") -> bool:
    """Whether an engine is built for kernels that add u8 x s8 products in 16 bits, where two large ones saturate.

    Parameters
    ----------
    tier : of this machine, see `isa_tier`.
    cpus : the processors that it is built for, see `EngineSpec.cpus`; empty for this machine.
    """
    return cpus in ("any", "avx2") if cpus else not has_vnni(tier)


def tier_of(flags: Iterable[str], disabled: int = 0) -> str:
    """Return the tier of a CPU with these feature `flags`, of those that are left without so many `disabled`."""
    present = {flag.lower().replace("_", "") for flag in flags}
    return next((tier for flag, tier in _TIERS[disabled:] if flag in present), UNKNOWN)


def flags_in(cpuinfo_text: str) -> list[str]:
    """Return the feature flags of the first CPU in the text of ``/proc/cpuinfo``; empty when it lists none."""
    return first_value(cpuinfo_text, ("flags", "Features")).split()


_PACKAGES = (
    *("cuda-bindings", "nncf", "numpy", "onnx", "onnxruntime", "onnxruntime-ep-openvino", "onnxruntime-gpu"),
    *("openvino", "pycuda", "pytest", "pytest-quant", "tensorrt", "tensorrt-rtx", "torch", "torchao"),
)


@cache
def version(distribution: str) -> str:
    """Return the version of an installed distribution, read once in a process: it is asked for many times per check.

    Raises
    ------
    importlib.metadata.PackageNotFoundError : it is not installed.
    """
    return metadata.version(distribution)


@cache
def fingerprint() -> Environment:
    """Return the properties of machine and installed libraries as text.

    The host's name is left out: it differs on every CI machine and says nothing about speed. The GPU is the one that
    CUDA has first in this process, and ``gpu_uuid`` names it, or all those of its model that the checks may have used.
    """
    cpu = first_value(proc_cpuinfo(), ("model name",))
    if not cpu:
        # On ARM the kernel gives none. pytest-benchmark requires py-cpuinfo, whose processes take a fifth of a second.
        import cpuinfo  # type: ignore[import-untyped]

        cpu = str(cpuinfo.get_cpu_info().get("brand_raw") or UNKNOWN)
    identity = {
        "cpu": cpu,
        "isa": isa_tier(),
        "cores": f"{_cores():g}",
        "os": system_name(),
        "arch": platform.machine(),
    }
    if os.environ.get(ONEDNN_LIMIT):
        identity["isa_limit"] = os.environ[ONEDNN_LIMIT]
    context = {"python": platform.python_version(), "kernel": platform.release()}
    gpus = find_alike_gpus()
    for gpu in gpus[:1]:
        identity |= {"gpu": gpu.name, "sm": gpu.sm or UNKNOWN}
        # Cards of one model measure the same, so that which of them it was is only noted.
        context |= {"driver": gpu.driver, "gpu_uuid": ", ".join(card.uuid for card in gpus)}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            context[package] = version(package)
    return Environment(identity, context)


def usable_cores() -> int:
    """Return the whole cores that this process may keep busy, at least 1: its share under pytest-xdist."""
    return max(1, int(_cores() / int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


def _cores() -> float:
    """Return the number of cores that this process may use: its affinity, or the container's quota if that is less."""
    visible, quota = len(processors()), quota_cores(cpu_limit())
    return visible if quota is None else min(visible, quota)


def quota_cores(cpu_max_text: str) -> float | None:
    """Return the cores that cgroup's ``cpu.max`` grants; ``None`` without a quota."""
    quota, _, period = cpu_max_text.strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) > 0 else None
