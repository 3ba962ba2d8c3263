"""What an archive of torch.export holds, read before PyTorch opens it, because opening one can run what it says.

PyTorch (2.13) unpickles parts of an archive without a bound, opens compiled libraries in it, evaluates expressions of
sizes and guards as Python, and writes names into source code. So each part must be one of those below, tensors must be
plain bytes, the example inputs must load with weights only, and each text that becomes Python must be of the few forms
that tracing writes. What is left is a graph of registered operators.
"""

from __future__ import annotations

import ast
import io
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.bounded import parse_json

_MODEL = "models/model.json"
_EXAMPLES = "data/sample_inputs/model.pt"
_TENSORS = {
    "data/weights/model_weights_config.json": re.compile(r"weight_\d+"),
    "data/constants/model_constants_config.json": re.compile(r"tensor_\d+"),
}
"""The list of each kind of tensors, and the names of the parts that hold their bytes."""

_PART = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)"
    r"|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/weights/(weight_\d+|model_weights_config\.json)|data/constants/(tensor_\d+|model_constants_config\.json)"
)

_IDENTIFIER = re.compile(r"\w*")
_DOTTED = re.compile(r"[\w.-]*")
_PLAIN = re.compile(r"[\w.+-]*")
_OPERATORS = frozenset(
    {
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "matmul", "getitem", "index"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "not_", "invert", "lshift", "rshift"),
    }
)
_MEASURES = frozenset({"size", "stride", "storage_offset", "shape", "ndim", "dim", "numel"})
_CONSTANTS = frozenset({"oo", "int_oo", "nan", "true", "false"})
_GUARD_CALLS = frozenset({"max", "min", "Max", "Min", "abs", "float", "int", "round", "len", "isinstance"})
_GUARD_NODES = (
    *(ast.Expression, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.IfExp, ast.Constant, ast.Subscript),
    *(ast.Tuple, ast.List, ast.Load, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
)


def refuse_code(file: Path) -> None:
    """Raise `ValueError`, with words for a message, where opening the archive at `file` could run what it says."""
    import torch

    # The reader that PyTorch itself opens it with: another one might find other parts under the same names.
    reader: Any = torch._C.PyTorchFileReader(str(file))  # noqa: SLF001 - its only home
    parts = set(reader.get_all_records())
    for name in sorted(parts):
        if not _PART.fullmatch(name):
            raise ValueError(f"part {name[:80]!r} is none of a program")
    with zipfile.ZipFile(file) as archive:
        # PyTorch falls back to a format of earlier versions, pickled throughout, where there is a part of that name.
        if "version" in archive.namelist():
            raise ValueError("part 'version' is of a format that is pickled throughout")
    for config, plain in _TENSORS.items():
        _refuse_tensors(config, parse_json(reader.get_record(config)), plain)
    _refuse_examples(reader.get_record(_EXAMPLES))
    for key, value in _texts(parse_json(reader.get_record(_MODEL))):
        check = _FORMS.get(key)
        if check is not None:
            check(value)


def _refuse_tensors(config: str, listed: Any, plain: re.Pattern[str]) -> None:
    for name, tensor in listed["config"].items():
        if tensor.get("use_pickle") is not False or not plain.fullmatch(str(tensor.get("path_name"))):
            raise ValueError(f"tensor {name[:80]!r} in {config} is pickled")


def _refuse_examples(packed: bytes) -> None:
    """Raise where PyTorch would load the example inputs without a bound, which it does when this fails."""
    import torch

    if packed:
        try:
            torch.load(io.BytesIO(packed), weights_only=True)
        except Exception as error:
            raise ValueError(f"part {_EXAMPLES!r} holds more than tensors") from error


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in JSON with the name of the field that it is in, but for notes on where a node comes from."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, key)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name == "constant_input":
                yield from (("constant", text) for _, text in _texts(one))
            elif name != "metadata":
                yield from _texts(one, name)


def _must_be(form: re.Pattern[str], text: str) -> None:
    if not form.fullmatch(text):
        raise ValueError(f"the name {text[:80]!r} is more than a name")


def _refuse_operator(text: str) -> None:
    """Raise for a function that is neither an operator of PyTorch nor arithmetic."""
    import torch
    from torch._ops import OperatorBase

    family, _, name = text.partition(".")
    if family == "_operator" and name in _OPERATORS:
        return
    if family == "math" and name.isidentifier() and callable(getattr(math, name, None)):
        return
    if re.fullmatch(r"torch\._?sym_\w+", text):
        return
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (family == "torch" and isinstance(found, OperatorBase)):
        raise ValueError(f"{text[:80]!r} is no operator")


def _refuse_size(text: str) -> None:
    """Raise for what is not an expression as SymPy writes it: calls of its classes on each other, names and numbers."""
    for node in _parsed(text):
        known = isinstance(node, (ast.Expression, ast.Load, ast.keyword, ast.UnaryOp, ast.USub))
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            known = _is_symbolic(name)
        elif isinstance(node, ast.Name):
            known = node.id in _CONSTANTS or _is_symbolic(node.id)
        elif isinstance(node, ast.Constant):
            # SymPy evaluates a text that it is given in the place of an expression, too.
            known = not isinstance(node.value, (str, bytes)) or bool(_PLAIN.fullmatch(str(node.value)))
        if not known:
            raise ValueError(f"{text[:80]!r} is no size")


def _is_symbolic(name: str) -> bool:
    """Whether a class of expressions has this name."""
    import sympy
    import torch.utils._sympy.functions as of_torch

    found = getattr(of_torch, name, None) or getattr(sympy, name, None)
    return isinstance(found, type) and issubclass(found, sympy.Basic)


def _refuse_guard(text: str) -> None:
    """Raise for what is not a comparison of sizes of the inputs."""
    for node in _parsed(text):
        known = isinstance(node, _GUARD_NODES)
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            known = name in _GUARD_CALLS or isinstance(node.func, ast.Attribute)
        elif isinstance(node, ast.Attribute):
            of_math = isinstance(node.value, ast.Name) and node.value.id == "math"
            known = node.attr in _MEASURES or (of_math and hasattr(math, node.attr))
        elif isinstance(node, ast.Name):
            known = node.id in _GUARD_CALLS or node.id in ("L", "math")
        if not known:
            raise ValueError(f"{text[:80]!r} is no guard of sizes")


def _parsed(text: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text[:80]!r} is no expression") from error


def _refuse_tree(text: str) -> None:
    """Raise for a structure of inputs or outputs that names a module to import."""
    if text and re.search("__enum__|default_factory", str(parse_json(text))):
        raise ValueError("the structure of inputs or outputs names a module")


_FORMS: Mapping[str, Callable[[str], None]] = {
    **dict.fromkeys(("name", "as_name"), partial(_must_be, _IDENTIFIER)),
    **dict.fromkeys(("parameter_name", "buffer_name", "tensor_constant_name"), partial(_must_be, _DOTTED)),
    **dict.fromkeys(("constant", "user_input_name"), partial(_must_be, _PLAIN)),
    **dict.fromkeys(("target", "as_operator"), _refuse_operator),
    **dict.fromkeys(("in_spec", "out_spec"), _refuse_tree),
    "expr_str": _refuse_size,
    "guards_code": _refuse_guard,
}
"""How each text that becomes Python must look, by the field of the graph that it is in."""
