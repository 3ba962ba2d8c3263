"""Larger models that start in PyTorch, and the samples they are tested on."""

from __future__ import annotations

import pytest
import torch
from digits_data import load_digits_split
from efficientnet import efficientnet_lite0
from images import calibration_images, evaluation_images
from qat_digits import digits_network, trained_qat_network
from reviews import Reviews, load_reviews, with_head

from pytest_quant import Dataset, Model


@pytest.fixture(scope="session")
def efficientnet() -> Model:
    """EfficientNet-Lite0 with its ImageNet weights; every backend gets it from this one module."""
    return Model.from_torch(efficientnet_lite0(), (torch.zeros(2, 3, 224, 224),), name="efficientnet-lite0")


@pytest.fixture(scope="session")
def images() -> Dataset:
    """200 views of 20 labelled pictures; 40 close-ups calibrate."""
    found = evaluation_images()
    return Dataset.from_arrays(found.images, found.labels, calibration=calibration_images())


@pytest.fixture(scope="session")
def review_samples() -> tuple[Reviews, Reviews]:
    """Reviews to train the head on, and others to test it."""
    return load_reviews()


@pytest.fixture(scope="session")
def minilm(review_samples: tuple[Reviews, Reviews]) -> Model:
    """MiniLM with a head of two classes."""
    train, _ = review_samples
    example = (torch.from_numpy(train.ids[:2]), torch.from_numpy(train.mask[:2]))
    return Model.from_torch(with_head(train), example, name="minilm")


@pytest.fixture(scope="session")
def reviews(review_samples: tuple[Reviews, Reviews]) -> Dataset:
    """300 reviews; 100 of the training ones calibrate."""
    train, test = review_samples
    few = train.part(slice(100))
    return Dataset.from_arrays(
        {"ids": test.ids, "mask": test.mask}, test.labels, calibration={"ids": few.ids, "mask": few.mask}
    )


@pytest.fixture(scope="session")
def digits_module() -> Model:
    """A digit classifier trained in float."""
    return Model.from_torch(digits_network(), (torch.zeros(2, 1, 8, 8),), name="digits-float")


@pytest.fixture(scope="session")
def digits_qat() -> Model:
    """The same classifier, trained on with its rounding in the loop, and converted."""
    return Model.from_torch(trained_qat_network(), (torch.zeros(2, 1, 8, 8),), name="digits-qat")


@pytest.fixture(scope="session")
def digits_samples() -> Dataset:
    """898 digits that were not trained on; 100 of the training digits calibrate."""
    split = load_digits_split()
    return Dataset.from_arrays(split.test_images, split.test_labels, calibration=split.calibration_images)
