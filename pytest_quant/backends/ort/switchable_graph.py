"""The Q/DQ graph of an engine with a switch at each pair, over the float weights of the model that it was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.backends.onnx_files import model_file
from pytest_quant.backends.onnx_files.graphs import refill
from pytest_quant.backends.onnx_files.lineage import find_user_nodes
from pytest_quant.backends.onnx_files.normalize import normal_file
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.macs import FLOAT_OPS
from pytest_quant.backends.ort.prepare import prepare_model
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.backends.ort.rounded_tensors import Rounded, find_integer_weights, find_pairs, made_by
from pytest_quant.backends.ort.session import open_seen, translate_errors
from pytest_quant.backends.switchable import Range, Site, SwitchableGraph, find_nearest, scale_of
from pytest_quant.environment.machine import usable_cores
from pytest_quant.spec import EngineSpec

_Nodes: TypeAlias = Mapping[str, Sequence[onnx.NodeProto]]
"""By the tensors that they give or read."""

_PREFIX = "pytest_quant "


class OrtSwitchableGraph(SwitchableGraph):
    """The graph in a session, and another session where values of tensors are asked for.

    Parameters
    ----------
    model : a graph with the pairs, and its weights; it is changed.
    pairs : what is rounded, with a float tensor of each.
    floats : the float models that it may have been made from, with their weights, the likeliest first.
    user : the model whose nodes the sites are named by.
    work : a folder for files, which outlives the graph.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        pairs: Sequence[Rounded],
        floats: Sequence[onnx.ModelProto],
        user: onnx.GraphProto,
        work: Path,
    ) -> None:
        graph, self._work, self._model = model.graph, work, model
        asked = {name for pair in pairs for name in (pair.scale, pair.zero)}
        constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer if each.name in asked}
        self._outputs = [each.name for each in graph.output]
        self._pairs = pairs
        # The standard's zero point where there is none.
        self._zeros = [constants.get(pair.zero, np.zeros((), np.uint8)) for pair in pairs]
        makers = {name: [node] for name, node in made_by(graph).items()}
        readers: defaultdict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                readers[name].append(node)
        nodes = _name_products([_products(pair, makers, readers) for pair in pairs], graph, user)
        scales = [None if pair.is_weight else constants.get(pair.scale) for pair in pairs]
        ranges = map(_range_of, scales, self._zeros)
        self.sites = tuple(
            Site(pair.real, near, pair.is_weight, found) for pair, near, found in zip(pairs, nodes, ranges, strict=True)
        )
        self._switch(graph, _find_dropped(graph, floats))
        self._session = open_seen(model, (), work / "switchable.onnx", threads=usable_cores())

    def _switch(self, graph: onnx.GraphProto, dropped: Mapping[str, _Dropped]) -> None:
        """Let each reader of a pair read one of its two sides, as an input says, and give scales and ranges a name."""
        switched: dict[str, list[onnx.NodeProto]] = {}
        last: list[onnx.NodeProto] = []
        held = {tensor.name: tensor for tensor in graph.initializer}
        named = {each.name for each in graph.input}
        for place, pair in enumerate(self._pairs):
            flag = f"{_PREFIX}on {place}"
            graph.initializer.append(numpy_helper.from_array(np.array(True), flag))
            graph.input.append(helper.make_tensor_value_info(flag, onnx.TensorProto.BOOL, []))
            before = _restore(pair, place, dropped, graph)
            for name in pair.rounded:
                switched[name] = [*before, _choose(flag, f"{name}{_ROUNDED}", pair.real, name)]
                before = []
            if self.sites[place].range is not None:
                for name in {pair.scale, pair.zero} - {"", *named}:
                    graph.input.append(helper.make_tensor_value_info(name, held[name].data_type, held[name].dims))
                    named.add(name)
                for kind_of in ("ReduceMin", "ReduceMax"):
                    output = f"{_PREFIX}{kind_of} {place}"
                    last.append(helper.make_node(kind_of, [pair.real], [output], keepdims=0))
                    graph.output.append(helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, []))
        nodes = []
        for node in graph.node:
            added = [each for name in node.output for each in switched.get(name, ())]
            if added:
                node.output[0] = f"{node.output[0]}{_ROUNDED}"
            nodes += [node, *added]
        refill(graph.node, [*nodes, *last])

    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Run one batch with some sites in float, and other ranges for some."""
        return self._run(self._session, self._outputs, feeds, off, ranges or {})

    def _run(
        self, session: Any, names: list[str], feeds: Feeds, off: Collection[int], ranges: Mapping[int, Range]
    ) -> Outputs:
        given: dict[str, NDArray[Any]] = {f"{_PREFIX}on {place}": np.array(False) for place in off}
        for place, found in ranges.items():
            given |= _scale_of(found, self._pairs[place], self._zeros[place])
        with translate_errors("a run of the graph with switches"):
            outputs = session.run(names, {**feeds, **given})
        return dict(zip(names, outputs, strict=True))

    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return the smallest and the largest value of each site that has a range."""
        places = [place for place, site in enumerate(self.sites) if site.range is not None]
        if not places:
            return {}
        names = [f"{_PREFIX}{kind} {place}" for place in places for kind in ("ReduceMin", "ReduceMax")]
        found = self._run(self._session, names, feeds, range(len(self.sites)), {})
        ends = [float(found[name]) for name in names]
        return {place: Range(low, high) for place, low, high in zip(places, ends[::2], ends[1::2], strict=True)}

    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Open the graph with these tensors as outputs, and run it once in float."""
        sides = [(self._pairs[place].real, f"{self._pairs[place].rounded[0]}{_ROUNDED}") for place in sites]
        names = list(dict.fromkeys(name for side in sides for name in side))
        session = open_seen(self._model, names, self._work / "values.onnx", threads=usable_cores())
        found = self._run(session, names, feeds, range(len(self.sites)), {})
        return [(found[real], found[rounded]) for real, rounded in sides]

    def close(self) -> None:
        """Let go of the session."""
        self._session = None


_ROUNDED = " rounded"


def _choose(flag: str, rounded: str, real: str, name: str) -> onnx.NodeProto:
    """Return the node that gives one of two tensors: a Where takes many times as long."""
    given = onnx.ValueInfoProto(name=f"{name} chosen")
    given.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    then, otherwise = (
        helper.make_graph([helper.make_node("Identity", [source], [given.name])], "choice", [], [given])
        for source in (rounded, real)
    )
    return helper.make_node("If", [flag], [name], then_branch=then, else_branch=otherwise)


def _products(pair: Rounded, makers: _Nodes, readers: _Nodes) -> tuple[str, ...]:
    """Return the nearest products that make a pair's tensor, and the nearest ones that read it."""
    above = find_nearest(_at([pair.real], makers), _multiplies, lambda node: _at(node.input, makers))
    below = find_nearest(_at(pair.rounded, readers), _multiplies, lambda node: _at(node.output, readers))
    return tuple(dict.fromkeys(node.name for node in (*above, *below)))


