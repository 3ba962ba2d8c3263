"""Operators of an ONNX file that only a quantized model has: what rounds to few levels, and products of integers."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from pytest_quant.backends.onnx_files.read import all_nodes, read_graph

_QUANTIZING = re.compile(
    r"\w*(Quantize|Dequantize)Linear|DynamicQuantize\w+|(Quantize|Dequantize)(BFP|WithOrder)|FakeQuantize"
    r"|Q(Linear|Ordered)\w+|Q(Attention|EmbedLayerNormalization|Gemm|MoE)|(Conv|MatMul)Integer\w*"
    r"|MatMul(Bnb4|FpQ4|NBits)|GatherBlockQuantized|(Bipolar|Int)?Quant"
)
"""Names of the standard, of ONNX Runtime, TensorRT (``TRT_FP8QuantizeLinear``), OpenVINO and Brevitas, in any domain.

Integers alone are no sign: indices, masks, shapes and tables of words are integers in float models too.
"""


def quantizing_nodes(path: Path) -> tuple[str, ...]:
    """Return the operators of the model in `path`, its bodies and functions too, that only a quantized model has.

    What makes floats of an input of the model, a picture of uint8 for example, is none: what follows may be float.

    Returns
    -------
    One text for each, in the order of the graph: operator and name, or its first output where it has no name.

    Raises
    ------
    ModelError : see `read_graph`.
    """
    stat = path.stat()
    return _quantizing_once(str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=256)
def _quantizing_once(file: str, size: int, mtime_ns: int, ctime_ns: int) -> tuple[str, ...]:  # noqa: ARG001 - the key
    """Read `file` once per process and state: a rewritten file has another size or another time."""
    model = read_graph(Path(file))
    given = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    decodes = [one for one in model.graph.node if one.op_type == "DequantizeLinear" and given & set(one.input[:1])]
    return tuple(
        f"{node.op_type} '{node.name or next(iter(node.output), '')}'"
        for node in all_nodes(model)
        if _QUANTIZING.fullmatch(node.op_type) and node not in decodes
    )
