"""Data of any form, shape and dtype, opened for a model, read in batches and scored."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from pytest_quant.data import open_data
from pytest_quant.measure.choices import choose_metric
from pytest_quant.measure.evaluation import OutputPair, evaluate
from pytest_quant.spec import Check, Dataset, EngineSpec, Model, Signature, TensorInfo
from tests.nightly.fuzz import odd
from tests.nightly.fuzz.target import Target

_SIGNATURES = (
    Signature((TensorInfo("x", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 2)),)),
    Signature((TensorInfo("x", "float32", (2, 3)),), (TensorInfo("y", "float32", (2, 2)),)),
    Signature((TensorInfo("x", "float32", None),), (TensorInfo("y", "float32", None),)),
    Signature((TensorInfo("x", "object", (None, 1)),), (TensorInfo("y", "int64", (None,)),)),
    Signature((TensorInfo("x", "float16", ()),), (TensorInfo("y", "float16", ()),)),
    Signature(
        (TensorInfo("ids", "int64", (None, None)), TensorInfo("mask", "bool", (None, None))),
        (TensorInfo("y", "float32", (None, 2)),),
    ),
    Signature(
        (TensorInfo("x", "float32", (7, None, 3), ("", "n", "")), TensorInfo("rate", "int64", ())),
        (TensorInfo("y", "float32", (None, 2)),),
    ),
    Signature((TensorInfo("\x1b[31m", "float32", (None, 3)),), (TensorInfo("y", "float32", (None, 2)),)),
)

_METRICS = (None, "top1", "top5", "mae", "rmse", "f1", "cosine")


@dataclass(frozen=True, slots=True)
class Given:
    """A dataset as a fixture gives it, and the model that it is for; loops of Python are as deep as the values go."""

    signature: Signature
    form: str
    inputs: Any
    labels: Any
    calibration: Any
    batch_axes: Any
    batch_size: int
    metric: str | None


class _Seconds:
    """An iterable of its own."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __repr__(self) -> str:
        return f"_Seconds({self.values!r})"


_shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
_dtypes = st.one_of(
    st.sampled_from([np.dtype(name) for name in ("f4", "f4", "f2", "f8", "i8", "i4", "u1", "u8", "?", "O", ">f4")]),
    npst.scalar_dtypes(),
    npst.array_dtypes(max_size=2),
)


