"""The model of an engine with a switch at each rounding, over the float weights of the model that it was made from.

A rounding becomes arithmetic in float, with its switch and its ends as inputs, so that the CPU plugin makes no
layers of integers of it. A bias that NNCF corrected goes with the switch of the weight before it. What lies
in the bodies of an If or a Loop stays rounded, and so does a weight whose float is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openvino import Model, Type
from openvino import opset13 as op
from openvino.passes import ConstantFolding

from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.backends.onnx_files import model_file
from pytest_quant.backends.onnx_files.normalize import normal_file
from pytest_quant.backends.openvino.coverage import OPERATORS, SEEN_APART
from pytest_quant.backends.openvino.engine import GROUP, compile_model
from pytest_quant.backends.openvino.files import ENGINE_FILE, is_own, read_model, signature_of, translate_errors
from pytest_quant.backends.openvino.quantize import rename_operations
from pytest_quant.backends.switchable import Range, Site, SwitchableGraph, scale_of
from pytest_quant.environment.machine import usable_cores
from pytest_quant.spec import EngineSpec

_INTEGERS = frozenset({"i4", "i8", "nf4", "u4", "u8"})
"""Types of constants that stand for floats."""

_LARGEST = 2.0**-2
"""A float weight is the one that was rounded if the norm of their difference is below this share of its own."""

_MOVING = ("FakeQuantize", "ReadValue")
"""Operators that are no constant though all that they read is."""

_LEAST = 1e-20
"""A range is no narrower, so that its step is a normal number."""


class OpenVinoSwitchableGraph(SwitchableGraph):
    """The graph as a compiled model, and another one where values of tensors are asked for.

    Parameters
    ----------
    spec : the engine.
    model : its ``openvino.Model``; it is changed.
    floats : the float model that it was made from; it is changed too.
    """

    def __init__(self, spec: EngineSpec, model: Any, floats: Any) -> None:
        signature = signature_of(spec.quantized or spec.model)
        sides = signature.inputs, signature.outputs
        self._inputs, self._outputs = ([tensor.name for tensor in side] for side in sides)
        # Else inputs of layers with integer weights are rounded as they run. Compiling takes half as long unfused.
        beside = {"INFERENCE_NUM_THREADS": usable_cores(), GROUP: 0, **SEEN_APART}
        self._open = partial(compile_model, spec=spec, beside=beside)
        self._on, self._ends = op.parameter([-1], Type.boolean), op.parameter([-1], Type.f32)
        self._sides: list[tuple[Any, Any]] = []
        self._levels: dict[int, int] = {}
        sites: list[Site] = []
        bounds: list[Any] = []
        originals = _Originals(floats)
        for node, index, is_weight, products in list(_find_roundings(model)):
            place, known, rounded = len(sites), None, node.input_value(index)
            switch = op.gather(self._on, place, 0)
            if node.get_type_name() == "FakeQuantize":
                real, low, high = node.input_values()[:3]
                readers, levels = node.output(0).get_target_inputs(), node.get_attributes()["levels"]
                known = None if is_weight else _range_of(node)
                if known is not None:
                    self._levels[place] = levels
                    low, high = (op.gather(self._ends, 2 * place + end, 0) for end in (0, 1))
                    bounds += [reduce(op.reshape(real, [-1], False), 0) for reduce in (op.reduce_min, op.reduce_max)]
                rounded = _round(real, low, high, levels)
            else:
                real, readers = originals.find(node, index), rounded.get_target_inputs()
                if real is None:
                    self.unseen = "the float values of some weights, which the float model does not have"
                    continue
            for reader in readers if is_weight else ():
                originals.take_back_bias(reader.get_node(), switch)
            chosen = op.select(switch, rounded, real).output(0)
            for reader in readers:
                reader.replace_source_output(chosen)
            self._sides.append((real, rounded))
            tensor = min(real.get_names(), default=node.get_friendly_name())
            sites.append(Site(tensor, products, is_weight, known))
        self.sites = tuple(sites)
        self._known = np.array([site.range or (0.0, 0.0) for site in sites], np.float32)
        self._parameters = [*model.get_parameters(), self._on, self._ends]
        model.add_parameters([self._on, self._ends])
        model.add_results([op.result(bound) for bound in bounds])
        self._request: Any = self._open(model).create_infer_request() if sites else None

    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Run one batch with some sites in float, and other ranges for some."""
        results = self._run(self._request, feeds, off, ranges or {})
        return {name: results[index] for index, name in enumerate(self._outputs)}

    def _run(self, request: Any, feeds: Feeds, off: Collection[int], ranges: Mapping[int, Range]) -> Any:
        switches, ends = np.ones(len(self.sites), np.bool_), self._known.copy()
        switches[list(off)] = False
        for place, found in ranges.items():
            ends[place] = _fit(found, Range(*map(float, self._known[place])), self._levels[place])
        given = [*(feeds[name] for name in self._inputs), switches, ends.ravel()]
        with translate_errors("a run of the graph with switches"):
            return request.infer(dict(enumerate(given)))

    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return the smallest and the largest value of each site that has a range."""
        found = [*self._run(self._request, feeds, range(len(self.sites)), {}).values()][len(self._outputs) :]
        pairs = zip(map(float, found[::2]), map(float, found[1::2]), strict=True)
        return {place: Range(*pair) for place, pair in zip(self._levels, pairs, strict=True)}

    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Compile the graph with these tensors as outputs, and run it once in float."""
        results = [op.result(port) for place in sites for port in self._sides[place]]
        request = self._open(Model(results, self._parameters)).create_infer_request()
        found = [*self._run(request, feeds, range(len(self.sites)), {}).values()]
        return list(zip(found[::2], found[1::2], strict=True))

    def close(self) -> None:
        """Let go of the compiled model, and of the one that it was compiled from."""
        self._request, self._sides, self._parameters = None, [], []


