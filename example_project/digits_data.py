"""scikit-learn's bundled handwritten digits, cut into training, calibration and test samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

N_CALIBRATION = 100


@dataclass(frozen=True, slots=True)
class DigitsSplit:
    """Images are float32 (n, 1, 8, 8) in 0..1, labels int64 (n,)."""

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    calibration_images: NDArray[np.float32]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def load_digits_split() -> DigitsSplit:
    """Even samples train and the first hundred of them calibrate; odd samples test."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    return DigitsSplit(images[::2], labels[::2], images[::2][:N_CALIBRATION], images[1::2], labels[1::2])
