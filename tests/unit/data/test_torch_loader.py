"""Real torch DataLoaders, without importing torch ourselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_quant.data import Data, open_data
from pytest_quant.errors import DataError
from pytest_quant.spec import Dataset, Signature
from tests.unit.data.samples import ONE, TWO, numbers, opened

torch = pytest.importorskip("torch", reason="the tests' extra installs torch")


def loader_of(*tensors: Any, batch_size: int = 4, shuffle: bool = False) -> Any:
    """A DataLoader over tensors."""
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(*tensors), batch_size=batch_size, shuffle=shuffle)


def load(loader: Any, calibration: object = None, signature: Signature = ONE) -> Data:
    """Open a DataLoader."""
    return open_data(Dataset.from_loader(loader, calibration), signature)


def test_a_loader_gives_the_samples_of_its_arrays() -> None:
    """Its batches are taken apart: digest, labels and samples are those of plain arrays."""
    labels = np.arange(10) % 4
    data = load(loader_of(torch.from_numpy(numbers(10)), torch.from_numpy(labels)))
    plain = opened(numbers(10), labels)
    assert (data.n, data.digest, data.labels, data.label_range) == (10, plain.digest, "int", (0, 3))
    for batch, plain_batch in zip(data.batches(3), plain.batches(3), strict=True):
        np.testing.assert_array_equal(batch.feeds["x"], plain_batch.feeds["x"])
        np.testing.assert_array_equal(batch.labels, plain_batch.labels)


def test_a_loader_of_its_own_calibrates_without_its_labels() -> None:
    """The calibration loader may have labels or none."""
    own = torch.from_numpy(numbers(6, seed=1))
    evaluation = loader_of(torch.from_numpy(numbers(10)), torch.arange(10))
    plain = load(evaluation, loader_of(own))
    labelled = load(evaluation, loader_of(own, torch.rand(6)))
    assert plain.calibration_digest == labelled.calibration_digest
    assert (plain.n, plain.n_calibration) == (10, 6)


def test_samples_without_a_loader_or_labels() -> None:
    """Batches of one tensor are inputs; a Dataset, read by index, is an iterable; a tensor with a gradient an array."""
    from torch.utils.data import DataLoader, TensorDataset

    values = numbers(6)
    rows: Any = list(torch.from_numpy(values))
    dataset: Any = TensorDataset(torch.from_numpy(values), torch.arange(6))
    assert open_data(Dataset.from_iterable(dataset), ONE).digest == opened(values, np.arange(6)).digest
    assert opened(torch.from_numpy(values).requires_grad_(), torch.arange(6)).digest == opened(values, range(6)).digest
    assert load(loader_of(torch.from_numpy(values))).labels == "none"
    assert load(DataLoader(rows, batch_size=4)).digest == opened(values).digest


def test_a_loader_of_dicts() -> None:
    """Several inputs come as a dict of batches."""
    from torch.utils.data import DataLoader

    items: Any = [({"ids": torch.arange(3) + i, "mask": torch.ones(3, dtype=torch.bool)}, float(i)) for i in range(5)]
    data = load(DataLoader(items, batch_size=2), signature=TWO)
    (batch,) = data.batches(8)
    np.testing.assert_array_equal(batch.feeds["ids"], np.arange(3) + np.arange(5)[:, None])
    assert data.labels == "float"


def test_a_tensor_that_numpy_does_not_know_is_named() -> None:
    """Torch's bfloat16 has no numpy form."""
    with pytest.raises(DataError, match="cannot be turned into an array") as raised:
        opened(torch.zeros(4, 3, dtype=torch.bfloat16))
    assert "BFloat16" in str(raised.value.value)


def test_batches_of_unequal_length_are_named() -> None:
    """A collate function that loses labels is found."""
    with pytest.raises(DataError, match="batch 1: inputs and labels differ"):
        load([(numbers(4), [1, 2, 3, 4]), (numbers(4), [1, 2])])


