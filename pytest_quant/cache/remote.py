"""The shared cache: what one machine has made, others of its kind read from object storage.

obstore, not fsspec, because one wheel without an event loop's dependencies speaks to every store, and its retries and
time-outs can be bounded.

An object ``<prefix>/<kind>/<key>`` is the SHA-256 of a tar of the entry in hex, the seconds that making the entry took,
and the tar. What was cut or is of other bytes has another digest, and is not used. A store
costs a run some seconds at most and never a verdict: what it does not do in time, or refuses, is not asked of it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import os
import tarfile
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from pytest_quant.cache.entry import FILES, MANIFEST, read_manifest
from pytest_quant.clocks import REAL

STALL_S = 4.0
"""Longest wait for an answer, and for each further part of it."""

LOST_S = 4.0
"""What answers that brought nothing may take in one process, before nothing more is read."""

END_S = 4.0
"""Wait for uploads at the end of a run, beyond the time that they need at `RATE`."""

RATE = 50e6
"""Bytes that a store gives in a second, as far as nobody has measured it."""

SMALL_BYTES = 1_000_000

_PART_BYTES = 5 * 2**20
_DIGEST_BYTES = 64
_HEAD_BYTES = _DIGEST_BYTES + 16

_MOST_MEMBERS = 2_000
"""Files and folders of one object: entries have some, and to make a hundred thousand takes minutes."""

_FAILURES = (BaseError, OSError, NotImplementedError)
"""What obstore raises, and the disk; a time-out is an `OSError`. A `ValueError` is about what has arrived."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a process had from the shared cache; `saved_s` is making without loading, in seconds."""

    read: int = 0
    read_bytes: int = 0
    saved_s: float = 0.0
    written: int = 0
    written_bytes: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: Traffic) -> Traffic:
        """Return both together."""
        return Traffic(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        """One line for the summary of a run, equal notes once."""
        read = f"{self.read} entries ({self.read_bytes / 1e6:.2f} MB) read, {self.saved_s:.1f} s saved"
        written = f"{self.written} ({self.written_bytes / 1e6:.2f} MB) written"
        return "; ".join((f"shared cache: {read}, {written}", *dict.fromkeys(self.notes)))


def is_worth_sharing(size_bytes: int, made_s: float) -> bool:
    """Whether loading an entry takes less time than making it, by the only rule for that; what is small always does."""
    return size_bytes <= SMALL_BYTES + made_s * RATE


class Remote:
    """Object storage behind the folder of a `Cache`.

    Parameters
    ----------
    url : ``s3:// gs:// az:// https:// file://`` with bucket and prefix. Credentials are those of the environment.
    off : a file whose presence tells the other processes of this run that the store failed one of them.
    """

    def __init__(self, url: str, off: Path | None = None) -> None:
        self._url = url
        self._off = off
        self._is_read = self._is_written = True
        self._lost_s = 0.0
        self._traffic = Traffic()
        self._queued_bytes = 0
        self._adding = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._turn, self._may_send = asyncio.Semaphore(2), asyncio.Event()
        self._may_send.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="quant-remote", daemon=True)
        self._thread.start()
        try:
            self._store: Any = _open(url)
        except _FAILURES as error:
            self._stop(error)

    def fetch(self, entry: Path, folder: Path, most_bytes: int) -> bool:
        """Extract the object of an entry into an empty folder, and return whether that could be done.

        What arrives is not known to be the entry yet: its manifest is to be verified.

        Parameters
        ----------
        entry : ``<root>/<kind>/<key>``, of which kind and key count.
        folder : to extract into.
        most_bytes : bound on the size of the object.
        """
        if self._off is not None and self._off.exists():
            self._is_read = self._is_written = False
        if not self._is_read:
            return False
        began_s, gained_s = REAL.perf_counter(), 0.0
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                made_s = self._wait(self._download(_name(entry), file, most_bytes))
                size_bytes = file.tell()
                _extract(file, folder, entry, most_bytes)
                gained_s = made_s
        except FileNotFoundError:
            pass  # others have not made it either
        except (ValueError, tarfile.TarError) as error:
            self._note(f"{_name(entry)[:20]}.. is not used: {error}")
        except _FAILURES as error:
            self._stop(error)
        took_s = REAL.perf_counter() - began_s
        if gained_s:
            self._add(Traffic(1, size_bytes, gained_s - took_s))
        self._lost_s += max(0.0, took_s - gained_s)
        if self._is_read and self._lost_s > LOST_S:
            self._is_read = False
            self._note(f"nothing more was read, for it was slow ({self._lost_s:.1f} s without use)")
        return gained_s > 0.0

    async def _download(self, name: str, file: IO[bytes], most_bytes: int) -> float:
        """Write an object to `file`, and return the seconds that making its entry took, as it says."""
        async with asyncio.timeout(STALL_S) as bound:
            found = await obstore.get_async(self._store, name)
            if found.meta["size"] > most_bytes:
                raise ValueError(f"{found.meta['size']} bytes do not fit into the cache")
            made_s, began_s = 0.0, self._loop.time()
            async for part in found.stream(min_chunk_size=_PART_BYTES):
                made_s = made_s or float(bytes(part[_DIGEST_BYTES:_HEAD_BYTES]))
                if not 0.0 < made_s < math.inf:
                    raise ValueError(f"its entry was made in {made_s} s")
                file.write(part)
                # What takes longer than making it is not worth the wait.
                bound.reschedule(min(self._loop.time() + STALL_S, began_s + made_s + LOST_S))
        return made_s

    def send(self, entry: Path, made_s: float) -> None:
        """Upload the entry in a folder in the background if that is worth it; making it took `made_s` seconds."""
        size_bytes = sum(path.stat().st_size for path in (entry / FILES).rglob("*") if path.is_file())
        if self._is_written and is_worth_sharing(size_bytes, made_s):
            self._queued_bytes += size_bytes
            asyncio.run_coroutine_threadsafe(self._upload(entry, max(made_s, 0.001)), self._loop)

    async def _upload(self, entry: Path, made_s: float) -> None:
        async with self._turn:
            await self._may_send.wait()
            if not self._is_written:
                return
            try:
                # Beside the entry, on the disk that had room for it.
                with tempfile.TemporaryFile(dir=entry.parent) as file:
                    size_bytes = await asyncio.to_thread(_pack, file, entry, made_s)
                    # HTTP knows no parts.
                    in_parts = size_bytes > _PART_BYTES and not self._url.startswith("http")
                    await obstore.put_async(self._store, _name(entry), self._parts(file), use_multipart=in_parts)
            except FileNotFoundError:
                # Of the entry itself, where somebody has removed it meanwhile.
                if entry.exists():
                    self._stop_writing("there is no such bucket")
            except (*_FAILURES, ValueError) as error:
                self._stop_writing(_words(error))
            else:
                self._add(Traffic(written=1, written_bytes=size_bytes))

    async def _parts(self, file: IO[bytes]) -> AsyncIterator[bytes]:
        while part := file.read(_PART_BYTES):
            await self._may_send.wait()
            yield part

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Let uploads wait while the block measures time."""
        self._loop.call_soon_threadsafe(self._may_send.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._may_send.set)

    def finish(self) -> Traffic:
        """Wait a bounded time for uploads, end, and return what this process had from the store."""
        if self._thread.is_alive():
            wait_s = END_S + (self._queued_bytes - self._traffic.written_bytes) / RATE if self._is_written else 0.0
            late = self._wait(self._drain(wait_s))
            if late and self._is_written:
                self._note(f"{late} entries were not written within {wait_s:.0f} s")
            self._is_read = self._is_written = False
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STALL_S)
        return self._traffic

    async def _drain(self, wait_s: float) -> int:
        uploads = asyncio.all_tasks() - {asyncio.current_task()}
        late = (await asyncio.wait(uploads, timeout=wait_s))[1] if uploads else ()
        for task in late:
            task.cancel()
        await asyncio.gather(*uploads, return_exceptions=True)
        return len(late)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self, error: Exception) -> None:
        """Use the store no more."""
        self._is_read = self._is_written = False
        self._note(f"off in this run: {_words(error)}")
        if self._off is not None:
            with suppress(OSError):
                self._off.touch()

    def _stop_writing(self, why: str) -> None:
        if self._is_written:
            self._is_written = False
            self._note(f"nothing more was written: {why}")

    def _note(self, text: str) -> None:
        self._add(Traffic(notes=(text,)))

    def _add(self, traffic: Traffic) -> None:
        with self._adding:
            self._traffic += traffic


def _open(url: str) -> Any:
    if not hasattr(tarfile, "data_filter"):
        raise NotImplementedError("this version of Python cannot extract safely; 3.11.4 can")
    if url.startswith("file:"):
        return from_url(url, mkdir=True)
    plain = {os.environ.get(f"{cloud}_ALLOW_HTTP", "").lower() for cloud in ("AWS", "AZURE")}
    stall = timedelta(seconds=STALL_S)
    # They replace those of the environment. The time-out is of a whole object, whose parts are bounded.
    options: Any = {"connect_timeout": stall, "timeout": "1h", "allow_http": bool(plain & {"1", "true"})}
    return from_url(url, client_options=options, retry_config={"max_retries": 1, "retry_timeout": stall})


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {STALL_S:g} s"
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return "the store refuses it; a role that reads has to be allowed to list the bucket too"
    return str(error).partition("\n")[0].rpartition(" - ")[2][:200]


def _name(entry: Path) -> str:
    return f"{entry.parent.name}/{entry.name}"


def _pack(file: IO[bytes], entry: Path, made_s: float) -> int:
    """Write the object of `entry`, and return its size; `file` is at its beginning, before and after."""
    file.write(bytes(_HEAD_BYTES))
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in (MANIFEST, FILES):
            tar.add(entry / name, name)
    size_bytes, digest = file.tell(), _digest(file)
    file.seek(0)
    file.write(f"{digest}{made_s:015.3f}\n".encode())
    file.seek(0)
    return size_bytes


def _extract(file: IO[bytes], folder: Path, entry: Path, most_bytes: int) -> None:
    """Extract the manifest of an object, which is its first member, and the files that it names, all below `folder`.

    Parameters
    ----------
    file : the object.
    folder, entry, most_bytes : as in `Remote.fetch`; `most_bytes` also bounds what is extracted.

    Raises
    ------
    ValueError, DamagedEntryError : its digest is wrong, it holds anything else, or more than an entry has.
    """
    file.seek(0)
    if file.read(_DIGEST_BYTES) != _digest(file).encode():
        raise ValueError("it was cut or changed")
    file.seek(_HEAD_BYTES)
    with tarfile.open(fileobj=file, mode="r:") as tar:
        members = list(itertools.islice(tar, _MOST_MEMBERS))
        begins = members[:1] and members[0].name == MANIFEST and members[0].isreg() and members[0].size <= SMALL_BYTES
        if not begins or len(members) == _MOST_MEMBERS:
            raise ValueError("it does not begin with a manifest, or has too many files")
        tar.extract(members[0], folder, filter="data")
        sizes = {f"{FILES}/{name}": size for name, size in read_manifest(folder, entry).files.items()}
        found = [(each.name, each.size if each.isreg() else -1) for each in members[1:] if not each.isdir()]
        if sorted(found) != sorted(sizes.items()) or sum(sizes.values()) > most_bytes:
            raise ValueError("it does not hold the files that its manifest names")
        tar.extractall(folder, members, filter="data")


def _digest(file: IO[bytes]) -> str:
    file.seek(_HEAD_BYTES)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
