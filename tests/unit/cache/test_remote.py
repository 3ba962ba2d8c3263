"""The shared cache: what one machine made others read, and a store that breaks costs a note and never an entry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, JsonScalar
from pytest_quant.cache import remote as module
from pytest_quant.cache.remote import Remote, Traffic, is_worth_sharing
from tests.support.object_store import BUCKET, FAULTS, Fault, Store, our_store, s3_environment
from tests.unit.cache.conftest import CONTENT, Builder, never, temporary_names

MODEL = {"model": "sha256:1", "instruction set": "avx2"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store of ours, which S3 clients of this process find; it is given up after two seconds."""
    monkeypatch.setattr(module, "STALL_S", 2.0)
    monkeypatch.setattr(module, "END_S", 2.0)
    with our_store() as (store, address):
        for name, value in s3_environment(address).items():
            monkeypatch.setenv(name, value)
        yield store


@pytest.fixture
def machine(store: Store, tmp_path: Path) -> Iterator[Callable[[str], tuple[Cache, Remote]]]:
    """Makes machines: each has a folder of its own, and shares the store."""
    remotes = []

    def make(name: str) -> tuple[Cache, Remote]:
        remotes.append(Remote(f"s3://{BUCKET}/main"))
        return Cache(tmp_path / name, remote=remotes[-1]), remotes[-1]

    yield make
    for remote in remotes:
        remote.finish()


Machines = Callable[[str], tuple[Cache, Remote]]


def fill(machine: Machines) -> None:
    """Let a machine build the entry and upload it."""
    cache, remote = machine("first")
    assert cache.obtain("engine", "an engine", MODEL, Builder()).status == "built"
    assert remote.finish().written == 1


def replace_object(store: Store, change: Callable[[bytes], bytes]) -> None:
    """Put other bytes in the place of the only object."""
    (path,) = store.objects
    store.objects[path] = change(store.objects[path])


def test_an_entry_of_another_machine_is_a_hit(machine: Machines, store: Store) -> None:
    """It has the files and the facts of the machine that built it, and is here from then on."""
    fill(machine)
    cache, remote = machine("second")
    entry = cache.obtain("engine", "an engine", MODEL, never)
    assert (entry.status, entry.reason, entry.facts["build_s"]) == ("hit", "", 1.25)
    assert (entry.folder / "model.onnx").read_bytes() == CONTENT
    assert (entry.folder / "external" / "data.bin").read_bytes() == CONTENT[::-1]
    store.asked.clear()
    assert cache.obtain("engine", "an engine", MODEL, never).status == "hit"
    assert store.asked == []
    assert (remote.finish().read, temporary_names(cache.root)) == (1, [])


