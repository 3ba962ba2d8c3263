"""A module as a digest: of its weights, code and attributes, whatever they are packed in."""

from __future__ import annotations

import hashlib
import inspect
import io
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from pytest_quant.backends.runtime import failing_as
from pytest_quant.backends.torch.module import CONSTANTS, copy_of, free_axes, input_leaves, is_graph
from pytest_quant.backends.torch.options import torch_quiet
from pytest_quant.errors import ModelError
from pytest_quant.spec import Model

_STATE_FIX = "make torch.save(module.state_dict(), file) work"


class _Digest(io.BytesIO):
    """A file that keeps the digest of what is written into it, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return len(data)


def module_digest(model: Model) -> str:
    """Return SHA-256 of weights, buffers, code, plain attributes and the example inputs' shapes.

    Code is the source of every class that is not torch's own, and of a traced graph its text.
    """
    module, digest = copy_of(model), _Digest()
    with torch_quiet(), failing_as(f"the state of '{model.name}' cannot be written", _STATE_FIX, ModelError):
        # As bytes it has whatever weights are packed in, and what get_extra_state() returned.
        torch.save(module.state_dict(), digest)
    for part in _parts(module, model):
        digest.write(part + b"\0")
    return digest.sha256.hexdigest()


def _parts(module: Any, model: Model) -> Iterator[bytes]:
    for name, child in module.named_modules():
        yield f"{name} {type(child).__module__}.{type(child).__qualname__} {child.extra_repr()}".encode()
        if is_graph(child):
            yield str(child.code).encode()
        elif not type(child).__module__.startswith(("torch.", "torchao.")):
            yield _source(type(child).__module__).encode()
        attributes = sorted((key, _text(value)) for key, value in vars(child).items() if not key.startswith("_"))
        yield repr(attributes).encode()
    for name, each in input_leaves(model).items():
        yield f"{name} {getattr(each, 'dtype', repr(each))} {tuple(getattr(each, 'shape', ()))}".encode()
    yield repr(free_axes(model)).encode()
    yield f"{_text(model.reset)} {_source(getattr(model.reset, '__module__', ''))}".encode()


def _text(value: object) -> str:
    """Return an attribute as text, without the address that a repr may hold."""
    if isinstance(value, CONSTANTS):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[_text(item) for item in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(_text, value))}"
    if isinstance(value, dict):
        return repr(sorted((str(key), _text(item)) for key, item in value.items()))
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    # Of others, those fields count that are sure not to lead back to it.
    held = [(key, item) for key, item in getattr(value, "__dict__", {}).items() if isinstance(item, CONSTANTS)]
    return f"{type(value).__qualname__}{sorted(held)}"


@lru_cache(maxsize=256)
def _source(module_name: str) -> str:
    """Return the text of the file that defines a class: the functions that its methods call are mostly there too."""
    try:
        file = inspect.getsourcefile(sys.modules[module_name])
        return "" if file is None else Path(file).read_text(encoding="utf-8")
    except (KeyError, OSError, TypeError):
        return ""
