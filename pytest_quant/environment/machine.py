"""What identifies a machine: its CPU, its instruction set, and what else is worth knowing about it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pytest_quant.environment.gpu import find_gpus
from pytest_quant.result import Environment


def proc_cpuinfo() -> str:
    """Return the text of ``/proc/cpuinfo``; empty where there is none."""
    if sys.platform != "linux":
        return ""
    return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")


def first_value(cpuinfo_text: str, names: tuple[str, ...]) -> str:
    """Return the first value in the text of ``/proc/cpuinfo`` under one of `names`; empty when it lists none."""
    for line in cpuinfo_text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return " ".join(value.split())
    return ""


@cache
def probe() -> dict[str, object]:
    """Return what py-cpuinfo finds out; takes a fifth of a second and more, because it starts processes.

    pytest-benchmark brings it. Of two packages that bring this module, one overwrites the other, so we ask for none.
    """
    import cpuinfo  # type: ignore[import-untyped]

    found: dict[str, object] = cpuinfo.get_cpu_info()
    return found


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


_PACKAGES = (
    "cuda-python",
    "nncf",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-ep-openvino",
    "onnxruntime-gpu",
    "openvino",
    "pycuda",
    "pytest",
    "pytest-quant",
    "tensorrt",
    "tensorrt-rtx",
    "torch",
    "torchao",
)
_CONTAINER_FILES = (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"))


@cache
def fingerprint() -> Environment:
    """Return machine and libraries as plain text; packages that are not installed are left out.

    The host's name is left out on purpose: it differs on every CI machine and says nothing about speed.
    """
    from importlib.metadata import PackageNotFoundError, version

    identity = {
        "cpu": _cpu_model(),
        "isa": isa_tier(),
        "cores": _cores(),
        "os": platform.system(),
        "arch": platform.machine(),
    }
    if os.environ.get(ONEDNN_LIMIT):
        identity["isa_limit"] = os.environ[ONEDNN_LIMIT]
    context = {"python": platform.python_version(), "kernel": platform.release(), "container": _container()}
    for gpu in find_gpus()[:1]:
        identity |= {"gpu": gpu.name, "sm": gpu.sm}
        context["driver"] = gpu.driver
    for package in _PACKAGES:
        try:
            context[package] = version(package)
        except PackageNotFoundError:
            continue
    return Environment(identity, context)


def _cpu_model() -> str:
    # The kernel tells no name on ARM.
    found = first_value(proc_cpuinfo(), ("model name",))
    return found or str(probe().get("brand_raw") or platform.processor() or "unknown")


def _cores() -> str:
    """Cores that this process may use: affinity, and the quota of its container when that is less."""
    visible = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota = quota_cores(Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8"))
    except OSError:
        quota = None
    return f"{visible if quota is None else min(visible, quota):g}"


def quota_cores(cpu_max_text: str) -> float | None:
    """Return the cores that cgroup's ``cpu.max`` grants; ``None`` without a quota."""
    quota, _, period = cpu_max_text.strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) > 0 else None


def _container() -> str:
    for file, name in _CONTAINER_FILES:
        if Path(file).exists():
            return name
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    return os.environ.get("container") or "none"  # noqa: SIM112 - systemd spells it so