def _filled(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Return an array of numbers, of which some datasets hold NaN and infinity."""
    values = np.random.default_rng(seed).integers(-2, 3, shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array: NDArray[Any] = np.asarray(values).astype(dtype) if dtype.names is None else np.zeros(shape, dtype)
        if seed % 5 == 0 and array.dtype.kind in "fc" and array.size:
            array.reshape(-1)[0] = (np.nan, np.inf, -np.inf)[seed % 3]
    return array


_arrays = st.one_of(
    st.builds(_filled, _dtypes, _shapes, st.integers(0, 20)),
    st.builds(
        _filled, st.just(np.dtype("f4")), st.sampled_from(((6, 3), (4, 3), (2, 3), (7, 6, 3), (3,))), st.integers(0, 20)
    ),
    _dtypes.flatmap(
        lambda dtype: npst.arrays(dtype, _shapes) if dtype.hasobject is False else st.just(np.zeros(2, dtype))
    ),
)

_loose = st.recursive(
    st.one_of(st.none(), odd.numbers, odd.texts, st.binary(max_size=3), _arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(odd.texts, st.sampled_from(("x", "ids", "mask", "rate", 3))), inner, max_size=3),
        st.sets(st.integers(0, 3), max_size=2),
    ),
    max_leaves=6,
)

_named = st.one_of(
    _arrays,
    st.dictionaries(st.sampled_from(("x", "ids", "mask", "rate", "y")), _arrays, max_size=3),
    st.fixed_dictionaries({"ids": _arrays, "mask": _arrays}),
    _loose,
)
_sample = st.one_of(st.tuples(_named, st.one_of(st.integers(0, 3), _loose)), _named)
_inputs = st.one_of(
    _named,
    st.lists(_sample, max_size=5),
    st.lists(_sample, min_size=1, max_size=3).map(_Seconds),
    st.lists(_sample, max_size=2).map(iter),
)
_calibration = st.one_of(st.none(), st.integers(-1, 4), st.floats(-0.5, 1.5), _inputs)
_axes = st.one_of(
    st.none(),
    st.none(),
    st.dictionaries(
        st.sampled_from(("x", "y", "ids", "rate", "nothing")), st.one_of(st.none(), st.integers(-1, 5)), max_size=2
    ),
    _loose,
)


def _meet(case: Given) -> None:
    with warnings.catch_warnings():
        # Under -W error a warning of a library is an exception like any other.
        warnings.simplefilter("error")
        data = open_data(_dataset(case), case.signature, Model("m"))
        batches = list(data.batches(case.batch_size, pad=case.batch_size > 2))
        if data.n_calibration:
            list(islice(data.calibration(2, 3), 4))
        data.first(case.batch_size)
        data.some(2)
        engine = EngineSpec("ort", "int8", "static", Model("m"))
        check = Check("a", "a", engine, engine, _dataset(case), metric=case.metric)
        metric = choose_metric(check, data, {"y": np.zeros((data.n, 2), np.float32)}, "y")
        start = 0
        pairs = []
        for batch in batches:
            scores = np.zeros((batch.n, 2), np.float32)
            pairs.append(OutputPair({"y": scores}, {"y": scores + 1}, batch.labels, start, batch.n))
            start += batch.n
        evaluate(pairs, metric, output=("y",))


def _dataset(case: Given) -> Dataset:
    if case.form == "of":
        return Dataset.from_fixture(case.inputs if case.labels is None else (case.inputs, case.labels), "quant_data")
    if case.form == "arrays":
        return Dataset.from_arrays(case.inputs, case.labels, case.calibration, batch_axes=case.batch_axes)
    read = Dataset.from_iterable if case.form == "iterable" else Dataset.from_loader
    return read(case.inputs, case.calibration, batch_axes=case.batch_axes)


def _sample_shape(tensor: TensorInfo) -> tuple[int, ...]:
    """Return the shape of one sample that fits, its batch axis left out."""
    if tensor.shape is None:
        return (3,)
    axis = tensor.symbols.index("n") if "n" in tensor.symbols else 0
    return tuple(3 if size is None else size for place, size in enumerate(tensor.shape) if place != axis)


def _array_of(tensor: TensorInfo, n: int, seed: int) -> NDArray[Any]:
    values = np.random.default_rng(seed).integers(0, 3, (n, *_sample_shape(tensor)))
    return values.astype(object).astype(str).astype(object) if tensor.dtype == "object" else values.astype(tensor.dtype)


@st.composite
def _given(draw: st.DrawFn) -> Given:
    """Draw data that fit, and then some of their parts that do not."""
    signature = draw(st.sampled_from(_SIGNATURES))
    form = draw(st.sampled_from(("arrays", "arrays", "iterable", "loader", "of")))
    n = draw(st.integers(1, 6))
    feeds = {tensor.name: _array_of(tensor, n, n) for tensor in signature.inputs}
    spoiled = draw(st.sets(st.sampled_from(("input", "inputs", "labels", "label", "calibration", "axes")), max_size=2))
    if "input" in spoiled and feeds:
        feeds[draw(st.sampled_from(sorted(feeds)))] = draw(st.one_of(_arrays, _loose))
    labels: Any = draw(st.sampled_from((None, np.arange(n) % 2, list(range(n)), np.linspace(0, 1, n), ["a"] * n)))
    if "label" in spoiled:
        labels = draw(st.lists(st.one_of(_loose, st.integers(0, 3)), min_size=n, max_size=n))
    elif "labels" in spoiled:
        labels = draw(st.one_of(_arrays, _loose, st.dictionaries(odd.texts, _arrays, max_size=2)))
    calibration = draw(_calibration) if "calibration" in spoiled else draw(st.sampled_from((None, None, 1, 0.5)))
    return Given(
        signature,
        form,
        draw(_inputs) if "inputs" in spoiled else _formed(form, feeds, labels, n),
        labels,
        calibration,
        draw(_axes) if "axes" in spoiled else None,
        draw(st.sampled_from((1, 2, 3, 32))),
        draw(st.sampled_from(_METRICS)),
    )


def _formed(form: str, feeds: dict[str, Any], labels: Any, n: int) -> Any:
    """Return arrays as a dataset of that form takes them."""
    if form in ("arrays", "of"):
        return feeds
    if form == "loader":
        return [(feeds, labels)]
    rows = [{name: _row(values, at) for name, values in feeds.items()} for at in range(n)]
    return [(row, _row(labels, at)) for at, row in enumerate(rows)]


def _row(values: Any, at: int) -> Any:
    """Return one of several values, or the whole where there are not so many."""
    is_long = isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.ndim > 0)
    return values[at] if is_long and at < len(values) else values


DATA = Target(_given(), _meet, examples=3000)