def test_an_object_is_named_by_kind_and_key(machine: Machines, store: Store) -> None:
    """Below the prefix of the URL."""
    fill(machine)
    key = Cache.obtain(machine("other")[0], "engine", "an engine", MODEL, never).key
    assert list(store.objects) == [f"/{BUCKET}/main/engine/{key}"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_breaks_costs_a_note(machine: Machines, store: Store, fault: Fault) -> None:
    """The entries are built here, and a store that failed once is asked no more."""
    fill(machine)
    store.fault = fault
    store.asked.clear()
    cache, remote = machine("second")
    for name in ("sha256:1", "sha256:2", "sha256:3"):
        entry = cache.obtain("engine", "an engine", MODEL | {"model": name}, Builder())
        assert (entry.status, (entry.folder / "model.onnx").read_bytes()) == ("built", CONTENT)
    assert temporary_names(cache.root) == []
    notes = remote.finish().notes
    assert len(notes) == 1
    if fault == "gives other bytes":
        assert "is not used" in notes[0]
    else:
        assert notes[0].startswith("off in this run: ")
        assert {path for _, path in store.asked} == {store.asked[0][1]}


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_a_cut_object_is_never_used(machine: Machines, store: Store, share: float) -> None:
    """Wherever the upload ended; the entry is built, and takes the place of what was cut."""
    fill(machine)
    whole = next(iter(store.objects.values()))
    replace_object(store, lambda body: body[: int(share * len(body))])
    cache, remote = machine("second")
    assert cache.obtain("engine", "an engine", MODEL, Builder()).status == "built"
    assert len(remote.finish().notes) == 1
    assert len(next(iter(store.objects.values()))) == len(whole)
    assert machine("third")[0].obtain("engine", "an engine", MODEL, never).status == "hit"


def test_an_object_larger_than_the_cache_is_not_read(machine: Machines, store: Store, tmp_path: Path) -> None:
    """Its size is known before its bytes."""
    fill(machine)
    remote = Remote(f"s3://{BUCKET}/main")
    cache = Cache(tmp_path / "small", max_bytes=1000, remote=remote)
    assert cache.obtain("engine", "an engine", MODEL, Builder()).status == "built"
    assert "do not fit" in remote.finish().notes[0]


def test_where_writing_is_refused_the_store_is_read(machine: Machines, store: Store) -> None:
    """A refused upload is one note and no further one, and what is there is still read."""
    fill(machine)
    store.refuses_writes = True
    store.asked.clear()
    cache, remote = machine("second")
    for name in ("sha256:2", "sha256:3", "sha256:4"):
        cache.obtain("engine", "an engine", MODEL | {"model": name}, Builder())
        remote._wait(remote._drain(5.0))
    assert cache.obtain("engine", "an engine", MODEL, never).status == "hit"
    (note,) = remote.finish().notes
    assert note.startswith("nothing more was written: the store refuses it")
    assert [method for method, _ in store.asked].count("PUT") == 1


def test_what_is_not_to_be_shared_is_neither_read_nor_written(machine: Machines, store: Store) -> None:
    """An entry that others could not use stays here."""
    cache, remote = machine("first")
    assert cache.obtain("engine", "an engine", MODEL, Builder(), shared=False).status == "built"
    assert (remote.finish(), store.asked) == (Traffic(), [])


@pytest.mark.parametrize(
    ("size_bytes", "made_s", "shared"),
    [(1_000_000, 0.0, True), (1_000_001, 0.0, False), (51_000_000, 1.0, True), (51_000_001, 1.0, False)],
)
def test_what_loads_slower_than_it_is_made_is_not_shared(size_bytes: int, made_s: float, shared: bool) -> None:
    """Up to 1 MB always, beyond that 50 MB for each second that making took."""
    assert is_worth_sharing(size_bytes, made_s) is shared


def test_a_large_entry_that_is_made_fast_stays_here(
    machine: Machines, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule is that of `is_worth_sharing`."""
    monkeypatch.setattr(module, "RATE", 1.0)
    cache, remote = machine("first")
    cache.obtain("engine", "an engine", MODEL, Builder(content=bytes(1_000_000)))
    remote.finish()
    assert [method for method, _ in store.asked] == ["GET"]


def test_nothing_is_uploaded_while_time_is_measured(machine: Machines, store: Store) -> None:
    """Uploads wait for the end of the block."""
    cache, remote = machine("first")
    with cache.quiet():
        cache.obtain("engine", "an engine", MODEL, Builder())
        remote._wait(remote._drain(0.3))
        assert [method for method, _ in store.asked] == ["GET"]
    cache.obtain("engine", "an engine", MODEL | {"model": "sha256:2"}, Builder())
    assert remote.finish().written == 1


def test_workers_of_one_run_learn_of_a_broken_store(store: Store, tmp_path: Path) -> None:
    """The second process of the run does not ask a store that failed the first."""
    store.fault = "answers 500"
    off = tmp_path / "run.off"
    first, second = (Remote(f"s3://{BUCKET}/main", off) for _ in range(2))
    assert not first.fetch(Path("engine/1"), tmp_path, 1000)
    store.asked.clear()
    assert not second.fetch(Path("engine/1"), tmp_path, 1000)
    assert (store.asked, len(first.finish().notes), second.finish().notes) == ([], 1, ())


def test_a_store_without_use_is_given_up(
    machine: Machines, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not costs time too, and no run loses more than some seconds so; it is still written to."""
    monkeypatch.setattr(module, "LOST_S", 0.0)
    remote = Remote(f"s3://{BUCKET}/main")
    cache = Cache(tmp_path / "first", remote=remote)
    for name in ("sha256:1", "sha256:2"):
        cache.obtain("engine", "an engine", MODEL | {"model": name}, Builder())
    traffic = remote.finish()
    assert [method for method, _ in store.asked].count("GET") == 1
    assert (traffic.written, len(traffic.notes)) == (2, 1)


def test_a_bucket_that_is_not_there_is_a_note(machine: Machines, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers 404 to reading and writing."""
    monkeypatch.setattr("tests.support.object_store._Handler.do_PUT", lambda handler: handler._answer(404))
    cache, remote = machine("first")
    cache.obtain("engine", "an engine", MODEL, Builder())
    assert remote.finish().notes == ("nothing more was written: there is no such bucket",)


def test_an_entry_that_is_cleared_during_its_upload_is_no_failure(machine: Machines, store: Store) -> None:
    """It is not uploaded, and others are."""
    cache, remote = machine("first")
    with cache.quiet():
        cache.obtain("engine", "an engine", MODEL, Builder())
        cache.clear()
        cache.obtain("engine", "an engine", MODEL | {"model": "sha256:2"}, Builder())
    traffic = remote.finish()
    assert (traffic.written, traffic.notes) == (1, ())


def test_a_folder_is_a_store(tmp_path: Path) -> None:
    """``file://`` makes it, and another cache reads it."""
    url = (tmp_path / "shared disk" / "engines").as_uri()
    first, second = Remote(url.replace("%20", " ")), Remote(url)
    Cache(tmp_path / "one", remote=first).obtain("engine", "an engine", MODEL, Builder())
    assert first.finish().written == 1
    assert Cache(tmp_path / "two", remote=second).obtain("engine", "an engine", MODEL, never).status == "hit"
    assert second.finish().read == 1


def test_what_a_builder_raises_passes_through(machine: Machines, store: Store) -> None:
    """Nothing is uploaded of what was not built."""

    def broken(_: Path) -> dict[str, JsonScalar]:
        raise RuntimeError("no kernel")

    cache, remote = machine("first")
    with pytest.raises(RuntimeError, match="no kernel"):
        cache.obtain("engine", "an engine", MODEL, broken)
    assert (remote.finish().written, store.objects) == (0, {})


def test_the_thread_ends_with_the_run(machine: Machines) -> None:
    """No thread is left of a session that has ended."""
    _, remote = machine("first")
    remote.finish()
    assert "quant-remote" not in {thread.name for thread in threading.enumerate()}


def test_the_line_of_the_summary() -> None:
    """Entries, megabytes and seconds of all processes together; what several noted is said once."""
    worker = Traffic(2, 1_500_000, 3.0, 1, 20_000, ("off",))
    assert str(worker + worker) == ("shared cache: 4 entries (3.00 MB) read, 6.0 s saved, 2 (0.04 MB) written; off")
