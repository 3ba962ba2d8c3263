"""The Q/DQ graph of an engine with a switch at each pair, over the float weights of the model that it was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from pytest_quant.backends.ort.session import open_session, translate_errors
from pytest_quant.backends.switchable import Range, Site, SwitchableGraph
from pytest_quant.environment.machine import usable_cores
from pytest_quant.spec import EngineSpec

_Makers = Mapping[str, onnx.NodeProto]
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
        constants = {tensor.name: tensor for tensor in graph.initializer}
        self._outputs = [each.name for each in graph.output]
        self._pairs = pairs
        self._levels = {pair.zero: constants[pair.zero] for pair in pairs if pair.zero in constants}
        makers, readers = made_by(graph), _readers_of(graph)
        nodes = _name_products([_products(pair, makers, readers) for pair in pairs], graph, user)
        ranges = [
            None if pair.is_weight else _range_of(constants.get(pair.scale), constants.get(pair.zero)) for pair in pairs
        ]
        self.sites = tuple(
            Site(pair.real, near, pair.is_weight, found) for pair, near, found in zip(pairs, nodes, ranges, strict=True)
        )
        self._switch(graph, _find_dropped(graph, floats))
        path = work / "switchable.onnx"
        onnx.save_model(model, path, save_as_external_data=model.ByteSize() > 2**30, location="switchable.data")
        self._session, _ = open_session(path, threads=usable_cores())

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
            pair = self._pairs[place]
            given |= _scale_of(found, pair, self._levels.get(pair.zero))
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
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        sides = [(self._pairs[place].real, f"{self._pairs[place].rounded[0]}{_ROUNDED}") for place in sites]
        names = list(dict.fromkeys(name for side in sides for name in side))
        known = {each.name for each in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
        path = self._work / "values.onnx"
        onnx.save_model(model, path, save_as_external_data=model.ByteSize() > 2**30, location="values.data")
        session, _ = open_session(path, threads=usable_cores())
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


def _readers_of(graph: onnx.GraphProto) -> Mapping[str, Sequence[onnx.NodeProto]]:
    readers: defaultdict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
    return readers


def _products(pair: Rounded, makers: _Makers, readers: Mapping[str, Sequence[onnx.NodeProto]]) -> tuple[str, ...]:
    """Return the nearest products that make a pair's tensor, and the nearest ones that read it."""
    above = _nearest([pair.real], lambda name: [makers[name]] if name in makers else [], lambda node: node.input)
    below = _nearest(pair.rounded, lambda name: readers.get(name, ()), lambda node: node.output)
    return tuple(dict.fromkeys([*above, *below]))


def _nearest(
    names: Sequence[str],
    nodes_at: Callable[[str], Sequence[onnx.NodeProto]],
    beyond: Callable[[onnx.NodeProto], Iterable[str]],
) -> list[str]:
    """Return the products that fewest other operators lie before."""
    seen: set[str] = set()
    while names:
        nodes = [node for name in names for node in nodes_at(name)]
        found = [node.name for node in nodes if node.op_type in FLOAT_OPS]
        if found:
            return found
        seen.update(names)
        names = [name for node in nodes for name in beyond(node) if name not in seen]
        names = list(dict.fromkeys(names))
    return []


def _name_products(
    found: Sequence[tuple[str, ...]], graph: onnx.GraphProto, user: onnx.GraphProto
) -> list[tuple[str, ...]]:
    """Return for each list of products of `graph` those of the user's graph that they were made from."""
    names = [node.name for node in graph.node if node.op_type in FLOAT_OPS]
    traced = dict(zip(names, find_user_nodes(user, [[name] for name in names]), strict=True))
    products = {node.name or f"node_of_{node.output[0]}" for node in user.node if node.op_type in FLOAT_OPS}
    named = ((node for name in each for node in traced[name] if node in products) for each in found)
    return [tuple(dict.fromkeys(each)) for each in named]


def _array(tensor: onnx.TensorProto | None) -> NDArray[Any] | None:
    return None if tensor is None else numpy_helper.to_array(tensor)


def _range_of(scale: onnx.TensorProto | None, zero: onnx.TensorProto | None) -> Range | None:
    """Return the range of integers with one scale; ``None`` for any other."""
    steps, middle = _array(scale), _array(zero)
    if steps is None or steps.size != 1 or steps.dtype != np.float32:
        return None
    levels = np.iinfo(np.uint8 if middle is None else middle.dtype)
    step, shift = float(steps.item()), 0 if middle is None else int(middle.item())
    return Range((levels.min - shift) * step, (levels.max - shift) * step)


def _scale_of(found: Range, pair: Rounded, zero: onnx.TensorProto | None) -> dict[str, NDArray[Any]]:
    """Return scale and zero point whose integers reach over a range, 0 included, under their names."""
    low, high = min(found.low, 0.0), max(found.high, 0.0)
    middle = np.zeros((), np.uint8) if zero is None else numpy_helper.to_array(zero)
    levels = np.iinfo(middle.dtype)
    step = max((high - low) / (levels.max - levels.min), float(np.finfo(np.float32).tiny))
    if levels.min < 0 and not middle.any():
        step = max(-low, high) / levels.max or step
        shift = 0
    else:
        shift = int(np.clip(np.rint(levels.min - low / step), levels.min, levels.max))
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
