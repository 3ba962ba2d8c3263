"""Pages of 2 MB under the memory of this process, on this kernel; and which ranges of a listing are moved there."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_quant.measure import engine_trio
from pytest_quant.measure.engine_trio import EngineTrio, _ranges, collapse
from pytest_quant.spec import LatencyPlan, Pages
from tests.unit.measure.played_apart import played

MB = 1 << 20
HUGE = 2 * MB


def huge_bytes(address: int) -> int:
    """Return how much of the range that holds an address lies in pages of 2 MB, as the kernel lists it."""
    for block in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text("ascii")):
        low, high = (int(end, 16) for end in block.split(maxsplit=1)[0].split("-"))
        if low <= address < high:
            return int(block.split("AnonHugePages:")[1].split()[0]) * 1024
    raise AssertionError("no range holds the address")


@pytest.fixture
def small_pages() -> tuple[int, mmap.mmap]:
    """Sixteen MB of ones on pages of 4 KB: the address, and what keeps it alive."""
    held = mmap.mmap(-1, 16 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(held))
    _madvise(address, 16 * MB, 15)  # MADV_NOHUGEPAGE: the kernel moves none of them by itself
    held.write(b"\x01" * (16 * MB))
    return address, held


def _madvise(address: int, size: int, advice: int) -> bool:
    """Whether the kernel does what it is advised about a range."""
    return bool(ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice) == 0)


def test_memory_that_is_used_is_moved_and_keeps_its_contents(small_pages: tuple[int, mmap.mmap]) -> None:
    """All of it but what is left over at its ends; where the kernel cannot, nothing changes and that is said."""
    address, held = small_pages
    assert huge_bytes(address) == 0
    _madvise(address, 16 * MB, 14)  # MADV_HUGEPAGE
    possible = _madvise(-(-address // HUGE) * HUGE, HUGE, 25)  # MADV_COLLAPSE
    moved = collapse()
    assert moved is possible
    assert held[:] == b"\x01" * (16 * MB)
    assert (huge_bytes(address) >= 10 * MB) is moved


@pytest.mark.parametrize("size", [0, 32 * MB, 512 * MB])
def test_pages_of_another_size_are_left_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARM kernels with pages of 16 or 64 KB have large ones of 32 and 512 MB; some have none."""
    monkeypatch.setattr(engine_trio, "huge_page_bytes", lambda: size)
    monkeypatch.setattr(engine_trio, "c_library", lambda: pytest.fail("the kernel is asked to move memory"))
    assert not collapse()


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_the_pages_under_sessions_are_those_that_were_asked_for(pages: Pages) -> None:
    """And the figures say which, so that they are never compared with figures of the others."""
    with EngineTrio(played("quiet"), played("quiet"), pages) as sessions:
        latency = sessions.measure(LatencyPlan(max_s=0.2, max_warmup_s=0.01))
    assert latency.small_pages is (pages == "small" or not collapse())


MAPPED = SimpleNamespace(addr="00400000-00c00000", perms="rw-p", path="[anon]", rss=8 * MB)
WHOLE = [(0x400000, 8 * MB)]


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        ({}, WHOLE),
        ({"rss": MB}, []),
        ({"perms": "rw-s"}, []),
        ({"perms": "r--p"}, []),
        ({"path": "/lib/x.so"}, []),
        ({"path": "[heap]"}, WHOLE),
        ({"path": "[stack]"}, []),
        ({"addr": "00401000-00bff000"}, [(0x600000, 4 * MB)]),
        ({"addr": "00401000-00501000"}, []),
    ],
)
def test_ranges_that_are_moved(changes: dict[str, object], moved: list[tuple[int, int]]) -> None:
    """Anonymous ones of this process alone, mostly touched, cut to whole pages of 2 MB."""
    assert list(_ranges([SimpleNamespace(**(vars(MAPPED) | changes))])) == moved
