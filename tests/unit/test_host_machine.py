"""What the machine tells, and what is known where it does not: each time by taking it away from this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from pytest_quant import host
from pytest_quant.environment.machine import flags_in, tier_of


@pytest.fixture
def no_kernel_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The files of the kernel are not there."""
    real = Path

    def path(*parts: Any) -> Path:
        asked = real(*parts)
        return tmp_path / "nothing" if asked.parts[1:2] in (("proc",), ("sys",)) else asked

    monkeypatch.setattr(host, "Path", path)


APPLE = {
    "M1": ("hw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_BF16: 0\nhw.optional.arm.FEAT_I8MM: 0\n", "dotprod"),
    "M2": ("hw.optional.arm.FEAT_DotProd: 1\nhw.optional.arm.FEAT_BF16: 1\nhw.optional.arm.FEAT_I8MM: 1\n", "i8mm"),
    "M4": ("hw.optional.arm.FEAT_I8MM: 1\nhw.optional.arm.SME_I8I32: 1\nhw.optional.arm.FEAT_SME: 1\n", "i8mm"),
    "macOS 11": ("hw.optional.arm64: 1\n", "neon"),
}
"""Lines of what ``sysctl hw.optional`` prints, as published: the M1 has no matrix products of 8 bits, the M2 has."""


