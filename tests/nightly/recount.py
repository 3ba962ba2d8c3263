"""Accuracy of the engines that the example's toolchains left in the cache, without pytest-quant.

Run in a process of its own. It reads ``{"cache": folder, "engines": [{"key", "backend", "data"}]}`` from standard
input and writes the accuracy of each in percent to standard output, with the runtimes called directly and the samples
read again from the packages that hold them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

SITE_PACKAGES = Path(np.__file__).parents[1]
Samples = tuple[NDArray[np.float32], NDArray[np.int64]]


def pictures() -> Samples:
    """Five crops of each picture of foolbox, and their mirror images, as the example's README describes them."""
    images, labels = [], []
    for path in sorted((SITE_PACKAGES / "foolbox" / "data").glob("imagenet_*.jpg")):
        picture = Image.open(path).convert("RGB")
        side = 0.875 * min(picture.size)
        for (across, down), mirrored in product(
            ((0.5, 0.5), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)), (False, True)
        ):
            left, top = (picture.width - side) * across, (picture.height - side) * down
            view = picture.resize((224, 224), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
            pixels = np.asarray(view, dtype=np.float32)
            pixels = pixels[:, ::-1] if mirrored else pixels
            images.append(((pixels - 127.0) / 128.0).transpose(2, 0, 1))
            labels.append(int(path.stem.split("_")[2]))
    return np.stack(images).astype(np.float32), np.array(labels)


def digits() -> Samples:
    """Every odd sample of scikit-learn's digits."""
    found = load_digits()
    return (found.images[1::2, None] / 16).astype(np.float32), found.target[1::2].astype(np.int64)


def onnx_runtime(path: Path, *, optimized: bool = True) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Return the model in ONNX Runtime; without optimization Q/DQ pairs round and products run in float."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    if not optimized:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})[0]


def openvino(path: Path) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Return the model in OpenVINO, in float32 where it is not quantized."""
    import openvino as runtime

    model = runtime.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda batch: np.array(model([batch])[0])


def torch(path: Path) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Return the program in PyTorch, not compiled: Q/DQ pairs round and products run in float."""
    import torch as runtime
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - it registers the operators of Q/DQ pairs

    program = runtime.export.load(path).module(check_guards=False)

    def run(batch: NDArray[np.float32]) -> NDArray[Any]:
        with runtime.no_grad():
            found: NDArray[Any] = program(runtime.from_numpy(batch)).numpy()
            return found

    return run


def engine(cache: Path, key: str, backend: str) -> Callable[[NDArray[np.float32]], NDArray[Any]]:
    """Return the engine that the cache holds under `key`."""
    folder = cache / "engine" / key / "files"
    if backend == "openvino":
        return openvino(folder / "model.xml")
    if backend == "torch":
        return torch(folder / "program.pt2")
    if backend == "trt-rtx":
        return onnx_runtime(folder / "model.onnx", optimized=False)
    in_place = folder / "in_place.txt"
    return onnx_runtime(exported(cache, in_place) if in_place.is_file() else folder / "model.onnx")


def exported(cache: Path, in_place: Path) -> Path:
    """Return the exported file whose digest the engine names."""
    wanted = in_place.read_text().split()[0]
    for path in cache.glob("export/*/files/model.onnx"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path
    raise FileNotFoundError(wanted)


def accuracy(run: Callable[[NDArray[np.float32]], NDArray[Any]], samples: Samples) -> float:
    """Return the share of samples whose largest output is at their class, in percent."""
    images, labels = samples
    found = np.concatenate([run(images[start : start + 20]).argmax(1) for start in range(0, len(images), 20)])
    return 100.0 * int((found == labels).sum()) / len(labels)


def main() -> None:
    """Answer the request."""
    request = json.load(sys.stdin)
    data = {"pictures": pictures(), "digits": digits()}
    cache = Path(request["cache"])
    found = [accuracy(engine(cache, one["key"], one["backend"]), data[one["data"]]) for one in request["engines"]]
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
