"""The two places that describe a CPU: the kernel's text, which is quick, and py-cpuinfo, which is slow."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path


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
