"""NVIDIA's driver beside wheels that are made for a version of CUDA, compared before anything of them is loaded."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.backends.base import Availability
from pytest_quant.environment.nvml import driver_cuda

_FIRST_DRIVER = {12: "driver 525", 13: "driver 580"}
"""Of each major version of CUDA, by the release notes; within one, newer wheels run on older drivers."""


def driver_too_old(wheels: Mapping[str, str], otherwise: str) -> Availability | None:
    """Return why the driver runs some of `wheels` not at all; ``None`` where it does, or where nothing tells.

    Parameters
    ----------
    wheels : the version of CUDA that each wants, such as ``13.0``, by its name and version; empty where not known.
    otherwise : what to do where the driver must stay, after "or".
    """
    driver = driver_cuda()
    if driver is None:
        return None
    version, cuda = driver
    majors = ((name, int(wants.partition(".")[0])) for name, wants in wheels.items() if wants)
    newer = {name: wants for name, wants in majors if wants > cuda // 1000}
    if not newer:
        return None
    most = max(newer.values())
    want = f"{' and '.join(newer)} want{'s' if len(newer) == 1 else ''} {most}"
    reason = f"driver {version} has CUDA {cuda // 1000}.{cuda % 1000 // 10}, and {want}"
    fix = f"{_FIRST_DRIVER.get(most, f'a driver with CUDA {most}')} or later, or {otherwise}"
    return Availability(False, reason=reason, fix=fix)
