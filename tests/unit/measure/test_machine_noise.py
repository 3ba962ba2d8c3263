"""What else the machine did, from its counters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.measure import noise
from pytest_quant.measure.noise import MachineState, machine_notes, read_machine

BEFORE = MachineState(at_s=100.0, own_s=5.0, busy_s=50.0, stolen_s=1.0, throttled=3, processors=4)
ALONE = replace(BEFORE, at_s=110.0, own_s=15.0, busy_s=60.0)


@pytest.mark.parametrize(
    ("after", "noted"),
    [
        (ALONE, []),
        (replace(ALONE, busy_s=62.0), []),
        (replace(ALONE, busy_s=75.0), ["busy machine: other processes used 1.5 of 4 processors"]),
        (replace(ALONE, stolen_s=1.3), []),
        (replace(ALONE, stolen_s=3.0), ["stolen time: the hypervisor took 5 % of the processors' time"]),
        (replace(ALONE, throttled=5), ["throttled: a CPU limit of the control group stopped this process 2 times"]),
        (BEFORE, []),
    ],
)
def test_differences_of_the_counters_are_noted(after: MachineState, noted: list[str]) -> None:
    """Ten seconds on four processors: 15 s of others' work is 1.5 processors, 2 s stolen of 40 is 5 %."""
    assert list(machine_notes(BEFORE, after)) == noted


def test_the_counters_of_this_machine_can_be_read() -> None:
    """They only grow, and there is a processor."""
    first, second = read_machine(), read_machine()
    assert first.processors >= 1
    assert second.at_s >= first.at_s
    assert second.own_s >= first.own_s > 0.0
    assert second.busy_s >= first.busy_s > 0.0


GROUPS = {
    "version 2": (
        "0::/user.slice/tests.scope\n",
        ["/sys/fs/cgroup/user.slice/tests.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"],
    ),
    "version 1": (
        "7:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
        ["/sys/fs/cgroup/cpu/docker/abc", "/sys/fs/cgroup/cpu/docker", "/sys/fs/cgroup/cpu"],
    ),
    "the root": ("0::/\n", ["/sys/fs/cgroup"]),
    "none for processors": ("7:memory:/docker/abc\n", []),
}


@pytest.mark.parametrize("version", GROUPS)
def test_control_groups_are_those_of_this_process_and_above(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel lists them in ``/proc/self/cgroup``, below the folder of their version (man 7 cgroups)."""
    listed, groups = GROUPS[version]
    asked: list[Path] = []

    def read(file: Path, _encoding: str) -> str:
        asked.append(file)
        return listed

    monkeypatch.setattr(Path, "read_text", read)
    found = list(noise._control_group_files())
    assert asked == [Path("/proc/self/cgroup")]
    assert found == [Path(group, "cpu.stat") for group in groups]


def test_the_limit_of_a_control_group_is_read_where_there_is_one(tmp_path: Path) -> None:
    """Missing files and groups without a limit count as never throttled."""
    limited, free = tmp_path / "limited", tmp_path / "free"
    limited.write_text("usage_usec 5\nnr_periods 9\nnr_throttled 7\n")
    free.write_text("usage_usec 5\n")
    assert [noise._throttled(file) for file in (limited, free, tmp_path / "missing")] == [7, 0, 0]
