"""The 20 labelled ImageNet pictures inside `foolbox`, ten views of each, as EfficientNet-Lite wants to see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from installed import package_folder
from numpy.typing import NDArray
from PIL import Image, ImageOps

SIZE, MEAN, SCALE = 224, 127.0, 128.0
"""Pixels of a side, and the model's own preprocessing of values 0..255."""

_CORNERS = ((0.5, 0.5), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
_EVALUATED_SHARE, _CALIBRATION_SHARE = 0.875, 0.6
"""Side of a view over the shorter side of the picture: the usual crop, and close-ups that are not evaluated."""


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Float32 (n, 3, 224, 224) in about -1..1, and ImageNet classes int64 (n,)."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def evaluation_images() -> LabelledImages:
    """Return 200 views: five crops of each picture, and their mirror images."""
    views = list(_views(_EVALUATED_SHARE, _CORNERS))
    return LabelledImages(np.stack([image for image, _ in views]), np.array([label for _, label in views]))


def calibration_images() -> NDArray[np.float32]:
    """Return 40 close-ups of the same pictures' middles, float32 (40, 3, 224, 224)."""
    return np.stack([image for image, _ in _views(_CALIBRATION_SHARE, _CORNERS[:1])])


def _views(share: float, corners: tuple[tuple[float, float], ...]) -> Iterator[tuple[NDArray[np.float32], int]]:
    for path in sorted((package_folder("foolbox") / "data").glob("imagenet_*.jpg")):
        picture = Image.open(path).convert("RGB")
        label = int(path.stem.split("_")[2])
        for (across, down), mirrored in product(corners, (False, True)):
            view = _crop(picture, share, across, down)
            yield _prepared(ImageOps.mirror(view) if mirrored else view), label


def _crop(picture: Image.Image, share: float, across: float, down: float) -> Image.Image:
    side = share * min(picture.size)
    left, top = (picture.width - side) * across, (picture.height - side) * down
    return picture.resize((SIZE, SIZE), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))


def _prepared(view: Image.Image) -> NDArray[np.float32]:
    values = (np.asarray(view, dtype=np.float32) - MEAN) / SCALE
    return np.ascontiguousarray(values.transpose(2, 0, 1))