def _at(names: Iterable[str], nodes: _Nodes) -> list[onnx.NodeProto]:
    return [node for name in names for node in nodes.get(name, ())]


def _multiplies(node: onnx.NodeProto) -> bool:
    return node.op_type in FLOAT_OPS


def _name_products(
    found: Sequence[tuple[str, ...]], graph: onnx.GraphProto, user: onnx.GraphProto
) -> list[tuple[str, ...]]:
    """Return for each list of products of `graph` those of the user's graph that they were made from."""
    names = [node.name for node in graph.node if node.op_type in FLOAT_OPS]
    traced = dict(zip(names, find_user_nodes(user, [[name] for name in names]), strict=True))
    products = {node.name or f"node_of_{node.output[0]}" for node in user.node if node.op_type in FLOAT_OPS}
    named = ((node for name in each for node in traced[name] if node in products) for each in found)
    return [tuple(dict.fromkeys(each)) for each in named]


def _range_of(scale: NDArray[Any] | None, zero: NDArray[Any]) -> Range | None:
    """Return the range of integers with one scale; ``None`` for any other."""
    if scale is None or scale.size != 1 or scale.dtype != np.float32:
        return None
    levels, step, shift = np.iinfo(zero.dtype), float(scale.item()), int(zero.item())
    return Range((levels.min - shift) * step, (levels.max - shift) * step)


def _scale_of(found: Range, pair: Rounded, middle: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return scale and zero point whose integers reach over a range, 0 included, under their names."""
    levels = np.iinfo(middle.dtype)
    step, shift = scale_of(found, levels.min, levels.max, symmetric=levels.min < 0 and not middle.any())
    given = {pair.scale: np.full(middle.shape, step, np.float32)}
    return given | ({pair.zero: np.full(middle.shape, shift, middle.dtype)} if pair.zero else {})


_Dropped: TypeAlias = tuple[onnx.NodeProto, onnx.GraphProto]
"""An activation that the quantizer took away, since a range does its work, and the graph that it was in."""


def _find_dropped(graph: onnx.GraphProto, floats: Sequence[onnx.ModelProto]) -> dict[str, _Dropped]:
    """Return these activations by the name of what they give, which the node before them gives now."""
    makers = made_by(graph)
    return {
        name: (node, model.graph)
        for model in reversed(floats)
        for name, node in made_by(model.graph).items()
        if node.op_type in ("Relu", "Clip") and name in makers and makers[name].op_type != node.op_type
    }


def _restore(
    pair: Rounded, place: int, dropped: Mapping[str, _Dropped], graph: onnx.GraphProto
) -> list[onnx.NodeProto]:
    """Let the float side of a pair be behind the activation that was taken away, and return that."""
    if pair.real not in dropped:
        return []
    node, source = dropped[pair.real]
    needed = set(node.input) - {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(each for each in source.initializer if each.name in needed)
    again = onnx.NodeProto()
    again.CopyFrom(node)
    again.name, again.input[0] = "", pair.real
    pair.real = again.output[0] = f"{_PREFIX}float {place}"
    return [again]


def open_switchable(spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:
    """Return the graph of the engine in `folder` with switches; ``None`` if it rounds nothing. Raises `QuantError`."""
    known = onnx.load(normal_file(model_file(spec.model), work))
    engine, floats, unseen = onnx.load(engine_file(spec, folder)), [known], ""
    if spec.quantized is None:
        floats.insert(0, onnx.load(prepare_model(spec, per_channel=recipe_of(spec).per_channel)))
    # A file of whatever tool may hold what no code here has met.
    with translate_errors(f"the graph of {spec.id} with switches"):
        if spec.scheme in ("dynamic", "weight-only"):
            model = floats[0]
            pairs = list(find_integer_weights(model, engine))
            unseen = "rounding of activations, whose ranges each run finds" if spec.scheme == "dynamic" else ""
        else:
            model = engine
            pairs, lost = find_pairs(model, floats)
            unseen = f"the float values of {lost} weights, which no float model has" if lost else ""
        if not pairs:
            return None
        graph = OrtSwitchableGraph(model, pairs, floats, engine.graph if spec.quantized else known.graph, work)
    graph.unseen, graph.bits = unseen, 4 if spec.precision == "int4" else 8
    return graph
