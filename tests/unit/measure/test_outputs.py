"""Outputs of an engine over the data: in the order of the set, in chunks of bounded size, and kept in the cache."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.cache import Cache, Entry
from pytest_quant.data import Data, open_data
from pytest_quant.measure import batching
from pytest_quant.measure import outputs as streams
from pytest_quant.measure.batching import OpenEngine, RangeRunner, find_batching
from pytest_quant.measure.outputs import Chunk, pair_outputs, read_outputs, record_outputs, run_over
from pytest_quant.spec import Dataset, Model, Signature
from tests.support.measuring import built_of, leading
from tests.unit.measure.played import Played, data_of, inputs, numbers, played

FREE = inputs(x=(None, 2))


def batched(batch_size: int, *, pads: bool = False, play: Any = lambda feeds: {"y": 2 * feeds["x"]}) -> OpenEngine:
    """Return an engine that takes batches of this size."""
    _, engine = played(play, inputs(x=(batch_size if pads else None, 2)))
    return leading(engine, batch_size, pads=pads)


def joined(chunks: list[Chunk]) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs and labels of chunks that follow each other without a gap."""
    following = 0
    for chunk in chunks:
        assert chunk.start == following
        assert all(len(array) == chunk.n for array in chunk.outputs.values())
        following += chunk.n
    labels = [chunk.labels for chunk in chunks if chunk.labels is not None]
    return np.concatenate([chunk.outputs["y"] for chunk in chunks]), np.concatenate(labels)


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("n", [1, 4, 10])
def test_every_sample_once_in_its_place(n: int, pads: bool) -> None:
    """Without the rows that only fill the last batch up; labels stay with their samples."""
    signature = inputs(x=(4 if pads else None, 2))
    data = data_of(numbers(n), signature, np.arange(n))
    (chunk,) = run_over(batched(4, pads=pads), data)
    values, labels = joined([chunk])
    np.testing.assert_array_equal(values, 2 * numbers(n))
    np.testing.assert_array_equal(labels, np.arange(n))
    assert chunk.n == n


