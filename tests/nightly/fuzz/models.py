"""Models of the corpus with fields that nobody would write, and with damaged bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from tests.nightly.fuzz import odd

CORPUS = Path(__file__).parent / "corpus"
WEIGHTS_FILE = "weights.bin"
"""Where a model of the corpus keeps its weights."""

_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_USUAL = (0, 1, 2, 3, 4, 7, 8, 10, 16, 17, -1, -2, 100, 1000, 2**20)
_REALS = (0.0, -1.0, 1e-45, 1e38, float("nan"), float("inf"), float("-inf"))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A model that was changed.

    Attributes
    ----------
    seed : name of the file in the corpus.
    edits : what was changed, in words.
    content : bytes of the file.
    """

    seed: str
    edits: tuple[str, ...]
    content: bytes = field(repr=False)


@cache
def seeds() -> dict[str, bytes]:
    """Return the models of the corpus by name."""
    return {file.stem: file.read_bytes() for file in sorted(CORPUS.glob("*.onnx"))}


def mutants() -> st.SearchStrategy[Mutant]:
    """Draw models: most with changed fields, which runtimes read far into, and some with damaged bytes."""
    return st.one_of(_edited(), _edited(), _edited(), _damaged())


@st.composite
def _damaged(draw: st.DrawFn) -> Mutant:
    name = draw(st.sampled_from(list(seeds())))
    content = draw(odd.damaged([seeds()[name]]))
    return Mutant(name, (f"{len(content)} bytes, damaged",), content)


@st.composite
def _edited(draw: st.DrawFn) -> Mutant:
    name = draw(st.sampled_from(list(seeds())))
    model = onnx.ModelProto.FromString(seeds()[name])
    edits = tuple(_edit(draw, model) for _ in range(draw(st.integers(1, 3))))
    return Mutant(name, edits, model.SerializeToString())


def _edit(draw: st.DrawFn, model: onnx.ModelProto) -> str:
    way, message = _somewhere(draw, model)
    fields = [each for each in message.DESCRIPTOR.fields if each.name != "raw_data" or message.HasField("raw_data")]
    chosen = draw(st.sampled_from(fields))
    where = f"{way}.{chosen.name}"
    if chosen.is_repeated:
        return _edit_list(draw, getattr(message, chosen.name), chosen, where, model)
    if chosen.message_type is not None or draw(st.integers(0, 5)) == 0:
        message.ClearField(chosen.name)
        return f"{where} cleared"
    before = getattr(message, chosen.name)
    # Of bytes as many as there were: others are refused at the first look.
    is_content = isinstance(before, bytes) and before and draw(st.booleans())
    value = draw(st.binary(min_size=len(before), max_size=len(before)) if is_content else _values(chosen, model))
    setattr(message, chosen.name, value)
    return f"{where} = {value!r:.80}"


def _edit_list(draw: st.DrawFn, values: Any, chosen: FieldDescriptor, where: str, model: onnx.ModelProto) -> str:
    how = draw(st.sampled_from(("add", "add", "change", "change", "remove", "double", "clear")))
    if how == "add" or not values:
        if chosen.message_type is not None:
            values.add()
            return f"{where}: an empty one added"
        value = draw(_values(chosen, model))
        values.append(value)
        return f"{where}: {value!r:.80} added"
    at = draw(st.integers(0, len(values) - 1))
    if how == "remove":
        del values[at]
    elif how == "double" and chosen.message_type is not None:
        values.add().CopyFrom(values[at])
    elif how == "clear":
        del values[:]
    elif chosen.message_type is None:
        values[at] = draw(_values(chosen, model))
        return f"{where}[{at}] = {values[at]!r:.80}"
    else:
        other = draw(st.integers(0, len(values) - 1))
        values[at].CopyFrom(values[other])
        return f"{where}[{at}] = that of {other}"
    return f"{where}[{at}]: {how}"


def _somewhere(draw: st.DrawFn, model: onnx.ModelProto) -> tuple[str, Message]:
    """Draw one of the messages in `model`, near the top or deep inside alike."""
    way, message = "model", model
    while True:
        inside = list(_inside(message))
        if not inside or draw(st.integers(0, 4)) == 0:
            return way, message
        step, message = draw(st.sampled_from(inside))
        way = f"{way}.{step}"


def _inside(message: Message) -> Iterator[tuple[str, Any]]:
    for chosen, value in message.ListFields():
        if chosen.message_type is None:
            continue
        if chosen.is_repeated:
            yield from ((f"{chosen.name}[{at}]", each) for at, each in enumerate(value))
        else:
            yield chosen.name, value


def _values(chosen: FieldDescriptor, model: onnx.ModelProto) -> st.SearchStrategy[Any]:
    if chosen.enum_type is not None:
        return st.sampled_from([value.number for value in chosen.enum_type.values])
    if chosen.type in _INTEGERS:
        least, most = _INTEGERS[chosen.type]
        usual = [each for each in _USUAL if each >= least]
        return st.one_of(st.sampled_from([*usual, least, most]), st.integers(least, most))
    if chosen.type == FieldDescriptor.TYPE_STRING:
        odd_texts = [odd_one for odd_one in odd.TEXTS if "\ud800" not in odd_one]
        return st.sampled_from(
            [*_operators(), *_names(model)] if chosen.name == "op_type" else [*odd_texts, *_names(model)]
        )
    if chosen.type == FieldDescriptor.TYPE_BYTES:
        return st.one_of(st.binary(max_size=40), st.sampled_from((b"", b"\x1b[31m", bytes(4096))))
    return st.one_of(st.sampled_from(_REALS), st.floats(width=32))


@cache
def _operators() -> Sequence[str]:
    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def _names(model: onnx.ModelProto) -> list[str]:
    """Return names that the graph has, so that edits wire it anew."""
    graph = model.graph
    names = [name for node in graph.node for name in (node.name, *node.input, *node.output)]
    return sorted({*names, *(value.name for value in (*graph.input, *graph.output, *graph.initializer)), "x"})