class _Originals:
    """The operations of the float model, with all that no input decides as constants."""

    def __init__(self, model: Any) -> None:
        ConstantFolding().run_on_model(model)
        self._nodes = {_called(node): node for node in model.get_ordered_ops()}

    def find(self, reader: Any, index: int) -> Any:
        """Return the constant that input `index` of an operation of the engine's model was rounded from.

        That is the nearest of those that it may be; ``None`` if none is near, or it lost nothing.
        """
        rounded = reader.input_value(index)
        values = _values(rounded)
        like = [port for port in self._candidates(reader, index) if _looks(port) == _looks(rounded)]
        errors = [float(np.linalg.norm(_values(port) - values)) for port in like]
        least = min(errors, default=0.0)
        return like[errors.index(least)] if 0 < least < _LARGEST * np.linalg.norm(values) else None

    def _candidates(self, reader: Any, index: int) -> Iterator[Any]:
        """Yield what the same operation of the float model reads there, or else all constants."""
        node = self._nodes.get(_called(reader))
        if node is None:
            yield from (each.output(0) for each in self._nodes.values() if each.get_type_name() == "Constant")
        elif _is_constant(node.input_value(index)):
            yield node.input_value(index)
            # NNCF multiplies activations by a scale for each channel, and divides weights by it.
            before = reader.input_value(0).get_node()
            before = before.input_value(2).get_node() if before.get_type_name() == "Select" else before
            if node.get_type_name() == "MatMul" and before.get_type_name() == "Multiply":
                shape = [-1] if node.get_attributes()["transpose_b"] else [-1, 1]
                scale = before.input_value(1)
                if _is_constant(scale) and scale.get_node().data.size == node.get_input_shape(1)[-len(shape)]:
                    yield op.divide(node.input_value(1), op.reshape(scale, shape, False)).output(0)

    def take_back_bias(self, product: Any, switch: Any) -> None:
        """Let `switch` choose between the bias behind a product of the engine and that of the float model."""
        for ours, theirs in zip(_biases(product), _biases(self._nodes.get(_called(product), product)), strict=False):
            sides = (each.get_source_output() for each in (ours, theirs))
            ours.replace_source_output(op.select(switch, *sides).output(0))


def _find_roundings(model: Any) -> Iterator[tuple[Any, int, bool, tuple[str, ...]]]:
    """Yield what rounds, in the order of `model`, and the products next to it.

    That is a FakeQuantize, or an operation that reads a constant that was rounded; the place of that input; and whether
    it is a weight.
    """
    constants, fixed = _find_constants(model), _find_constants(model, "ShapeOf")
    order = [node.get_friendly_name() for node in model.get_ordered_ops() if node.get_type_name() in OPERATORS]
    for node in model.get_ordered_ops():
        if node.get_name() in constants:
            continue
        if node.get_type_name() == "FakeQuantize" and _keeps_units(node):
            is_weight = node.input_value(0).get_node().get_name() in constants
            yield node, 0, is_weight, tuple(sorted(_products(node, node.output(0), fixed), key=order.index))
        for index, port in enumerate(node.input_values()):
            if constants.get(port.get_node().get_name()) and port.get_element_type().is_real():
                # Once for all that read it.
                constants[port.get_node().get_name()] = False
                yield node, index, True, tuple(sorted(_products(node, port, fixed), key=order.index))


def _keeps_units(quantizer: Any) -> bool:
    """Tell whether what a FakeQuantize gives lies between the ends of what it takes, all of them constant."""
    ends = quantizer.input_values()[1:]
    pairs = zip(ends[:2], ends[2:], strict=True)
    return all(map(_is_constant, ends)) and all(
        np.array_equal(*(one.get_node().data for one in both)) for both in pairs
    )


