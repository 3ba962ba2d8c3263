"""What identifies a machine, and what else is worth knowing about it."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path

from pytest_quant.environment.cpu import first_value, probe, proc_cpuinfo
from pytest_quant.environment.gpu import find_gpus
from pytest_quant.environment.isa import ONEDNN_LIMIT, isa_tier
from pytest_quant.result import Environment

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
