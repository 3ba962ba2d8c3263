"""The figures of the example without pytest-quant: only ONNX Runtime, onnx, numpy and the packages of the data.

Run in a process of its own. It reads a list of requests from standard input, each of them ``{"subject": "digits" or
"magika", "recipe": ..., "calibration": [indices], "evaluation": [indices]}``, and writes the list of their figures to
standard output. The recipe is the one that README.md describes; the samples are read again from the packages that hold
them.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

Arrays = tuple[Path, NDArray[Any], NDArray[np.int64]]
SITE_PACKAGES = Path(onnx.__file__).parents[1]
DATA_PACKAGES = (
    "ansible_core-2.19.14",
    "django-5.2.19",
    "googleapis_common_protos-1.76.0",
    "mkdocs-1.6.1",
    "sphinx-9.0.4",
    "vega_datasets-0.9.0",
)
EXTENSIONS = (
    *("cs", "css", "csv", "ico", "js", "json", "md", "png", "po", "proto"),
    *("ps1", "py", "rst", "sty", "svg", "toml", "ttf", "woff", "woff2", "yml"),
)
MOST_FILES, LEAST_BYTES = 60, 256
INTEGER_KERNELS = ("QLinearConv", "QLinearMatMul", "QGemm", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul")


@cache
def digits() -> Arrays:
    """All 1797 digits of scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.asarray(bunch.images, dtype=np.float32).reshape(-1, 1, 8, 8) / np.float32(16)
    return Path(__file__).parents[2] / "example_project" / "digits.onnx", images, bunch.target.astype(np.int64)


@cache
def magika() -> Arrays:
    """Files by their extension, seen as the `magika` package itself sees a file; its knowledge base names the types."""
    import magika as package
    from magika.types.seekable import Seekable

    folder = Path(package.__file__).parent
    model = folder / "models" / "standard_v3_3"
    config = json.loads((model / "config.min.json").read_text("utf-8"))
    content_types = json.loads((folder / "config" / "content_types_kb.min.json").read_text("utf-8"))
    rows: list[list[int]] = []
    labels: list[int] = []
    for extension in EXTENSIONS:
        (name,) = [
            name
            for name, kind in content_types.items()
            if extension in kind["extensions"] and name in config["target_labels_space"]
        ]
        seen: dict[tuple[int, ...], None] = {}
        for content in contents(extension):
            features = package.Magika._extract_features_from_seekable(
                Seekable(BytesIO(content)), 1024, 0, 1024, config["padding_token"], config["block_size"], False
            )
            seen.setdefault((*features.beg, *features.end))
        step = max(1, len(seen) // MOST_FILES)
        chosen = list(seen)[::step][:MOST_FILES]
        rows += [list(row) for row in chosen]
        labels += [config["target_labels_space"].index(name)] * len(chosen)
    return model / "model.onnx", np.array(rows, dtype=np.int32), np.array(labels)


def contents(extension: str) -> Iterator[bytes]:
    """Yield the files that the wheels' own records list, package by package in the order of their paths."""
    for package in DATA_PACKAGES:
        record = SITE_PACKAGES / f"{package}.dist-info" / "RECORD"
        with record.open(newline="", encoding="utf-8") as lines:
            paths = sorted(row[0] for row in csv.reader(lines))
        for path in paths:
            if Path(path).suffix == f".{extension}":
                content = (SITE_PACKAGES / path).read_bytes()
                if len(content) >= LEAST_BYTES:
                    yield content


class Reader(CalibrationDataReader):  # type: ignore[misc] # an untyped package
    """One calibration sample at a time."""

    def __init__(self, name: str, samples: NDArray[Any]) -> None:
        self._feeds = iter([{name: sample[None]} for sample in samples])

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """Return the next one, or ``None`` after the last."""
        return next(self._feeds, None)


def prepare(source: Path, target: Path) -> Path:
    """Pre-process; biases of the Gemm nodes that this makes get one axis, because the quantizer expects that."""
    try:
        quant_pre_process(source, target)
    except Exception:
        # Symbolic shapes are beyond it for models such as Magika, and that is how it says so.
        quant_pre_process(source, target, skip_symbolic_shape=True)
    model = onnx.load(target)
    biases = {node.input[2] for node in model.graph.node if node.op_type == "Gemm"}
    for tensor in model.graph.initializer:
        if tensor.name in biases:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).reshape(-1), tensor.name))
    stale = {tensor.name for tensor in model.graph.initializer}
    value_infos = [value for value in model.graph.value_info if value.name not in stale]
    del model.graph.value_info[:]
    model.graph.value_info.extend(value_infos)
    onnx.save(model, target)
    return target


