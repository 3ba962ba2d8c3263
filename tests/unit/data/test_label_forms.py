"""Labels that are no numbers of one shape: kept as they were given, in every form of data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.data import Data, open_data
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset, Signature
from tests.unit.data.samples import ONE, numbers, opened, streamed

TEXTS = ["one", "two", "a longer one", "", "five"]
BOXES: list[Any] = [[[0, 0, 2, 2]], [], [[1, 1, 3, 3], [4, 4, 5, 6]], [[0, 1, 2, 3]], []]
ANNOTATIONS = [{"boxes": np.array(boxes, float).reshape(-1, 4), "names": ["box"] * len(boxes)} for boxes in BOXES]


def seen(data: Data, batch_size: int = 2) -> list[Any]:
    """Every label of one pass, in order."""
    found: list[Any] = []
    for batch in data.batches(batch_size):
        assert batch.labels is not None
        assert (batch.labels.dtype, batch.labels.shape) == (np.dtype(object), (batch.n,))
        found += batch.labels.tolist()
    return found


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


def test_arrays_of_text_are_labels() -> None:
    """Numpy's fixed-width text comes as Python's."""
    found = seen(opened(numbers(5), np.array(TEXTS)))
    assert found == TEXTS
    assert {type(label) for label in found} == {str}


def test_annotations_of_a_detector() -> None:
    """Dicts of arrays of different lengths: the very objects from a list, equal ones from a stream."""
    assert all(a is b for a, b in zip(seen(opened(numbers(5), ANNOTATIONS)), ANNOTATIONS, strict=True))
    found = seen(streamed(list(zip(numbers(5), ANNOTATIONS, strict=True))))
    for one, other in zip(found, ANNOTATIONS, strict=True):
        np.testing.assert_array_equal(one["boxes"], other["boxes"])
        assert one["names"] == other["names"]


def test_numbers_of_different_shapes_are_objects() -> None:
    """Samples before the first other shape come as they were given, too."""
    labels: list[Any] = [[1, 2], [3, 4], [5, 6, 7], [8, 9], [10, 11]]
    data = streamed(list(zip(numbers(5), labels, strict=True)))
    assert (data.labels, data.label_type) == ("object", "arrays of different shapes")
    assert seen(data) == labels
    assert seen(opened(numbers(5), labels)) == labels


def test_an_object_array_of_numbers_is_numbers() -> None:
    """A table's column often has the dtype object."""
    data = opened(numbers(3), np.array([1, 0, 2], object))
    assert (data.labels, data.label_range) == ("int", (0, 2))
    assert data.digest == opened(numbers(3), [1, 0, 2]).digest


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
    found = seen(open_data(Dataset.from_loader(DataLoader(items, batch_size=2)), ONE))
    assert [(int(label["id"]), label["text"]) for label in found] == list(enumerate(TEXTS))
    texts: Any = list(zip(rows, TEXTS, strict=True))
    assert seen(open_data(Dataset.from_loader(DataLoader(texts, batch_size=2)), ONE)) == TEXTS


def test_digests_follow_contents() -> None:
    """Equal labels made anew have the digest; any change in one changes it."""
    first = opened(numbers(5), [dict(label) for label in ANNOTATIONS]).digest
    again = [{name: label[name] for name in reversed(label)} for label in ANNOTATIONS]
    assert opened(numbers(5), again).digest == first
    again[2] = {**again[2], "boxes": np.array(BOXES[2]) + 1e-9}
    assert opened(numbers(5), again).digest != first


def test_a_reused_buffer_is_copied() -> None:
    """A stream may write the next sample's boxes into the same dict."""

    class Reusing:
        def __iter__(self) -> Iterator[tuple[NDArray[np.float32], dict[str, Any]]]:
            label: dict[str, Any] = {}
            for row, boxes in zip(numbers(5), BOXES, strict=True):
                label["boxes"] = boxes
                yield row, label

    assert [label["boxes"] for label in seen(streamed(Reusing()), 5)] == BOXES


def test_a_label_without_content_is_refused() -> None:
    """A set has no order that two processes share; the sample is named."""
    labels: list[Any] = ["a", "b", {"c", "d"}]
    with pytest.raises(DataError, match="the label of sample 2 holds set"):
        opened(numbers(3), labels)
    with pytest.raises(DataError, match="the label of sample 2 holds set"):
        streamed(list(zip(numbers(3), labels, strict=True)))


def test_a_missing_label_among_objects_is_an_error() -> None:
    """The sample is named."""
    with pytest.raises(DataError, match="some have none") as raised:
        opened(numbers(3), ["a", None, "c"])
    assert "sample 1" in str(raised.value)


@pytest.mark.parametrize(
    "label",
    [
        np.array("cat"),
        np.array(None),
        np.array(1 + 2j),
        np.zeros((), np.dtype([("a", "?")])),
        b"cat",
        {"boxes": np.array(1.0)},
    ],
    ids=str,
)
def test_one_value_is_no_label_of_several_samples(label: Any) -> None:
    """Nor is it turned into a number, which would leave out the half of a complex one."""
    refuse_one_value(label)


def test_one_tensor_without_axes_is_no_label_of_several_samples() -> None:
    """As a collate function leaves it that turns a single box into a tensor."""
    torch = pytest.importorskip("torch", reason="the tests' extra installs torch")
    refuse_one_value({"boxes": torch.tensor(1.0)})


def refuse_one_value(label: Any) -> None:
    """See that `label` is refused for four samples, in both forms of data."""
    with pytest.raises(DataError, match=r"one value is no list of labels|does not hold one value for each of 4"):
        opened(numbers(4), label)
    with pytest.raises(DataError, match=r"one value is no list of labels|does not hold one value for each of 4"):
        open_data(Dataset.from_loader([(numbers(4), label)]), ONE)


def test_batches_for_a_model_without_inputs_are_refused() -> None:
    """Labels that are taken apart need a number of samples, and nothing tells it."""
    with pytest.raises(DataError, match="does not hold one value for each of 0"):
        open_data(Dataset.from_loader([({}, {"a": [1, 2]})]), Signature((), ()))