class Dicts:
    """Batches as Hugging Face's datasets give them: labels and a name beside the inputs."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __iter__(self) -> Any:
        values = {"x": torch.from_numpy(numbers(8)), "labels": torch.arange(8), "name": list("abcdefgh")}
        for first in (0, 4):
            yield {name: values[name][first : first + 4] for name in ("x", *self._names)}


def test_labels_inside_of_a_dict_batch() -> None:
    """By their key they are what a pair gives."""
    data = open_data(Dataset.from_loader(Dicts("labels"), label="labels"), ONE)
    assert (data.n, data.digest) == (8, opened(numbers(8), np.arange(8)).digest)


def test_a_calibration_loader_may_lack_the_labels() -> None:
    """They are taken out where they are there."""
    for names in ((), ("labels",)):
        own = loader_of(torch.from_numpy(numbers(6, seed=1)))
        plain = load(loader_of(torch.from_numpy(numbers(8))), own).calibration_digest
        calibration = [{"x": batch, **dict.fromkeys(names, torch.zeros(len(batch)))} for (batch,) in own]
        data = open_data(Dataset.from_loader(Dicts("labels"), calibration, label="labels"), ONE)
        assert (data.n_calibration, data.calibration_digest) == (6, plain)


def test_a_key_that_is_no_input_is_named_with_what_helps() -> None:
    """The error of labels that were not named gives the argument, which works; any other key is an error of its own."""
    with pytest.raises(DataError) as raised:
        open_data(Dataset.from_loader(Dicts("labels")), ONE)
    assert "no input 'labels'" in raised.value.what
    assert "Dataset.from_loader(loader, label='labels')" in str(raised.value.fix)
    with pytest.raises(DataError, match=r"no 'label'[\s\S]*labels"):
        open_data(Dataset.from_loader(Dicts("labels"), label="label"), ONE)


KEPT = ", with labels as 'KEY' in it for Dataset.from_loader(loader, label='KEY')"


@pytest.mark.parametrize("names", [("name",), ("labels", "name")])
def test_a_key_that_is_neither_input_nor_label_is_left_out_by_a_collate_fn(names: tuple[str, ...]) -> None:
    """It is called a label on a condition only, and the dict that is shown is taken."""
    whole, label = Dicts(*names), "labels" if "labels" in names else None
    with pytest.raises(DataError, match="no input 'name'") as raised:
        open_data(Dataset.from_loader(whole, label=label), ONE)
    shown = "give {'x': ...}, by a collate_fn; if 'name' is the label: Dataset.from_loader(loader, label='name')"
    assert raised.value.fix == ("give {'x': ...}, with 'labels' beside it, by a collate_fn" if label else shown)
    with pytest.raises(DataError) as raised:
        open_data(Dataset.from_arrays({"x": numbers(4), "name": numbers(4)}), ONE)
    assert raised.value.fix == "give {'x': ...}"
    assert open_data(Dataset.from_loader(Dicts(*names[:-1]), label=label), ONE).n == 8


def test_all_keys_that_are_no_input_are_named_at_once() -> None:
    """A label may be any of them, so that none is called it, and the step is one for all of them."""
    with pytest.raises(DataError, match="the model has no input 'labels', 'name'\n") as raised:
        open_data(Dataset.from_loader(Dicts("labels", "name")), ONE)
    assert raised.value.fix == f"give {{'x': ...}}, by a collate_fn{KEPT}"


def test_a_label_may_have_any_name() -> None:
    """Braces in it are no places to fill."""
    with pytest.raises(DataError, match="no input 'name'") as raised:
        open_data(Dataset.from_loader([{"x": numbers(4), "{a}": numbers(4), "name": 1}], label="{a}"), ONE)
    assert raised.value.fix == "give {'x': ...}, with '{a}' beside it, by a collate_fn"


def test_an_input_under_another_name_is_not_called_a_label() -> None:
    """Pixels under the name that another model has for them: the step is the model's own name, and it is taken.

    Where the dict is made is said, and how labels stay beside it; following that gives labels.
    """
    batches = [{"pixel_values": numbers(4)}, {"pixel_values": numbers(4, seed=1)}]
    for given in (batches, [batch | {"labels": np.arange(4)} for batch in batches]):
        with pytest.raises(DataError, match="no input 'pixel_values'") as raised:
            open_data(Dataset.from_loader(given), ONE)
        assert raised.value.fix == f"give {{'x': ...}}, by a collate_fn{KEPT}"
    followed = [{"x": batch["pixel_values"], "KEY": np.arange(4)} for batch in batches]
    assert open_data(Dataset.from_loader(followed, label="KEY"), ONE).labels == "int"


@pytest.mark.parametrize("given", ["pixel_values", None])
def test_the_label_stays_beside_the_inputs_that_are_shown(given: str | None) -> None:
    """In the step for an input under another name, and for a batch without any."""
    batch = {"y": np.arange(4)} if given is None else {given: numbers(4), "y": np.arange(4)}
    with pytest.raises(DataError) as raised:
        open_data(Dataset.from_loader([batch], label="y"), ONE)
    assert raised.value.fix == "give {'x': ...}, with 'y' beside it, by a collate_fn"
    followed = open_data(Dataset.from_loader([{"x": numbers(4), "y": np.arange(4)}], label="y"), ONE)
    assert (followed.n, followed.labels) == (4, "int")


def test_dicts_that_no_one_collated_are_no_numbers_to_convert() -> None:
    """A collate_fn that returns its samples as they are: the step asks for arrays."""
    samples = [[{"x": row} for row in numbers(4)]] * 2
    with pytest.raises(DataError, match="dtype is not the model's") as raised:
        open_data(Dataset.from_loader(samples), ONE)
    assert raised.value.value == "object"
    assert raised.value.fix == "give one array of float32 for each input"
    assert open_data(Dataset.from_loader([{"x": numbers(4)}] * 2), ONE).n == 8
