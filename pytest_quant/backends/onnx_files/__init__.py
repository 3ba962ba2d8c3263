"""ONNX files: whether they are whole, their inputs and outputs, weights beside them, and digests.

No runtime is needed. A file is read once per process and state where nothing but its content is told.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, wraps
from pathlib import Path, PureWindowsPath
from typing import TypeVar

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import uses_external_data

from pytest_quant.backends.onnx_files.graphs import all_nodes, bodies_of, constant_names, graphs_in, opened_size
from pytest_quant.errors import ModelFileError, UsageError
from pytest_quant.spec import Model, Signature, TensorInfo

Answer = TypeVar("Answer")

EMBED_BYTES = 1_500_000_000
"""A protobuf file ends at 2 GB; larger models keep their weights beside it."""

_MOST_IN_SHAPES = 4096
"""Values of an initializer that may decide shapes; of a larger one, its own shape is all that inference needs."""

MOST_OPENED = 1e9
"""What a runtime may make of a file before it runs, see `opened_size`: some bytes could keep it busy for ever."""

_HAND_ON = {"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose output holds values of their first input; ``Concat`` of all of them."""

_SIZE = re.compile("[0-9]{1,18}")
"""An offset or a length; a file of more bytes cannot be."""

_QUANTIZING = re.compile(
    r"\w*(Quantize|Dequantize)Linear|DynamicQuantize\w+|(Quantize|Dequantize)(BFP|WithOrder)|FakeQuantize"
    r"|Q(Linear|Ordered)\w+|Q(Attention|EmbedLayerNormalization|Gemm|MoE)|(Conv|MatMul)Integer\w*"
    r"|MatMul(Bnb4|FpQ4|NBits)|GatherBlockQuantized|(Bipolar|Int)?Quant"
)
"""Names of the standard, of ONNX Runtime, TensorRT (``TRT_FP8QuantizeLinear``), OpenVINO and Brevitas, in any domain.

Integers alone are no sign: indices, masks, shapes and tables of words are integers in float models too.
"""


def _once(read: Callable[[Path], Answer]) -> Callable[[Path], Answer]:
    """Let `read` read each file once per process and state: a rewritten file has another size or another time."""

    @lru_cache(maxsize=256)
    def read_state(path: Path, *_: int) -> Answer:
        return read(path)

    @wraps(read)
    def answer(path: Path) -> Answer:
        if not path.is_file():
            return read(path)
        stat = path.stat()
        return read_state(path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)

    return answer


def model_file(model: Model) -> Path:
    """Return the ONNX file of `model`.

    Raises
    ------
    UsageError : it is a torch module, which has no file.
    """
    if model.path is None:
        raise UsageError(
            f"model '{model.name}' is a torch module, and this backend reads ONNX files",
            allowed="a path, or Model.from_onnx(path)",
            fix="write it with torch.onnx.export(module, example_inputs, 'model.onnx', dynamo=True) and give that path",
        )
    return model.path


def read_graph(path: Path) -> onnx.ModelProto:
    """Return the model in `path` without its external data, which is only checked to be there.

    Raises
    ------
    ModelFileError : the file is missing, truncated or not ONNX, or its external data is missing, too short or
        outside the model's folder.
    """
    if not path.is_file():
        raise ModelFileError(
            f"the model file does not exist: {path}" if not path.exists() else f"the model is not a file: {path}",
            fix="check the path; a relative one counts from the test file, else from pytest's root directory",
        )
    try:
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise _format_error(path) from error
    if not model.ir_version or not model.opset_import or any(type(text) is not str for text in _texts(model)):
        raise _format_error(path)
    if not model.graph.output:
        raise ModelFileError(
            f"the model has no output, so that there is nothing to compare: {path}",
            value=f"{len(model.graph.node)} nodes, {len(model.graph.input)} inputs, 0 outputs",
            fix="export it again with its outputs, or name them: onnx.utils.extract_model(path, new, inputs, outputs)",
        )
    if (size := opened_size(model)) > MOST_OPENED:
        raise ModelFileError(
            f"the model becomes too large where a runtime opens it: {path}",
            value=f"{size:.2g} numbers of constants, each node of functions within functions counted as a thousand",
            allowed=f"{MOST_OPENED:.2g}",
            fix="export it again without functions inside functions, and with tensors of such a size as inputs",
        )
    external_files(model, path)
    return model