@pytest.mark.parametrize(
    ("samples", "size", "sizes"),
    [
        (8, 10**6, [8, 8, 4]),
        (7, 10**6, [8, 8, 4]),
        (9, 10**6, [12, 8]),
        # A sample is two float32, so that a batch of four is 32 bytes.
        (4096, 64, [8, 8, 4]),
        (4096, 65, [12, 8]),
        (4096, 10**6, [20]),
    ],
)
def test_a_chunk_ends_with_the_batch_that_fills_it(
    samples: int, size: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many samples or bytes at least, and never more than one batch beyond."""
    monkeypatch.setattr(streams, "_CHUNK_BYTES", size)
    chunks = list(run_over(batched(4), data_of(numbers(20), FREE, np.arange(20)), samples))
    assert [chunk.n for chunk in chunks] == sizes
    np.testing.assert_array_equal(joined(chunks)[0], 2 * numbers(20))


@pytest.mark.parametrize(("samples", "size"), [(8, 10**6), (4096, 64)])
def test_no_more_batches_are_read_ahead_than_fit_into_a_chunk(
    samples: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four samples each, here; the third is read when these were run."""
    monkeypatch.setattr(streams, "_CHUNK_BYTES", size)
    ahead: list[int] = []
    own, engine = played(lambda feeds: {"y": feeds["x"]}, FREE)
    data = data_of(numbers(20), FREE)

    class Counted:
        n = data.n

        def batches(self, size: int, *, pad: bool) -> Iterator[Any]:
            for number, batch in enumerate(data.batches(size, pad=pad), 1):
                ahead.append(number - len(own.runs))
                yield batch

    list(run_over(leading(engine, 4), Counted(), samples))  # type: ignore[arg-type]
    assert ahead == [1, 2, 1, 2, 1]


def test_outputs_of_other_shapes_are_chunks_of_their_own() -> None:
    """Also of another dtype or with another name; all others are joined."""

    def play(feeds: Any) -> Any:
        first = int(feeds["x"][0, 0])
        rows = len(feeds["x"])
        if first < 16:
            return {"y": np.ones((rows, 2), np.float32)}
        if first < 32:
            return {"y": np.ones((rows, 3), np.float32)}
        if first < 48:
            return {"y": np.ones((rows, 3), np.float64)}
        return {"y": np.ones((rows, 3), np.float64), "z": np.ones(rows)}

    chunks = list(run_over(batched(4, play=play), data_of(numbers(32), FREE)))
    assert [(chunk.start, chunk.n) for chunk in chunks] == [(0, 8), (8, 8), (16, 8), (24, 8)]
    assert [sorted(chunk.outputs) for chunk in chunks] == [["y"], ["y"], ["y"], ["y", "z"]]
    assert [chunk.labels for chunk in chunks] == [None] * 4


def of_lengths(lengths: list[int]) -> tuple[Data, list[np.ndarray]]:
    """Return data of sequences of these lengths, each with its place in all of its values."""
    samples = [np.full((length, 2), place, np.float32) for place, length in enumerate(lengths)]
    dataset = Dataset.from_iterable([(sample, place) for place, sample in enumerate(samples)])
    return open_data(dataset, inputs(x=(None, None, 2))), samples


def test_samples_that_were_batched_by_their_shape_come_back_in_order() -> None:
    """Whatever order the runs had, with their labels."""
    lengths = [3, 5, 3, 3, 7, 5, 3, 3, 5, 7, 3]
    data, _ = of_lengths(lengths)
    own, engine = played(lambda feeds: {"y": feeds["x"].max(axis=1)}, inputs(x=(None, None, 2)))
    values, labels = joined(list(run_over(leading(engine, 2), data)))
    np.testing.assert_array_equal(values[:, 0], np.arange(len(lengths)))
    np.testing.assert_array_equal(labels, np.arange(len(lengths)))
    assert sum(own.runs) == len(lengths)
    assert max(own.runs) == 2


class Reference:
    """An engine whose outputs are recorded, beside its data and a cache."""

    def __init__(self, folder: Path, play: Any = lambda feeds: {"y": 2 * feeds["x"]}) -> None:
        self.own: Played
        self.own, engine = played(play, FREE)
        self.batched = leading(engine, 4)
        self.data = data_of(numbers(10), FREE)
        self.cache = Cache(folder)

    def record(self, **ingredients: str) -> Entry:
        """Record, or read what was recorded."""
        return record_outputs(self.batched, self.data, self.cache, {"model": "1", **ingredients})


def test_recorded_outputs_are_read_back(tmp_path: Path) -> None:
    """The second time nothing runs; values, dtypes and places are those of the first."""
    reference = Reference(tmp_path)
    first, again = reference.record(), reference.record()
    assert (first.status, again.status) == ("built", "hit")
    assert reference.own.runs == [4, 4, 2]
    assert first.reason == "first build of played-int8-static of net"
    for result in (first, again):
        (chunk,) = read_outputs(result)
        assert (chunk.start, chunk.n, chunk.labels) == (0, 10, None)
        assert chunk.outputs["y"].dtype == np.float32
        np.testing.assert_array_equal(chunk.outputs["y"], 2 * numbers(10))


def test_texts_and_scalars_are_recorded_too(tmp_path: Path) -> None:
    """Texts come back as objects, as runtimes give them; whole numbers keep their type."""

    def play(feeds: Any) -> Any:
        texts = np.array([f"{value:g}" * int(value) for value in feeds["x"][:, 0]], dtype=object)
        return {"y": texts, "z": feeds["x"][:, 1].astype(np.int16)}

    reference = Reference(tmp_path, play)
    chunks = list(read_outputs(reference.record()))
    texts = np.concatenate([chunk.outputs["y"] for chunk in chunks])
    assert texts.dtype == object
    assert texts.tolist() == [f"{value}" * value for value in range(1, 20, 2)]
    kinds = np.concatenate([chunk.outputs["z"] for chunk in chunks])
    assert kinds.dtype == np.int16
    assert kinds.tolist() == list(range(2, 21, 2))


def test_what_outputs_are_recorded_by(tmp_path: Path) -> None:
    """The engine, the data and the batch size; axes only where samples are not in front, as caches have it."""
    reference = Reference(tmp_path)
    seen: list[dict[str, str]] = []
    original = reference.cache.obtain

    def obtain(kind: str, slot: str, named: dict[str, str], build: Any, *, shared: bool) -> Any:
        assert (kind, slot) == ("reference", "played-int8-static of net")
        seen.append(named)
        return original(kind, slot, named, build)

    reference.cache.obtain = obtain  # type: ignore[assignment, method-assign]
    reference.record()
    plain = {"model": "1", "evaluation data": reference.data.digest, "evaluation batch size": "4"}
    assert seen == [plain]
    time_major = inputs(x=(2, None))
    _, engine = played(lambda feeds: {"y": feeds["x"]}, time_major)
    data = data_of(numbers(10), time_major, model=Model("net", batch_axes=(("x", 1),)))
    record_outputs(replace(leading(engine, 4), output_axes={"y": 1}), data, reference.cache, {"model": "1"})
    assert json.loads(seen[1]["axes of samples"]) == [[["x", 1], ["y", 1]], []]


def test_outputs_that_nothing_tells_apart_are_kept_for_one_check(tmp_path: Path) -> None:
    """Without ingredients the cache gets nothing, and a second pass is a new one; the files go with the entry."""
    reference = Reference(tmp_path)
    entry = record_outputs(reference.batched, reference.data, reference.cache, {})
    again = record_outputs(reference.batched, reference.data, reference.cache, {})
    assert (entry.status, again.status) == ("built", "built")
    assert "no version" in entry.reason
    (first,), (second,) = read_outputs(entry), read_outputs(again)
    np.testing.assert_array_equal(first.outputs["y"], second.outputs["y"])
    folder = entry.folder
    assert not folder.is_relative_to(tmp_path)
    assert reference.cache.entries() == ()
    del entry
    assert not folder.exists()


VALUES = np.arange(200.0).reshape(100, 2)


def cut(ends: list[int], values: np.ndarray = VALUES) -> Iterator[Chunk]:
    """Cut the first samples of `values` into chunks that end at `ends`."""
    start = 0
    for end in sorted(set(ends)):
        yield Chunk({"y": values[start:end]}, np.arange(start, end), start, end - start)
        start = end


@given(ours=st.sets(st.integers(1, 99)), theirs=st.sets(st.integers(1, 99)))
def test_both_sides_are_cut_at_the_same_samples(ours: set[int], theirs: set[int]) -> None:
    """However each side is cut, pairs cover every sample once, in order, with equal bounds."""
    pairs = list(pair_outputs(cut([*ours, 100]), cut([*theirs, 100])))
    assert all(len(pair.reference["y"]) == len(pair.candidate["y"]) == pair.n for pair in pairs)
    assert [pair.start for pair in pairs] == [0, *np.cumsum([pair.n for pair in pairs])[:-1]]
    np.testing.assert_array_equal(np.concatenate([pair.reference["y"] for pair in pairs]), VALUES)
    np.testing.assert_array_equal(np.concatenate([pair.candidate["y"] for pair in pairs]), VALUES)
    np.testing.assert_array_equal(np.concatenate([pair.labels for pair in pairs]), np.arange(100))


def probed(signature: Signature, data: Data, batch_size: int) -> tuple[Played, OpenEngine]:
    """Look at an engine that doubles its inputs, and return it with nothing run since."""
    own, engine = played(lambda feeds: {"y": 2 * feeds["x"]}, signature)
    opened = find_batching(
        OpenEngine(built_of(engine), engine, {"x": "x"}, {}), data, batch_size=batch_size, timed_size=1
    )
    own.runs.clear()
    return own, opened


@pytest.mark.parametrize(
    ("size", "batch_size", "runs"),
    [(None, 16, [16, 8]), (None, 1, [1] * 39), (4, 4, [4] * 9), (1, 1, [1] * 39)],
    ids=["free", "one by one", "fixed", "fixed to one"],
)
def test_what_was_run_to_look_at_an_engine_is_not_run_again(size: int | None, batch_size: int, runs: list[int]) -> None:
    """The first batch of 40 samples, or the first of them where they run one by one; all outputs are those of a run."""
    signature = inputs(x=(size, 2))
    data = data_of(numbers(40), signature, np.arange(40))
    own, opened = probed(signature, data, batch_size)
    values, _ = joined(list(run_over(opened, data)))
    np.testing.assert_array_equal(values, 2 * numbers(40))
    assert own.runs == runs


def test_a_first_batch_that_is_not_full_is_run_as_the_evaluation_has_it() -> None:
    """To look at the engine it was filled up: five samples of one length and six of another."""
    signature = inputs(x=(None, None))
    samples = [np.full(3 if place < 5 else 4, place, np.float32) for place in range(11)]
    data = open_data(Dataset.from_iterable([(sample, 0) for sample in samples]), signature)
    own, opened = probed(signature, data, 16)
    outputs = [row for chunk in run_over(opened, data) for row in chunk.outputs["y"]]
    assert [row.tolist() for row in outputs] == [(2 * sample).tolist() for sample in samples]
    assert own.runs == [5, 6]


def test_large_outputs_are_not_kept_until_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run again: memory is what one run takes."""
    monkeypatch.setattr(batching, "_KEPT_BYTES", 16 * 8 - 1)
    data = data_of(numbers(40), FREE)
    own, opened = probed(FREE, data, 16)
    assert list(run_over(opened, data))
    assert own.runs == [16, 16, 8]


@pytest.mark.parametrize(("workers", "key"), [(False, {"evaluation threads": "3"}), (True, {})])
def test_outputs_are_kept_by_the_threads_that_they_are_of(tmp_path: Path, workers: bool, key: dict[str, str]) -> None:
    """Kernels may add in another order with others; workers have the threads of a timed run, which is none here."""
    own, engine = played(lambda feeds: {"y": feeds["x"]}, FREE)
    own.threads = 3
    seen: list[dict[str, str]] = []
    cache = Cache(tmp_path)
    original = cache.obtain

    def obtain(kind: str, slot: str, named: dict[str, str], _: Any, *, shared: bool) -> Any:
        assert shared
        seen.append(named)
        return original(kind, slot, named, lambda _: {})

    cache.obtain = obtain  # type: ignore[assignment, method-assign]
    opened = replace(leading(engine, 4), workers=cast("RangeRunner", object()) if workers else None)
    record_outputs(opened, data_of(numbers(10), FREE), cache, {"model": "1"})
    assert {name: value for name, value in seen[0].items() if "threads" in name} == key


class Large(np.ndarray):
    """An array that can be asked whether it is still there."""


@pytest.mark.parametrize("pads", [False, True])
def test_large_outputs_are_gone_before_the_next_are_made(monkeypatch: pytest.MonkeyPatch, pads: bool) -> None:
    """Inputs are small, each output fills a chunk: of both sides one is there, and one that is being made."""
    monkeypatch.setattr(streams, "_CHUNK_BYTES", 16)
    alive: list[weakref.ref[Large]] = []
    most = 0

    def play(feeds: Any) -> Any:
        nonlocal most
        made = np.repeat(feeds["x"], 8, axis=1).view(Large)
        alive.append(weakref.ref(made))
        most = max(most, sum(each() is not None for each in alive))
        return {"y": made}

    data = data_of(numbers(12), inputs(x=(2 if pads else None, 2)))
    sides = [replace(batched(2, pads=pads, play=play), output_bytes=64) for _ in range(2)]
    n = 0
    for pair in pair_outputs(*(run_over(opened, data) for opened in sides)):
        n += pair.n
        del pair
    assert (n, len(alive), most) == (12, 12, 2)