def quantize(source: Path, target: Path, samples: NDArray[Any], recipe: dict[str, Any]) -> None:
    """Follow the documented recipe."""
    prepared = prepare(source, target.with_name("prepared.onnx"))
    reduce_range = not {"avx512_vnni", "avx_vnni"} & set(Path("/proc/cpuinfo").read_text("utf-8").split())
    options = {"op_types_to_quantize": recipe["op_types"], "per_channel": recipe["per_channel"]}
    if recipe["scheme"] == "dynamic":
        quantize_dynamic(prepared, target, weight_type=QuantType.QInt8, reduce_range=reduce_range, **options)
        return
    name = onnx.load(source).graph.input[0].name
    quantize_static(
        prepared,
        target,
        Reader(name, samples),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        reduce_range=reduce_range,
        **options,
    )


def open_session(model: Path, profile: Path | None = None) -> onnxruntime.InferenceSession:
    """Open on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def logits(model: Path, samples: NDArray[Any], size: int = 32) -> NDArray[np.float64]:
    """Run over the samples in batches of `size` and return all outputs, (n, classes)."""
    session = open_session(model)
    name = session.get_inputs()[0].name
    parts = [session.run(None, {name: samples[i : i + size]})[0] for i in range(0, len(samples), size)]
    return np.concatenate(parts).astype(np.float64)


def multiply_accumulates(prepared: Path) -> dict[str, int]:
    """Return those of each Conv, Gemm and MatMul of the float model for one sample, by node name."""
    model = onnx.load(prepared)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.value_info, *model.graph.output, *model.graph.input)
    }
    shapes |= {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    result = {}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            weight = shapes[node.input[1]]
            positions = np.prod(shapes[node.output[0]]) / (weight[0] if node.op_type == "Conv" else weight[-1])
            if node.op_type == "Gemm":
                positions = 1
            result[node.name] = int(positions * np.prod(weight))
    return result


def coverage_pct(prepared: Path, model: Path, sample: NDArray[Any]) -> float:
    """Return the share of multiply-accumulates that integer kernels did, as the profile of one run tells."""
    work = multiply_accumulates(prepared)
    session = open_session(model, model.with_name("profile"))
    session.run(None, {session.get_inputs()[0].name: sample[None]})
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    ran = {
        event["name"].removesuffix("_kernel_time"): event["args"]["op_name"]
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    }
    integer = sum(
        macs
        for name, macs in work.items()
        if any(kernel in INTEGER_KERNELS and node.startswith(name) for node, kernel in ran.items())
    )
    return 100 * integer / sum(work.values())


def figures(request: dict[str, Any]) -> dict[str, float]:
    """Quantize, run both models, and compute every figure from its formula."""
    source, samples, labels = {"digits": digits, "magika": magika}[request["subject"]]()
    calibration, evaluation = samples[request["calibration"]], samples[request["evaluation"]]
    truth = labels[request["evaluation"]]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "quantized.onnx"
        quantize(source, target, calibration, request["recipe"])
        # A dynamic engine finds its ranges in each batch: it is judged at the batch size that is timed, which is one.
        size = 1 if request["recipe"]["scheme"] == "dynamic" else 32
        reference, candidate = logits(source, evaluation), logits(target, evaluation, size)
        right = [int(np.sum(outputs.argmax(axis=1) == truth)) for outputs in (reference, candidate)]
        return {
            "n": len(truth),
            "reference": 100 * right[0] / len(truth),
            "candidate": 100 * right[1] / len(truth),
            "drop": 100 * (right[0] - right[1]) / len(truth),
            "agreement_pct": 100 * float(np.mean(reference.argmax(axis=1) == candidate.argmax(axis=1))),
            "sqnr_db": 20 * float(np.log10(np.linalg.norm(reference) / np.linalg.norm(reference - candidate))),
            "size_mb": target.stat().st_size / 1e6,
            "reference_size_mb": source.stat().st_size / 1e6,
            "coverage_pct": coverage_pct(target.with_name("prepared.onnx"), target, evaluation[0]),
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([figures(request) for request in json.load(sys.stdin)]))
