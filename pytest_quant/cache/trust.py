"""Who may have written the entries of a cache: this user, or whoever the settings trust.

Engines are programs, and who can write an entry can choose what runs. So the folder must be the user's own, and each
entry is signed with a key that is kept outside of it; both rules are off below the folders that the settings name.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import shlex
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pytest_quant.bounded import read_file
from pytest_quant.errors import CacheError

KEY_VARIABLE = "PYTEST_QUANT_CACHE_KEY"
"""Environment variable that names another file for the key that signs cached engines, where homes are not kept."""

_KEY_BYTES = 32
_MOST_BYTES = 4096


def key_path(environ: Mapping[str, str]) -> Path:
    """Return the file of the key: that of the environment variable, else one in the user's folder of state."""
    if named := environ.get(KEY_VARIABLE):
        return Path(named).expanduser().absolute()
    if sys.platform == "win32":
        folder = Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        # The standard has it that a relative path counts as none.
        asked = Path(environ.get("XDG_STATE_HOME", ""))
        folder = asked if asked.is_absolute() else Path.home() / ".local" / "state"
    return folder / "pytest-quant" / "cache-key"


def own_key() -> bytes:
    """Return the key of this user, which is made when it is first needed.

    Raises
    ------
    OSError : its file cannot be read or made.
    CacheError : the file has other contents, or others may read or change it.
    """
    return _key_of(_path())


def sign(key: bytes, body: bytes) -> str:
    """Return the HMAC-SHA256 of `body` in hex."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def is_signed(key: bytes, body: bytes, signature: str) -> bool:
    """Whether `signature` is the one of `body`.

    Parameters
    ----------
    key : of the user who signed.
    body : what was signed.
    signature : as `sign` returns it, or any other text.
    """
    return hmac.compare_digest(signature.encode("utf-8", "backslashreplace"), sign(key, body).encode())


def is_below(folder: Path, trusted: Iterable[Path]) -> bool:
    """Whether `folder` is one of the `trusted` ones or lies in one."""
    resolved = folder.resolve()
    return any(resolved.is_relative_to(one.resolve()) for one in trusted)


def refuse_others_folder(root: Path) -> None:
    """Raise `CacheError` for a cache that somebody else owns or may write to; one that does not exist is no one's."""
    if os.name == "nt":
        return
    try:
        found = root.stat()
    except OSError:
        return
    mode = stat.S_IMODE(found.st_mode)
    trusting = "where you trust all who may write to it, name it in the ini option quant_cache_trust: a cache is code"
    if found.st_uid != os.geteuid():
        raise CacheError(
            f"the cache {root} belongs to another user, who may have put any code into it",
            value=f"user {found.st_uid}",
            allowed=f"user {os.geteuid()}",
            fix=f"name a folder of your own with --quant-cache DIR; {trusting}",
        )
    if mode & 0o022:
        raise CacheError(
            f"the cache {root} may be written to by others, who may have put any code into it",
            value=f"mode {mode:04o}",
            allowed="a folder that neither its group nor others may write to",
            fix=f"chmod go-w {shlex.quote(str(root))}, or name another with --quant-cache DIR; {trusting}",
        )


def _path() -> Path:
    try:
        return key_path(os.environ)
    except RuntimeError as error:
        # A user without a home, which containers have.
        what = f"there is no place for the key that signs its entries: {error}"
        raise FileNotFoundError(errno.ENOENT, f"{what} ${KEY_VARIABLE} may name a file") from error


@lru_cache(maxsize=8)
def _key_of(path: Path) -> bytes:
    try:
        if not path.exists():
            _create(path)
        _refuse_shared(path)
        key = read_file(path, _MOST_BYTES)
    except OSError as error:
        what = f"the key {path} that signs its entries cannot be read or made: {error.strerror or error}"
        raise OSError(error.errno, f"{what}; ${KEY_VARIABLE} may name another file") from error
    if len(key) < _KEY_BYTES:
        raise CacheError(
            "the key that signs cache entries is damaged",
            value=f"{path} has {len(key)} bytes",
            allowed=f"at least {_KEY_BYTES} random bytes",
            fix="remove the file: a new one is made, and entries are built anew",
        )
    return key


def _create(path: Path) -> None:
    """Make a key, whole or not at all; where two processes make one at once, both find the same."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(_KEY_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        # A link, since a rename would replace the key of a faster process, which has signed with it by now.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _refuse_shared(path: Path) -> None:
    """Raise for a key of the default place that others may read; a named one may lie where CI keeps its secrets."""
    if os.name == "nt" or os.environ.get(KEY_VARIABLE):
        return
    found = path.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise CacheError(
            "the key that signs cache entries is not this user's alone",
            value=f"{path} of user {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}",
            allowed=f"user {os.geteuid()}, mode 0600",
            fix=f"remove the file: a new one is made, and entries are built anew; or name another in ${KEY_VARIABLE}",
        )