def _find_constants(model: Any, *known: str) -> dict[str, bool]:
    """Return the operations that no input decides, or only through operators `known`, and which of them round."""
    found: dict[str, bool] = {}
    for node in model.get_ordered_ops():
        kind, before = node.get_type_name(), [port.get_node().get_name() for port in node.input_values()]
        if kind == "Constant":
            found[node.get_name()] = node.get_element_type().get_type_name() in _INTEGERS
        elif kind in known or (before and kind not in _MOVING and found.keys() >= set(before)):
            found[node.get_name()] = any(found.get(name, False) for name in before)
    return found


def _products(node: Any, port: Any, fixed: Mapping[str, bool]) -> set[str]:
    """Return the products next to what `node` rounds or reads, and `port` gives, through operators of one operand."""

    def moving(node: Any) -> list[Any]:
        return [each.get_node() for each in node.input_values() if each.get_node().get_name() not in fixed]

    before = [] if node.get_type_name() in OPERATORS else moving(node)
    while len(before) == 1 and before[0].get_type_name() not in OPERATORS:
        before = moving(before[0])
    found = {before[0].get_friendly_name()} if len(before) == 1 else set()
    waiting = [*port.get_target_inputs()]
    while waiting:
        node = waiting.pop().get_node()
        if node.get_type_name() in OPERATORS:
            found.add(node.get_friendly_name())
        elif len(moving(node)) == 1:
            waiting += [target for output in node.outputs() for target in output.get_target_inputs()]
    return found


def _biases(product: Any) -> list[Any]:
    """Return the inputs of additions behind a product that are constant."""
    reads = [each for each in product.output(0).get_target_inputs() if each.get_node().get_type_name() == "Add"]
    others = (each.get_node().input(1 - each.get_index()) for each in reads)
    return [each for each in others if _is_constant(each.get_source_output())]


def _is_constant(port: Any) -> bool:
    return bool(port.get_node().get_type_name() == "Constant")


def _called(node: Any) -> tuple[str, str]:
    return node.get_type_name(), node.get_friendly_name()


def _values(port: Any) -> NDArray[Any]:
    """Return what a port gives that no input decides."""
    model = Model([op.result(port)], []).clone()
    ConstantFolding().run_on_model(model)
    return np.array(model.get_results()[0].input_value(0).get_node().data)


def _looks(port: Any) -> tuple[Any, Any]:
    return port.get_partial_shape(), port.get_element_type()


def _round(real: Any, low: Any, high: Any, levels: int) -> Any:
    """Return `real` rounded as a FakeQuantize does."""
    low, high, steps = (op.convert_like(each, real) for each in (low, high, np.float32(levels - 1)))
    step = op.divide(op.subtract(high, low), steps)
    cut = op.minimum(op.maximum(real, low), high)
    level = op.round(op.divide(op.subtract(cut, low), step), "half_to_even")
    return op.add(op.multiply(level, step), low).output(0)


def _range_of(quantizer: Any) -> Range | None:
    """Return the ends of a FakeQuantize; ``None`` if they differ by channel."""
    low, high = (quantizer.input_value(place).get_node().data for place in (1, 2))
    return Range(float(low.item()), float(high.item())) if low.size == high.size == 1 else None


def _fit(found: Range, own: Range, levels: int) -> Range:
    """Return ends for a range that was found, 0 included, on the model of those of its quantizer.

    If those lie as far below 0 as above, but for one step, the new ones do; otherwise 0 falls on a level.
    """
    steps = levels - 1
    if own.low < 0 and abs(own.low + own.high) < 1.5 * (own.high - own.low) / steps:
        factor = max(-found.low, found.high, _LEAST) / own.high
        return Range(own.low * factor, own.high * factor)
    scale, zero = scale_of(found, 0, steps, symmetric=False)
    return Range(-zero * scale, (steps - zero) * scale)


def open_switchable(spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:
    """Return the graph of the engine in `folder` with switches. Raises `QuantError`.

    It is ``None`` if nothing is rounded, or an ONNX file that arrived rounds by pairs.
    """
    if spec.quantized is not None and not is_own(spec.quantized):
        return None
    file = model_file(spec.model)
    floats = rename_operations(read_model(file if is_own(spec.model) else normal_file(file, work)), spec.model)
    model = rename_operations(read_model(folder / ENGINE_FILE), spec.quantized or spec.model)
    with translate_errors(f"the graph of {spec.id} with switches"):
        graph = OpenVinoSwitchableGraph(spec, model, floats)
    if spec.scheme == "weight-only":
        graph.unseen = "rounding of inputs, which OpenVINO does as it runs"
        graph.bits = 4 if spec.precision == "int4" else 8
    return graph if graph.sites else None
