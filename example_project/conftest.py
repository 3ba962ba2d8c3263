"""The models of this repository and the samples they are tested on."""

from __future__ import annotations

from pathlib import Path

import pytest
from digits_data import load_digits_split
from file_types import load_labelled_files, magika_model

from pytest_quant import Dataset, Model


@pytest.fixture(scope="session")
def quant_model() -> Path:
    """The digit classifier, the model of every test that names no other."""
    return Path(__file__).with_name("digits.onnx")


@pytest.fixture(scope="session")
def quant_data() -> Dataset:
    """898 digits that were not trained on; 100 of the training digits calibrate."""
    split = load_digits_split()
    return Dataset.from_arrays(split.test_images, split.test_labels, calibration=split.calibration_images)


@pytest.fixture(scope="session", name="magika")
def magika_fixture() -> Model:
    """The pretrained file-type model, named because its file is just called ``model.onnx``."""
    return Model.from_onnx(magika_model(), name="magika")


@pytest.fixture(scope="session")
def magika_data() -> Dataset:
    """Files of known type; 100 of them, evenly spaced, calibrate and are not evaluated."""
    labelled = load_labelled_files()
    return Dataset.from_arrays({"bytes": labelled.features}, labelled.labels, calibration=100)
