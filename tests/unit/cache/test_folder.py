"""A cache folder is trusted as code is: one that others own or may write to is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pytest_quant.cache import Cache
from pytest_quant.errors import CacheError
from tests.unit.cache.conftest import Builder, never


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777], ids=oct)
def test_a_folder_that_others_may_write_to_is_refused(root: Path, mode: int) -> None:
    """With the command that mends it, and used again after that."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    root.chmod(mode)
    with pytest.raises(CacheError) as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert f"chmod go-w {root}" in str(caught.value)
    assert "--quant-cache DIR" in str(caught.value)
    root.chmod(mode & ~0o022)
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    """Though nobody but that user can write to it; root's own folder is root's."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    os.chown(root, 65534, 65534)
    with pytest.raises(CacheError, match="belongs to another user") as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert caught.value.value == "user 65534"


def test_a_new_folder_is_one_that_is_not_refused(tmp_path: Path) -> None:
    """Also for users whose mask leaves what they make to their group, as it is on many systems."""
    root = tmp_path / "cache"
    before = os.umask(0o002)
    try:
        Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    finally:
        os.umask(before)
    created = [root, root / "engine", root / ".locks", *root.glob("engine/*")]
    assert [stat.S_IMODE(folder.stat().st_mode) & 0o022 for folder in created] == [0, 0, 0, 0]
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"
