"""Entries count that this user built, in a folder of their own; those of others only where the settings trust them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, Entry
from pytest_quant.cache.manifest import canonical_json
from pytest_quant.cache.trust import KEY_VARIABLE, is_below, key_path, own_key
from pytest_quant.errors import CacheError
from tests.unit.cache.conftest import CONTENT, Builder, never

posix = pytest.mark.skipif(os.name == "nt", reason="modes and owners are those of POSIX")
as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a folder away")


def _rewrite(entry: Entry, **changed: object) -> None:
    """Do what whoever can write to the folder can: change the manifest, and make its checksum fit again."""
    file = entry.folder.parent / "manifest.json"
    body = json.loads(file.read_text()) | changed
    kept = {name: body.pop(name) for name in ("checksum", "signature") if name in body}
    kept["checksum"] = hashlib.sha256(canonical_json(body)).hexdigest()
    file.write_text(json.dumps({**body, **kept}))


def _poison(entry: Entry) -> None:
    content = b"what somebody else would like to run"
    (entry.folder / "model.onnx").write_bytes(content)
    files = json.loads((entry.folder.parent / "manifest.json").read_text())["files"]
    files["model.onnx"] = {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    _rewrite(entry, files=files)


def _unsign(entry: Entry) -> None:
    """Make the manifest one as earlier versions wrote it."""
    file = entry.folder.parent / "manifest.json"
    document = json.loads(file.read_text())
    document.pop("signature", None)
    file.write_text(json.dumps(document))


@pytest.fixture
def poisoned(root: Path) -> Path:
    """A cache whose one entry somebody changed, with checksums that fit."""
    _poison(Cache(root).obtain("engine", "s", {"v": "1"}, Builder()))
    return root


def test_an_entry_that_somebody_changed_is_built_again(poisoned: Path, said: list[str]) -> None:
    """Though every checksum fits: whoever changes the file can count those anew, and cannot sign."""
    again = Cache(poisoned, notify=said.append).obtain("engine", "s", {"v": "1"}, Builder())
    assert again.status == "built"
    assert again.reason == (
        "cache entry not taken (manifest.json: signed with another key, so others may have written it)"
    )
    assert (again.folder / "model.onnx").read_bytes() == CONTENT
    assert Cache(poisoned).obtain("engine", "s", {"v": "1"}, never).status == "hit"


def test_entries_of_earlier_versions_are_built_again_and_it_is_said_once(root: Path, said: list[str]) -> None:
    """They are not signed, so nobody can tell who wrote them."""
    first = Cache(root)
    for value in "12":
        _unsign(first.obtain("engine", "s", {"v": value}, Builder()))
    cache = Cache(root, notify=said.append)
    found = [cache.obtain("engine", "s", {"v": value}, Builder()) for value in "12"]
    assert [entry.status for entry in found] == ["built", "built"]
    assert {entry.reason for entry in found} == {
        "cache entry not taken (manifest.json: not signed, so others may have written it)"
    }
    (line,) = said
    assert str(root) in line
    assert "quant_cache_trust" in line


def test_trusted_folders_hold_entries_of_others(poisoned: Path) -> None:
    """A line in the settings takes them as they are, for the folder itself and for one above it."""
    for folder in (poisoned, poisoned.parent):
        cache = Cache(poisoned, trusted=[folder])
        assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"


def test_trust_is_of_folders_and_not_of_names_that_begin_alike(tmp_path: Path) -> None:
    """``cache-of-others`` is not below ``cache``; a link is where it leads to."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "cache" / "link").symlink_to(tmp_path / "others")
    assert is_below(tmp_path / "cache" / "x", [tmp_path / "cache"])
    assert not is_below(tmp_path / "cache-of-others", [tmp_path / "cache"])
    assert not is_below(tmp_path / "cache" / "link", [tmp_path / "cache"])


def test_a_damaged_entry_is_not_used_where_it_is_trusted(root: Path) -> None:
    """Trust is in who wrote it, not in the disk."""
    first = Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    (first.folder / "model.onnx").write_bytes(b"short")
    assert Cache(root, trusted=[root]).obtain("engine", "s", {"v": "1"}, Builder()).status == "built"