def _texts(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the names in a model, and the entries of its external data: text, or bytes if damage made them so."""
    for node in all_nodes(model):
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
    for graph in graphs_in(model):
        for value in (*graph.input, *graph.output):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for tensor in _tensors(model):
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _format_error(path: Path) -> ModelFileError:
    return ModelFileError(
        f"the model is not a whole ONNX file: {path}",
        value=f"{path.stat().st_size} bytes that do not parse as an ONNX model",
        allowed="an ONNX model in the protobuf format",
        fix="write or download the file again; if it is a Git LFS pointer, run: git lfs pull; weights of PyTorch go "
        "into their module: Model.from_torch(module, (example_input,))",
    )


def external_files(model: onnx.ModelProto, path: Path) -> dict[str, Path]:
    """Return the external data files of the model in `path`: location, as the graph spells it, and file.

    Raises
    ------
    ModelFileError : a file is missing, shorter than the graph says, or outside the model's folder; or an entry is
        damaged.
    """
    ends: dict[str, int] = {}
    for tensor in filter(uses_external_data, _tensors(model)):
        location, end = _place_of(tensor, path)
        ends[location] = max(ends.get(location, 0), end)
    return {location: _require_whole_file(location, ends[location], path) for location in sorted(ends)}


def _place_of(tensor: onnx.TensorProto, path: Path) -> tuple[str, int]:
    """Return the file of a tensor's external data, as the graph spells it, and the byte in it where the data ends."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    numbers = [entries.get(key) or "0" for key in ("offset", "length")]
    location = entries.get("location", "")
    if location.strip() and "\0" not in location and all(map(_SIZE.fullmatch, numbers)):
        return location, sum(map(int, numbers))
    raise ModelFileError(
        f"external data of {path.name} cannot be found: the entry of '{tensor.name}' is damaged",
        value=", ".join(f"{key} {value[:80]!r}" for key, value in entries.items()) or "no entry",
        allowed="a location, and an offset and a length in bytes that are not negative",
        fix="write or download the model again",
    )


def _require_whole_file(location: str, end: int, path: Path) -> Path:
    """Return the file at `location`, which has `end` bytes or more and lies with the model in `path`."""
    normal = os.path.normpath(location.replace("\\", "/"))
    if normal.startswith("..") or Path(normal).is_absolute() or PureWindowsPath(location).drive:
        raise ModelFileError(
            f"external data of {path.name} points outside the model's folder",
            value=location,
            allowed=f"a file in {path.parent}",
            fix="save the model again with onnx.save_model(model, path, save_as_external_data=True)",
        )
    file = path.parent / normal
    if not os.path.isfile(file):  # noqa: PTH113 - of `pathlib` it raises where the name is too long for a file
        raise ModelFileError(
            f"external data of {path.name} is missing: {file}",
            fix=f"put {file.name} beside the model, or save the model again with its weights inside",
        )
    if file.stat().st_size < end:
        raise ModelFileError(
            f"external data of {path.name} is truncated: {file}",
            value=f"{file.stat().st_size} bytes",
            allowed=f"at least {end} bytes, by the model's own table",
            fix="write or download the file again",
        )
    return file


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in graphs_in(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def needs_external_data(path: Path) -> bool:
    """Tell whether a model of this size must keep its weights in a file of their own."""
    return size_bytes(path) > EMBED_BYTES


def write_model(model: onnx.ModelProto, path: Path) -> None:
    """Write `model` to `path`, and large weights to ``path.data``; a file that was there is replaced."""
    external = model.ByteSize() > EMBED_BYTES
    (path.parent / f"{path.name}.data").unlink(missing_ok=True)
    onnx.save_model(
        model, path, save_as_external_data=external, all_tensors_to_one_file=external, location=f"{path.name}.data"
    )


def file_digests(path: Path) -> dict[str, str]:
    """Return SHA-256 of the model in `path` under ``""`` and of each external data file under its location.

    Raises
    ------
    ModelFileError : see `read_signature`.
    """
    files = _outline(path)[1]
    return {"": sha256_of(path)} | {location: sha256_of(file) for location, file in files.items()}


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the model in `path` and its external data files. Raises `ModelFileError`, see `read_signature`."""
    return path, *_outline(path)[1].values()


def model_ingredients(name: str, model: Model) -> dict[str, str]:
    """Return the digests of the files of `model`, under names that begin with `name`. Raises `ModelFileError`."""
    digests = file_digests(model_file(model))
    return {f"{name} data {location}" if location else name: digest for location, digest in digests.items()}


def digests_of(files: Sequence[str]) -> str:
    """Return SHA-256 of each file, for a key."""
    return " ".join(sha256_of(Path(file)) for file in files)


def size_bytes(path: Path) -> int:
    """Return the size of the model in `path` together with its external data."""
    return path.stat().st_size + sum(file.stat().st_size for file in _outline(path)[1].values())


@_once
def sha256_of(file: Path) -> str:
    """Return SHA-256 of the bytes of `file`, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_signature(path: Path) -> Signature:
    """Return the inputs and outputs of the model in `path`; symbolic and unknown sizes are ``None``.

    Raises
    ------
    ModelFileError : see `read_graph`; or an input or output is not a tensor.
    """
    return _outline(path)[0]


def has_bodies(path: Path) -> bool:
    """Tell whether the model in `path` has an If, a Loop or a Scan. Raises `ModelFileError`, see `read_signature`."""
    return _outline(path)[2]


def read_nodes(path: Path) -> onnx.ModelProto:
    """Return what `read_graph` does, without the values of large initializers. Raises `ModelFileError`."""
    nodes = onnx.ModelProto()
    nodes.CopyFrom(_nodes(path))
    return nodes


@_once
def _nodes(path: Path) -> onnx.ModelProto:
    model = read_graph(path)
    for graph in graphs_in(model):
        for tensor in graph.initializer:
            if math.prod(tensor.dims) > _MOST_IN_SHAPES:
                tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))
    # Of a message, memory is given back as a whole.
    nodes = onnx.ModelProto()
    nodes.CopyFrom(model)
    return nodes