@pytest.mark.usefixtures("no_kernel_files")
@pytest.mark.parametrize("chip", APPLE)
def test_a_mac_is_asked_by_sysctl(chip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy knows dot products and no more; no chip of Apple's is one that saturates."""
    text, tier = APPLE[chip]
    _play_features(monkeypatch, ASIMD=True, ASIMDHP=True, SVE=False)
    monkeypatch.setattr(host, "_sysctl", lambda _: text)
    assert tier_of(flags_in(host.proc_cpuinfo())) == tier


@pytest.mark.usefixtures("no_kernel_files")
@pytest.mark.parametrize(
    ("features", "tier"),
    [
        (("SSE2", "AVX2", "AVX512F", "AVX512VNNI"), "avx512_vnni"),
        (("SSE2", "AVX2", "AVX512F"), "avx512"),
        (("SSE2", "AVX2"), "avx2"),
        (("NEON", "ASIMD", "ASIMDDP"), "dotprod"),
        (("VSX",), "unknown"),
    ],
)
def test_other_systems_have_the_features_that_numpy_knows(
    features: tuple[str, ...], tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their own names; an x86 process on an ARM Mac is not asked what the Mac has."""
    _play_features(monkeypatch, **dict.fromkeys(features, True))
    monkeypatch.setattr(host, "_sysctl", lambda _: APPLE["M2"][0] if "AVX2" in features else "")
    assert tier_of(flags_in(host.proc_cpuinfo())) == tier


def _play_features(monkeypatch: pytest.MonkeyPatch, **features: bool) -> None:
    own = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    monkeypatch.setattr(own, "__cpu_features__", features)


@pytest.mark.usefixtures("no_kernel_files")
def test_numpy_says_of_this_processor_what_the_kernel_says() -> None:
    """But for AMX, and for VNNI without AVX-512, which it does not know: then a lesser set."""
    by_kernel = tier_of(flags_in(Path("/proc/cpuinfo").read_text("utf-8")))
    by_numpy = tier_of(flags_in(host.proc_cpuinfo()))
    assert by_numpy in {"amx_int8": ("avx512_vnni",), "avx_vnni": ("avx2",)}.get(by_kernel, (by_kernel,))


def test_the_processors_of_this_process_are_the_same_by_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The affinity by the system, by psutil, and where neither tells it all that there are."""
    by_system = list(host.processors())
    monkeypatch.delattr(os, "sched_getaffinity")
    assert list(host.processors()) == by_system
    monkeypatch.delattr(psutil.Process, "cpu_affinity")
    assert list(host.processors()) == list(range(os.cpu_count() or 0))


@pytest.mark.parametrize(
    ("began", "ended", "added"),
    [
        ((100, 100), (100, 300), 200),
        ((100, 8_000_100), (100, 8_000_100), 8_000_000),
        ((100, 9_000_000), (100, 9_000_001), 8_999_901),
        ((100, 9_000_000), (50_000, 9_000_000), None),
        ((500, 500), (100, 400), 0),
        (None, (1, 1), None),
        ((1, 1), None, None),
    ],
    ids=["new peak", "slack", "above an old peak", "below an old peak", "shrank", "not told before", "not told after"],
)
def test_a_peak_counts_where_it_is_seen(
    began: tuple[int, int] | None, ended: tuple[int, int] | None, added: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the size at the beginning; a peak below an older one that could not be reset is not known."""
    told = [began, ended]
    monkeypatch.setattr(host, "_sizes", lambda: told.pop(0))
    assert host.watch_peak()() == added


@pytest.mark.usefixtures("no_kernel_files")
def test_a_new_peak_of_the_process_is_seen_without_the_kernel_s_files() -> None:
    """200 MB more than it ever had; units of 1024 and bytes are told apart by what is used now."""
    peak = host._sizes()
    assert peak is not None
    added = host.watch_peak()
    blocks = np.ones(peak[1] - peak[0] + 200_000_000, np.uint8)
    found = added()
    assert found is not None
    assert 0.9 * len(blocks) <= found <= len(blocks) + 100_000_000


@pytest.mark.usefixtures("no_kernel_files")
def test_what_only_a_kernel_file_tells_is_not_known_without_it() -> None:
    """No size of pages, no limit, no count."""
    assert (host.huge_page_bytes(), host.cpu_limit(), host.times_throttled()) == (0, "", 0)


@pytest.mark.parametrize(
    ("listed", "group", "times"),
    [
        ("0::/user.slice/tests.scope\n", "user.slice/tests.scope", 7),
        ("1:name=systemd:/x\n0::/\n", "", 7),
        ("4:cpu,cpuacct:/docker/abc\n", "docker/abc", 0),
        ("0::/elsewhere\n", "here", 0),
    ],
)
def test_the_limit_of_a_control_group_is_read_where_there_is_one(
    listed: str, group: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel lists it in ``/proc/self/cgroup``; groups of version 1 and missing files count as 0."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    proc.write_text(listed)
    (groups / group).mkdir(parents=True)
    (groups / group / "cpu.stat").write_text("usage_usec 5\nnr_periods 9\nnr_throttled 7\n")
    places = {"/proc/self/cgroup": proc, "/sys/fs/cgroup": groups}
    monkeypatch.setattr("pytest_quant.host.Path", lambda first, *rest: Path(places[first], *rest))
    assert host.times_throttled() == times


_EVENTS = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\noom_group_kill 0\n"
_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"


@pytest.mark.parametrize(
    ("groups", "file", "text", "kills"),
    [
        ("0::/job/7\n", "sys/fs/cgroup/job/7/memory.events", _EVENTS, 3),
        ("0::/\n", "sys/fs/cgroup/memory.events", _EVENTS, 3),
        ("4:memory:/docker/7\n3:cpu:/x\n", "sys/fs/cgroup/memory/docker/7/memory.oom_control", _CONTROL, 3),
        ("4:memory:/docker/7\n0::/\n", "sys/fs/cgroup/memory/memory.oom_control", _CONTROL, 3),
        ("4:memory:/docker/7\n", "sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),
        ("3:cpu:/x\n", "sys/fs/cgroup/memory/x/memory.oom_control", _CONTROL, 0),
        ("", "elsewhere", "", 0),
    ],
    ids=["v2", "v2 in a container", "v1", "v1 in a container", "v1 of an old kernel", "another controller", "none"],
)
def test_kills_for_want_of_memory_are_those_of_the_own_group(
    tmp_path: Path, groups: str, file: str, text: str, kills: int
) -> None:
    """Recorded files of cgroups; a container sees its own group as the top one, by whatever name the host has it."""
    for name, content in (("proc/self/cgroup", groups), (file, text)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert host.memory_kills(tmp_path) == kills


def test_a_machine_without_groups_counts_no_kills(tmp_path: Path) -> None:
    """As every one but Linux."""
    assert host.memory_kills(tmp_path) == 0
