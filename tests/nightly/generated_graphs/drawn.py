"""Whole graphs with their data: a plan that hypothesis draws and a finding is written down as, and what it builds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.nightly.generated_graphs.operators import (
    IMAGE,
    SAMPLES,
    SEQUENCE,
    SIDE,
    STEPS,
    VECTOR,
    Builder,
    Input,
    Operator,
    Value,
)

N, N_CALIBRATION, TABLE, CLASSES = 11, 24, 9, 5
OPERATORS: dict[str, dict[str, Operator]] = {
    "vector": VECTOR,
    "image": IMAGE,
    "NHWC": IMAGE,
    "sequence": SEQUENCE,
    "time-major": SEQUENCE,
    "ids": SEQUENCE,
}
"""Operators by the kind of input; none of them changes the number of axes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a graph is made of.

    Attributes
    ----------
    kind : layout of the first input.
    batch : name or size of the axis that counts samples.
    operators : names from the table of that kind, in order.
    second_input : another input is added to the last value.
    head : brings the last value down to (n, classes).
    extra : another output: one from the middle, class indices, or a table that is the same for all samples.
    free_axes : steps, or height and width, are free.
    constant_nodes : weights are nodes.
    """

    scheme: Literal["static", "dynamic"]
    kind: str
    operators: tuple[str, ...]
    batch: str | int = "n"
    opset: int = 17
    seed: int = 0
    second_input: bool = False
    head: bool = True
    extra: Literal["none", "middle", "classes", "table"] = "none"
    free_axes: bool = False
    constant_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A model, its data, and what is known about it by construction.

    Attributes
    ----------
    inputs, calibration : data (n, ...) by input name, one value for all samples where no axis counts them.
    labels : classes (n,) of the first output, ``None`` where it is not (n, classes).
    input_axes, output_axes : the axis that counts samples, ``None`` without one.
    fixed : the batch size where the graph fixes it.
    """

    plan: Plan
    model: onnx.ModelProto = field(repr=False)
    inputs: dict[str, NDArray[Any]] = field(repr=False)
    calibration: dict[str, NDArray[Any]] = field(repr=False)
    labels: NDArray[np.int64] | None = field(repr=False)
    input_axes: dict[str, int | None]
    output_axes: dict[str, int | None]
    fixed: int | None


def plans() -> st.SearchStrategy[Plan]:
    """Draw plans of up to four operators; the simplest is a vector through one of them."""
    return st.sampled_from(list(OPERATORS)).flatmap(
        lambda kind: st.builds(
            Plan,
            scheme=st.sampled_from(("static", "dynamic")),
            kind=st.just(kind),
            operators=st.lists(st.sampled_from(sorted(OPERATORS[kind])), min_size=1, max_size=4).map(tuple),
            batch=st.sampled_from(("n", "batch_size", "N", 1, 4)),
            opset=st.integers(11, 21),
            seed=st.integers(0, 2**16 - 1),
            second_input=st.booleans(),
            head=st.booleans(),
            extra=st.sampled_from(("none", "middle", "classes", "table")),
            free_axes=st.booleans(),
            constant_nodes=st.booleans(),
        )
    )


def build(plan: Plan) -> Drawn:
    """Return the graph of `plan` with its data."""
    b = Builder(plan.opset, plan.batch, plan.seed, plan.constant_nodes)
    if plan.free_axes:
        b.free |= {STEPS: "steps", SIDE: "side"}
    values = [_start(b, plan.kind)]
    for name in plan.operators:
        values.append(OPERATORS[plan.kind][name](b, values[-1]))
    last = _second_input(b, values[-1]) if plan.second_input else values[-1]
    scores = _head(b, last) if plan.head else last
    b.output(scores, stem="scores")
    if plan.extra == "middle":
        b.output(values[1])
    elif plan.extra == "classes":
        chosen = b.single_node("ArgMax", [scores.name], scores.shape[:-1], axis=len(scores.shape) - 1, keepdims=0)
        b.output(Value(chosen.name, chosen.shape, "int64"))
    elif plan.extra == "table":
        b.output(Value(b.weight(3, 2), (3, 2)), stem="anchors")
    return _drawn(plan, b)


def _start(b: Builder, kind: str) -> Value:
    if kind == "vector":
        return b.input("x", (SAMPLES, 8))
    if kind == "image":
        return b.input("image", (SAMPLES, 3, SIDE, SIDE))
    if kind == "sequence":
        return b.input("x", (SAMPLES, STEPS, 8))
    if kind == "time-major":
        return b.input("x", (STEPS, SAMPLES, 8))
    if kind == "NHWC":
        image = b.input("image", (SAMPLES, SIDE, SIDE, 3))
        return b.single_node("Transpose", [image.name], (SAMPLES, 3, SIDE, SIDE), perm=[0, 3, 1, 2])
    ids = b.input("ids", (SAMPLES, STEPS), "int64", TABLE)
    return b.single_node("Gather", [b.weight(TABLE, 8), ids.name], (SAMPLES, STEPS, 8))


def _second_input(b: Builder, value: Value) -> Value:
    """Add another input of the same shape to `value`: bool where the value is a vector, else float."""
    if len(value.shape) == 2:
        mask = b.input("mask", value.shape, "bool")
        other = b.single_node("Cast", [mask.name], value.shape, to=1)
    else:
        other = b.input("other", value.shape)
    return b.single_node("Add", [value.name, other.name], value.shape)


def _head(b: Builder, value: Value) -> Value:
    """Bring anything down to (n, classes)."""
    if len(value.shape) == 4:
        pooled = b.single_node("GlobalAveragePool", [value.name], (*value.shape[:2], 1, 1))
        value = b.single_node("Flatten", [pooled.name], value.shape[:2])
    elif len(value.shape) == 3:
        axis = 1 - int(value.axis or 0)
        value = b.axes("ReduceMean", value, [axis], (SAMPLES, value.shape[2]), since=18, keepdims=0)
    bias = b.constant(b.random.normal(size=CLASSES).astype(np.float32))
    return b.single_node("Gemm", [value.name, b.weight(int(value.shape[1]), CLASSES), bias], (SAMPLES, CLASSES))


def _drawn(plan: Plan, b: Builder) -> Drawn:
    random = np.random.default_rng(b.seed + 1)
    inputs = {each.value.name: each.drawn(random, N) for each in b.inputs}
    calibration = {each.value.name: _again(each, inputs, random) for each in b.inputs}
    first = b.outputs[0]
    labels = random.integers(0, int(first.shape[1]), N) if len(first.shape) == 2 and first.axis == 0 else None
    return Drawn(
        plan,
        b.model(),
        inputs,
        calibration,
        labels,
        {each.value.name: each.value.axis for each in b.inputs},
        {value.name: value.axis for value in b.outputs},
        b.batch if isinstance(b.batch, int) else None,
    )


def _again(source: Input, inputs: dict[str, NDArray[Any]], random: np.random.Generator) -> NDArray[Any]:
    """Calibration samples; what is one value for all samples is the same there."""
    return inputs[source.value.name] if source.value.axis is None else source.drawn(random, N_CALIBRATION)