@posix
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777], ids=oct)
def test_a_folder_that_others_may_write_to_is_refused(root: Path, mode: int) -> None:
    """With the command that mends it, and used again after that, or where the settings trust it."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    root.chmod(mode)
    with pytest.raises(CacheError) as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert f"chmod go-w {root}" in str(caught.value)
    assert "--quant-cache DIR" in str(caught.value)
    assert "quant_cache_trust" in str(caught.value)
    assert Cache(root, trusted=[root]).obtain("engine", "s", {"v": "1"}, never).status == "hit"
    root.chmod(mode & ~0o022)
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


@as_root
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    """Though nobody but that user can write to it; root's own folder is root's."""
    Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    os.chown(root, 65534, 65534)
    with pytest.raises(CacheError, match="belongs to another user") as caught:
        Cache(root).obtain("engine", "s", {"v": "1"}, never)
    assert caught.value.value == "user 65534"
    assert Cache(root, trusted=[root]).obtain("engine", "s", {"v": "1"}, never).status == "hit"


@posix
def test_a_new_folder_is_one_that_is_not_refused(tmp_path: Path) -> None:
    """Also for users whose mask leaves what they make to their group, as it is on many systems."""
    root = tmp_path / "cache"
    before = os.umask(0o002)
    try:
        Cache(root).obtain("engine", "s", {"v": "1"}, Builder())
    finally:
        os.umask(before)
    made = [root, root / "engine", *root.glob("engine/*")]
    assert [stat.S_IMODE(folder.stat().st_mode) & 0o022 for folder in made] == [0, 0, 0]
    assert Cache(root).obtain("engine", "s", {"v": "1"}, never).status == "hit"


def test_the_key_lies_outside_of_caches_where_states_of_users_are(tmp_path: Path) -> None:
    """The environment variable comes first, then the folder that the XDG standard names."""
    assert key_path({KEY_VARIABLE: str(tmp_path / "ci"), "XDG_STATE_HOME": "/x"}) == tmp_path / "ci"
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert key_path({"XDG_STATE_HOME": "/state"}) == Path("/state/pytest-quant/cache-key")
        for relative in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "state"}):
            assert key_path(relative) == Path.home() / ".local" / "state" / "pytest-quant" / "cache-key"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the key of a user who has none yet, in a home of their own."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    return key_path(os.environ)


@posix
def test_the_key_is_made_for_this_user_alone(home: Path) -> None:
    """32 random bytes that nobody else may read, in a folder that nobody else may enter; made once."""
    key = own_key()
    assert len(key) == 32
    assert home.read_bytes() == key == own_key()
    assert stat.S_IMODE(home.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert [path.name for path in home.parent.iterdir()] == [home.name]


@posix
def test_a_key_that_others_may_read_is_refused(home: Path) -> None:
    """Whoever reads it can sign."""
    home.parent.mkdir(parents=True)
    home.write_bytes(bytes(32))
    home.chmod(0o644)
    with pytest.raises(CacheError, match="not this user's alone"):
        own_key()


def test_processes_that_need_the_first_key_at_once_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what one of them signed would be built again by the others."""
    file = tmp_path / "key"
    monkeypatch.setenv(KEY_VARIABLE, str(file))
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: own_key(), range(8)))
    assert keys == {file.read_bytes()}
    assert list(tmp_path.iterdir()) == [file]


def test_a_damaged_key_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one would sign as anybody can."""
    (tmp_path / "key").touch()
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    with pytest.raises(CacheError, match="damaged") as caught:
        own_key()
    assert f"{tmp_path / 'key'} has 0 bytes" in str(caught.value)


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize("has_home", [True, False])
def test_without_a_place_for_a_key_nothing_is_kept(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], has_home: bool
) -> None:
    """A home that is not there, or cannot be written, is told, and the engines of this run are built for it alone."""
    (tmp_path / "file").touch()
    if has_home:
        monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "file" / "key"))
    else:
        monkeypatch.delenv(KEY_VARIABLE, raising=False)
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", _homeless)
    cache = Cache(root, notify=said.append)
    entry = cache.obtain("engine", "s", {"v": "1"}, Builder())
    assert entry.status == "built"
    assert cache.obtain("engine", "s", {"v": "1"}, never).status == "hit"
    assert not list(root.glob("engine/*"))
    (line,) = said
    assert KEY_VARIABLE in line
