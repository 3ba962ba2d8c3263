"""Labels of any form: what kind they are, how they come, and that equal contents, and only they, share an encoding."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data import Data, open_data
from pytest_quant.data.batch import canonical_bytes
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset
from tests.unit.data.samples import ONE, Samples, numbers, opened, streamed


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        (3, "int"), (True, "int"), (np.int32(3), "int"), (np.uint8(3), "int"), (np.array(3), "int"),
        (np.bool_(True), "int"), (0.5, "float"), (np.float32(0.5), "float"), (np.array(0.5), "float"),
        ([1, 0, 1], "int"), (np.array([0.1, 0.9]), "float"), (None, "none"),
    ],
)  # fmt: skip
def test_the_kind_of_a_label(label: Any, kind: str) -> None:
    """Whatever holds a whole number is an int, bools too; a vector has the kind of its numbers."""
    data = streamed([(row, label) for row in numbers(4)])
    assert data.labels == kind
    assert opened(numbers(4), [3, -1, 7, 0]).label_range == (-1, 7)
    (batch,) = data.batches(4)
    if kind == "none":
        assert (batch.labels, data.label_range) == (None, None)
    else:
        assert batch.labels is not None
        assert batch.labels.shape == (4, *np.shape(label))
        assert batch.labels.dtype == (np.int64 if kind == "int" else np.float64)
        np.testing.assert_array_equal(batch.labels[0], label)


def test_ints_and_floats_together_are_floats_in_every_batch() -> None:
    """Batches do not differ in dtype."""
    data = streamed(list(zip(numbers(4), [1, 2, 0.5, 3], strict=True)))
    assert data.labels == "float"
    assert [str(batch.labels.dtype) for batch in data.batches(1) if batch.labels is not None] == ["float64"] * 4


def test_some_labels_only_is_an_error() -> None:
    """The first sample that is different is named."""
    samples: list[Any] = list(Samples(5))
    samples[3] = (samples[3][0], None)
    with pytest.raises(DataError, match="some have none") as raised:
        streamed(samples)
    assert "sample 3" in str(raised.value)
    samples = [row for row, _ in Samples(5)]
    samples[2] = (samples[2], 1)
    with pytest.raises(DataError, match="some have none"):
        streamed(samples)
    with pytest.raises(DataError, match="some have none") as raised:
        opened(numbers(3), ["a", None, "c"])
    assert "sample 1" in str(raised.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1.0, float("nan"), 2.0], "NaN"),
        ([1.0, float("inf"), 2.0], "NaN"),
        ([1, 2], r"(?s)number of samples.*input 'x': 3, labels: 2"),
        (["a", "b", {"c", "d"}], "the label of sample 2 holds set"),
    ],
)
def test_labels_that_cannot_be_used_are_an_error(labels: list[Any], words: str) -> None:
    """Not finite, too few, or of a type without an order that two processes share."""
    with pytest.raises(DataError, match=words):
        opened(numbers(3), labels)


TEXTS = ["one", "two", "a longer one", "", "five"]
BOXES: list[Any] = [[[0, 0, 2, 2]], [], [[1, 1, 3, 3], [4, 4, 5, 6]], [[0, 1, 2, 3]], []]


def seen(data: Data, batch_size: int = 2) -> list[Any]:
    """Every label of one pass, in order."""
    result: list[Any] = []
    for batch in data.batches(batch_size):
        assert batch.labels is not None
        assert (batch.labels.dtype, batch.labels.shape) == (np.dtype(object), (batch.n,))
        result += batch.labels.tolist()
    return result


@pytest.mark.parametrize(
    ("labels", "type_name"), [(TEXTS, "str"), ([text.encode() for text in TEXTS], "bytes"), (BOXES, "list")]
)
def test_any_label_comes_as_it_was_given(labels: list[Any], type_name: str) -> None:
    """Texts, bytes and lists of different lengths, from arrays and from a stream, twice."""
    for data in (opened(numbers(5), labels), streamed(list(zip(numbers(5), labels, strict=True)))):
        assert (data.labels, data.label_range) == ("object", None)
        assert seen(data) == labels
        assert seen(data, 3) == labels
    assert opened(numbers(5), labels).label_type == type_name


def test_numbers_of_different_shapes_are_objects() -> None:
    """Samples before the first other shape come as they were given, too."""
    labels: list[Any] = [[1, 2], [3, 4], [5, 6, 7], [8, 9], [10, 11]]
    data = streamed(list(zip(numbers(5), labels, strict=True)))
    assert (data.labels, data.label_type) == ("object", "arrays of different shapes")
    assert seen(data) == labels
    assert seen(opened(numbers(5), labels)) == labels


def test_arrays_of_all_samples_under_names_are_taken_apart() -> None:
    """One dict for each sample, however deep."""
    labels = {"angle": np.arange(5) / 2, "of": {"name": TEXTS}}
    assert seen(opened(numbers(5), labels)) == [
        {"angle": index / 2, "of": {"name": text}} for index, text in enumerate(TEXTS)
    ]
    with pytest.raises(DataError, match="one value for each of 5 samples") as raised:
        opened(numbers(5), {"angle": np.arange(4)})
    assert "['angle']" in raised.value.what


def test_a_dataloader_of_dicts_and_texts() -> None:
    """What torch collated is taken apart: dicts of batched tensors, lists of text."""
    torch = pytest.importorskip("torch", reason="the tests' extra installs torch")
    from torch.utils.data import DataLoader

    rows = list(torch.from_numpy(numbers(5)))
    items: Any = [(row, {"id": index, "text": text}) for index, (row, text) in enumerate(zip(rows, TEXTS, strict=True))]
    result = seen(open_data(Dataset.from_loader(DataLoader(items, batch_size=2)), ONE))
    assert [(int(label["id"]), label["text"]) for label in result] == list(enumerate(TEXTS))
    texts: Any = list(zip(rows, TEXTS, strict=True))
    assert seen(open_data(Dataset.from_loader(DataLoader(texts, batch_size=2)), ONE)) == TEXTS


@pytest.mark.parametrize(
    "label", [np.array("cat"), np.array(None), np.array(1 + 2j), b"cat", {"boxes": np.array(1.0)}], ids=str
)
def test_one_value_is_no_label_of_several_samples(label: Any) -> None:
    """Nor is it turned into a number, which would leave out the half of a complex one; in both forms of data."""
    words = r"one value is no list of labels|does not hold one value for each of 4"
    with pytest.raises(DataError, match=words):
        opened(numbers(4), label)
    with pytest.raises(DataError, match=words):
        open_data(Dataset.from_loader([(numbers(4), label)]), ONE)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf")]),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["1", "1.0", "None", "a", "ab", ""]),
    st.binary(max_size=3),
    st.sampled_from([np.zeros(2), np.zeros((2, 1)), np.zeros(2, np.float32), np.zeros(2, np.int64), np.zeros(0)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", "ab", "1"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def content(value: Any) -> object:
    """What is equal for equal contents, made of hashable values and by no bytes of ours."""
    if isinstance(value, Mapping):
        return ("dict", frozenset((content(name), content(item)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(content(item) for item in value))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, tuple(content(item) for item in value.ravel().tolist()))
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack("<d", value))
    return (type(value).__name__, value)


@given(values=st.lists(VALUES, min_size=2, max_size=6))
def test_equal_contents_and_only_they_share_an_encoding(values: list[Any]) -> None:
    """Of any values as many encodings are different as there are contents."""
    encodings = {canonical_bytes(value, "label") for value in values}
    assert len(encodings) == len({content(value) for value in values})


def test_the_form_of_a_number_or_an_array_in_memory_does_not_count() -> None:
    """Numpy scalars, foreign byte order, other strides, tensors, fixed-width text and any order of names."""
    torch = pytest.importorskip("torch", reason="the tests' extra installs torch")
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    for same in (plain.astype(">f4"), np.asfortranarray(plain), np.repeat(plain, 2, axis=1)[:, ::2]):
        assert canonical_bytes(same, "label") == canonical_bytes(plain, "label")
    for of_numpy, own in ((np.float64(0.5), 0.5), (np.int8(3), 3), (np.bool_(True), True), (np.str_("a"), "a")):
        assert canonical_bytes(of_numpy, "label") == canonical_bytes(own, "label")
    assert canonical_bytes(np.array(["a", "b"]), "label") == canonical_bytes(np.array(["a", "b"], "U9"), "label")
    named, backwards = {"a": {"b": plain, "d": 2}, "c": 3}, {"c": 3, "a": {"d": 2, "b": torch.from_numpy(plain)}}
    assert canonical_bytes(named, "label") == canonical_bytes(backwards, "label")


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), np.longdouble(1), np.zeros(1, "f4,i4"), [{"a": {3}}], {1: 2, "a": 3}]
)
def test_other_types_are_refused(value: object) -> None:
    """What prints an address, or has no order, has no content that could be compared; what is allowed is told."""
    with pytest.raises(DataError, match="the label of sample 3 holds") as raised:
        canonical_bytes(value, "quant_data: the label of sample 3")
    assert "lists, tuples and dicts" in str(raised.value.allowed)
