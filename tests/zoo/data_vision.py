"""Data for the models that look at pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from tests.zoo import pictures
from tests.zoo.entry import Samples

CALIBRATION, EVALUATION = 8, 16


def pages() -> Samples:
    """Printed pages turned by 0, 90, 180 or 270 degrees; the label is the index of the angle."""
    rng = np.random.default_rng(1)
    feeds, labels = [], []
    for index in range(CALIBRATION + EVALUATION):
        turned = pictures.page(rng).rotate(-90 * (index % 4), expand=True).resize((256, 256), Image.Resampling.LANCZOS)
        feeds.append({"x": pictures.standardized(turned.crop((16, 16, 240, 240)))})
        labels.append(index % 4)
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION:], labels[CALIBRATION:])


def captchas() -> Samples:
    """Six drawn characters, pixels 0..255, blue first; the label is the text."""
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list(pictures.DIGITS_AND_CAPITALS), size=5)) for _ in range(CALIBRATION + EVALUATION)]
    feeds = [{"image": np.ascontiguousarray(pictures.planes(pictures.captcha(rng, text))[::-1])} for text in texts]
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION:], texts[CALIBRATION:])


def _photographs(sizes: list[tuple[int, int]], name: str, scale: float) -> Samples:
    """Each photograph in every size (width, height), and mirrored; the first eight calibrate."""
    feeds = []
    for index, photograph in enumerate(pictures.photographs()):
        for width, height in sizes:
            small = photograph.resize((width, height), Image.Resampling.BILINEAR)
            feeds.append({name: pictures.planes(small) * np.float32(scale)})
            if index % 2:
                feeds.append({name: np.ascontiguousarray(feeds[-1][name][:, :, ::-1])})
    return Samples(feeds[:CALIBRATION], feeds[CALIBRATION : CALIBRATION + EVALUATION])


def patches() -> Samples:
    """Parts of photographs of 32 x 32, pixels 0..255, the only size that the file takes as it is."""
    rng = np.random.default_rng(8)
    feeds = []
    for photograph in pictures.photographs() * 3:
        small = photograph.resize((96, 96), Image.Resampling.BILINEAR)
        left, top = (int(v) for v in rng.integers(0, 64, 2))
        feeds.append({"input.1": pictures.planes(small.crop((left, top, left + 32, top + 32)))})
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
        image = pictures.table(rng, rows=2 + index % 4, columns=2 + index % 3)
        ratio = 488 / max(image.size)
        resized = image.resize((int(image.width * ratio), int(image.height * ratio)), Image.Resampling.BILINEAR)
        planes = pictures.standardized(resized)[::-1]
        square = np.zeros((3, 488, 488), dtype=np.float32)
        square[:, : planes.shape[1], : planes.shape[2]] = planes
        feeds.append({"x": square})
    return Samples(feeds[:4], feeds[4:])


def photographs_channels_last() -> Samples:
    """Photographs of 224 x 224 less the mean pixel of Caffe, blue first, channels last."""
    mean = np.array([104, 117, 123], dtype=np.float32)
    feeds = []
    for photograph in pictures.photographs():
        for mirrored in (False, True):
            pixels = np.asarray(photograph.resize((224, 224)), dtype=np.float32)[:, :: -1 if mirrored else 1, ::-1]
            feeds.append({"input:0": np.ascontiguousarray(pixels - mean)})
    return Samples(feeds[:16], feeds[16:])


def detector_squares() -> Samples:
    """Photographs with a word on them, 416 x 416, pixels 0..255, blue first."""
    rng = np.random.default_rng(4)
    feeds = []
    for photograph in pictures.photographs():
        image = photograph.resize((416, 416))
        word = pictures.line_of_text(str(rng.choice(pictures.WORDS)).upper(), 60)
        image.paste(word, (int(rng.integers(0, 200)), int(rng.integers(0, 200))))
        feeds.append({"images": np.ascontiguousarray(pictures.planes(image)[::-1])})
    return Samples(feeds[:8], feeds[8:])


def _lines(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(pictures.WORDS, size=int(rng.integers(1, 4)))) for _ in range(count)]


def lines_of_text() -> Samples:
    """Printed words 48 high, -1..1, as wide as they are rounded up to 32; the label is the text."""
    texts = _lines(16 + 32, 5)
    feeds = []
    for text in texts:
        image = pictures.line_of_text(text, 48)
        wide = Image.new("RGB", (-(-image.width // 32) * 32, 48), pictures.WHITE)
        wide.paste(image)
        feeds.append({"x": pictures.planes(wide) / np.float32(127.5) - 1})
    return Samples(feeds[:16], feeds[16:], texts[16:])


def _words(rng: np.random.Generator, count: int) -> list[str]:
    """Words of one piece, each another one."""
    pairs = [one + other for one in pictures.WORDS for other in pictures.WORDS]
    return [str(word) for word in rng.permutation(pairs)[:count]]


def grey_lines() -> Samples:
    """Single printed words 64 high, grey, 0..1."""
    rng = np.random.default_rng(6)
    feeds = []
    for word in _words(rng, 8 + 16):
        image = pictures.line_of_text(word, 64).convert("L")
        feeds.append({"input1": (np.asarray(image, dtype=np.float32) / 255)[None]})
    return Samples(feeds[:8], feeds[8:])


def pages_with_lines() -> Samples:
    """Printed pages of two sizes for a detector of text."""
    rng = np.random.default_rng(7)
    feeds = [{"x": pictures.standardized(pictures.page(rng, (320, 256)[index % 2]))} for index in range(8 + 16)]
    return Samples(feeds[:8], feeds[8:])