@_once
def _outline(path: Path) -> tuple[Signature, dict[str, Path], bool, tuple[str, ...]]:
    """Return what is read of a model at once.

    That is its inputs and outputs, its files of weights, see `external_files`, whether it has bodies, and the operators
    that quantize, see `find_quantizing_nodes`.
    """
    model = _nodes(path)
    constants = constant_names(model.graph)
    signature = Signature(
        inputs=tuple(_tensor(value, path) for value in model.graph.input if value.name not in constants),
        outputs=tuple(_tensor(value, path) for value in model.graph.output),
    )
    has_bodies = any(any(bodies_of(node)) for node in all_nodes(model))
    return signature, external_files(model, path), has_bodies, tuple(_find_quantizing(model, constants))


def _tensor(value: onnx.ValueInfoProto, path: Path) -> TensorInfo:
    kind, tensor = value.type.WhichOneof("value"), value.type.tensor_type
    if kind != "tensor_type" or tensor.elem_type not in onnx.TensorProto.DataType.values()[1:]:
        raise ModelFileError(
            f"'{value.name}' of {path.name} is not a tensor, or of a type that ONNX does not have",
            value=f"{kind}, element type {tensor.elem_type}",
            allowed="tensors as inputs and outputs",
            fix="cut the model before the node that makes it; for a ZipMap of skl2onnx: options={'zipmap': False}",
        )
    dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if not tensor.HasField("shape"):
        return TensorInfo(value.name, dtype, None)
    dims = tensor.shape.dim
    # Some exporters write a free axis as -1.
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in dims)
    return TensorInfo(value.name, dtype, sizes, tuple(dim.dim_param for dim in dims))


def read_table_rows(path: Path) -> dict[str, int]:
    """Return for inputs that index an embedding table its number of rows; the smallest if there are several.

    A table is a constant that a ``Gather`` reads at the values of the input, whatever shape they are brought
    into before. Values that were computed from an input are not followed. Raises `ModelError`, see `read_graph`.
    """
    model = _nodes(path)
    shapes = {tensor.name: tuple(tensor.dims) for graph in graphs_in(model) for tensor in graph.initializer}
    source = {value.name: {value.name} for value in model.graph.input if value.name not in shapes}
    rows: dict[str, int] = {}
    for node in all_nodes(model):
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant" and node.output and "value" in attributes:
            shapes[node.output[0]] = tuple(attributes["value"].t.dims)
        elif node.op_type == "Gather" and len(node.input) == 2:
            shape, axis = shapes.get(node.input[0], ()), attributes["axis"].i if "axis" in attributes else 0
            if -len(shape) <= axis < len(shape):
                rows |= {name: min(shape[axis], rows.get(name, shape[axis])) for name in source.get(node.input[1], ())}
        elif node.op_type in _HAND_ON and node.output:
            handed = node.input if node.op_type == "Concat" else node.input[:1]
            source[node.output[0]] = set().union(*(source.get(name, set()) for name in handed))
    return rows


def find_quantizing_nodes(path: Path) -> tuple[str, ...]:
    """Return the operators of the model in `path`, its bodies and functions too, that only a quantized model has.

    What makes floats of an input of the model, a picture of uint8 for example, is none: what follows may be float.

    Returns
    -------
    One text for each, in the order of the graph: operator and name, or its first output where it has no name.

    Raises
    ------
    ModelError : see `read_signature`.
    """
    return _outline(path)[3]


_HALVES: dict[int, str] = {onnx.TensorProto.FLOAT16: "fp16", onnx.TensorProto.BFLOAT16: "bf16"}


def find_halves(path: Path) -> frozenset[str]:
    """Return which of ``fp16`` and ``bf16`` weights of the model in `path` have: constants of two axes or more.

    Raises
    ------
    ModelError : see `read_signature`.
    """
    weights = (tensor for tensor in _tensors(_nodes(path)) if len(tensor.dims) > 1)
    return frozenset(_HALVES[tensor.data_type] for tensor in weights if tensor.data_type in _HALVES)


def _find_quantizing(model: onnx.ModelProto, constants: Collection[str]) -> Iterator[str]:
    given = {value.name for value in model.graph.input}.difference(constants)
    decodes = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and given & set(node.input[:1])]
    for node in all_nodes(model):
        if _QUANTIZING.fullmatch(node.op_type) and node not in decodes:
            yield f"{node.op_type} '{node.name or next(iter(node.output), '')}'"
