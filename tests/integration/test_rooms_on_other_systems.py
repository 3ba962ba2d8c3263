"""The unit tests of what touches the system, as on macOS and on Windows.

`tests.support.other_system` says what is emulated. No such machine has run this.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.example import ROOT, TIME_LIMIT_S
from tests.support.other_system import SYSTEMS, variables

_CACHE, _ENVIRONMENT, _MEASURE = (f"tests/unit/{room}" for room in ("cache", "environment", "measure"))
_HOST = "tests/unit/test_host.py"

ROOMS = (
    *(f"{_CACHE}/test_{name}.py" for name in ("cache", "lost_places", "processes")),
    *(f"{_ENVIRONMENT}/test_{name}.py" for name in ("machine", "device_state", "revision", "worktree")),
    "tests/unit/history/test_unfinished_runs.py",
    *(f"{_MEASURE}/test_{name}.py" for name in ("latency_figures", "lock", "outputs", "pages", "resources")),
    *(f"{_MEASURE}/test_{name}.py" for name in ("timing", "timing_process", "workers")),
    *("tests/unit/sides", "tests/unit/test_files.py", _HOST, "tests/unit/test_host_machine.py"),
)

NO_PAGES = "pages of 2 MB are of Linux"
LOADED = "what emulates the system has loaded libraries before"
PEAK = "a peak below that of an earlier test is not seen there"
NO_OWNERS = "files have no owners and no rights for others there; the folder of the user's profile has"
TAKEN = "it takes away from Linux what is not there"
HELD = "a cache cannot be removed while a process holds a lock in it"

_EVERYWHERE = {
    f"{_HOST}::test_asking_for_a_system_loads_nothing": LOADED,
    f"{_MEASURE}/test_pages.py::test_memory_that_is_used_is_moved_and_keeps_its_contents": NO_PAGES,
    f"{_MEASURE}/test_resources.py::test_the_peak_counts_memory_that_was_given_back": PEAK,
}
SKIPPED = {
    "darwin": _EVERYWHERE,
    "windows": {
        **_EVERYWHERE,
        f"{_CACHE}/test_cache.py::test_a_folder_of_another_user_is_refused": NO_OWNERS,
        f"{_CACHE}/test_cache.py::test_a_folder_that_others_may_write_to_is_refused": NO_OWNERS,
        f"{_CACHE}/test_lost_places.py::test_what_was_removed_during_a_build_is_built_again_once": HELD,
        f"{_HOST}::test_a_folder_is_held_once[of the folder]": TAKEN,
        f"{_HOST}::test_a_new_name_waits_for_a_scanner": TAKEN,
        f"{_HOST}::test_files_are_flushed_by_who_may_write_where_folders_cannot_be": TAKEN,
        f"{_HOST}::test_owners_and_rights_count_where_files_have_them": TAKEN,
        f"{_HOST}::test_the_common_folder_is_one_for_all_logins": TAKEN,
        f"{_MEASURE}/test_lock.py::test_a_folder_that_another_user_may_have_made_is_refused": NO_OWNERS,
        f"{_MEASURE}/test_lock.py::test_others_are_kept_from_the_folder": NO_OWNERS,
        "tests/unit/test_files.py::test_a_folder_is_own_where_nobody_else_can_put_files_into_it": NO_OWNERS,
    },
}
"""Tests that are left out on a system, with the reason."""


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_touches_the_system_works_there(system: str, tmp_path: Path) -> None:
    """All tests of it but those that say what Linux alone has."""
    left_out = [word for test in SKIPPED[system] for word in ("--deselect", test)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *ROOMS, *left_out],
        cwd=ROOT,
        env=variables(system, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout
    count = re.search(r"(\d+) deselected", done.stdout)
    assert count is not None
    assert int(count[1]) >= len(SKIPPED[system]), "a test that is named here is gone"
