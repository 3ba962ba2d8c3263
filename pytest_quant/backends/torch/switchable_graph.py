"""The converted program of an engine in eager mode, with a switch in the place of each pair that rounds.

The float weights are those of the module as it is traced for the quantizer, with batch norms in them. What lies in
bodies of branches and loops stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.backends.runtime import name_errors
from pytest_quant.backends.switchable import Range, Site, SwitchableGraph, find_nearest, scale_of
from pytest_quant.backends.torch import torch_quiet
from pytest_quant.backends.torch.module import input_names, name_outputs, submodule_of
from pytest_quant.backends.torch.program import PROGRAM_FILE, load_module, prepare
from pytest_quant.environment.machine import usable_cores
from pytest_quant.spec import EngineSpec

_QUANTIZE, _DEQUANTIZE = "quantized_decomposed.quantize_per_", "quantized_decomposed.dequantize_per_"

_PRODUCTS = ("addmm", "baddbmm", "bmm", "conv", "einsum", "gru", "linear", "lstm", "matmul", "mm", "scaled_dot")
"""Beginnings of the names of operators that multiply and accumulate."""

_LARGEST = 2.0**-2
"""A float weight is the one that was rounded if the norm of their difference is below this share of its own."""


class _Switch(torch.nn.Module):
    """One rounding: of what it is given, or from integers back to a weight whose float value is `weight`."""

    def __init__(self, quantize: Any, dequantize: Any, weight: Any) -> None:
        super().__init__()
        self._quantize, self._dequantize, self._weight = quantize, dequantize, weight
        self.state: tuple[bool, Range | None, Any] = (True, None, None)
        """Whether it rounds, another range, and what to keep in `seen` of the values before rounding and after."""
        self.seen: Any = None

    def forward(self, given: Any, *how: Any) -> Any:
        """Return the float value, or what is left of it; `how` is scale, zero point and so on, as operators take it."""
        is_on, found, look = self.state
        real = given if self._weight is None else self._weight
        if not is_on and look is None:
            return real
        if found is not None:
            least, most = how[2:4]
            how = (*scale_of(found, least, most, symmetric=least < 0 and how[1] == 0), *how[2:])
        rounded = self._dequantize(given if self._quantize is None else self._quantize(given, *how), *how)
        if look is not None:
            self.seen = look(real, rounded)
        return rounded if is_on else real


class TorchSwitchableGraph(SwitchableGraph):
    """The program as a module.

    Parameters
    ----------
    spec : the engine.
    module : of its program; it is changed.
    floats : the module that it was made from, as it is before it is converted.
    """

    def __init__(self, spec: EngineSpec, module: Any, floats: Any) -> None:
        self._names = input_names(spec.quantized or spec.model)
        self._module, self._switches = module, list[_Switch]()
        self.sites = ()
        for node, undone in list(_find_roundings(module.graph)):
            real, weight = node.args[0], None
            is_weight = real.op == "get_attr"
            if node in undone and (weight := _find_float(node, module, floats)) is None:
                continue
            known = None if is_weight else _range_of(node.args[1:])
            if not is_weight:
                self.bits = (node.args[-2] - node.args[-3]).bit_length()
            switch = _Switch(None if node in undone else node.target, undone[0].target, weight)
            name = f"switch_{len(self.sites)}"
            module.add_module(name, switch)
            self._switches.append(switch)
            self.sites = (*self.sites, Site(real.name, _products([real], undone), is_weight, known))
            with module.graph.inserting_before(node):
                chosen = module.graph.call_module(name, node.args)
            for each in dict.fromkeys((*undone, node)):
                each.replace_all_uses_with(chosen)
                module.graph.erase_node(each)
        module.recompile()
        if any(_called(node).startswith(_DEQUANTIZE) for node in module.graph.nodes):
            self.unseen = "the float values of some weights, which the float model does not have"

    def run(self, feeds: Feeds, off: Collection[int] = (), ranges: Mapping[int, Range] | None = None) -> Outputs:
        """Run one batch with some sites in float, and other ranges for some."""
        return self._run(feeds, [(at not in off, (ranges or {}).get(at), None) for at in range(len(self.sites))])

    def _run(self, feeds: Feeds, states: Iterable[tuple[bool, Range | None, Any]]) -> Outputs:
        for switch, state in zip(self._switches, states, strict=True):
            switch.state = state
        torch.set_num_threads(usable_cores())
        with torch.no_grad(), torch_quiet(), name_errors("a run of the graph with switches failed"):
            outputs = name_outputs(self._module(*(torch.from_numpy(feeds[name].copy()) for name in self._names)))
        return {name: output.numpy() for name, output in outputs.items()}

    def _look(self, feeds: Feeds, places: Sequence[int], look: Callable[[Any, Any], Any]) -> list[Any]:
        """Return what `look` says of these sites' values before rounding and after, over one batch in float."""
        self._run(feeds, [(False, None, look if place in places else None) for place in range(len(self.sites))])
        return [self._switches[place].seen for place in places]

    def find_ranges(self, feeds: Feeds) -> dict[int, Range]:
        """Return the smallest and the largest value of each site that has a range."""
        places = [place for place, site in enumerate(self.sites) if site.range is not None]
        found = self._look(feeds, places, lambda real, _: Range(*(float(end) for end in torch.aminmax(real))))
        return dict(zip(places, found, strict=True))

    def values(self, feeds: Feeds, sites: Sequence[int]) -> list[tuple[Any, Any]]:
        """Return what these sites hold over one batch of the float model, before rounding and after."""
        return self._look(feeds, sites, lambda *sides: tuple(side.detach().numpy() for side in sides))

    def close(self) -> None:
        """Let go of the program."""
        self._module, self._switches = None, []


def _called(node: Any) -> str:
    return str(getattr(node.target, "overloadpacket", ""))


def _find_roundings(graph: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each node that rounds, with those that turn its integers back; of an integer weight, the first of these."""
    for node in graph.nodes:
        if _called(node).startswith(_QUANTIZE):
            if node.users and all(_called(each).startswith(_DEQUANTIZE) for each in node.users):
                yield node, [*node.users]
        elif _called(node).startswith(_DEQUANTIZE) and node.args[0].op == "get_attr":
            alike = [each for each in node.args[0].users if each.args == node.args]
            if node is alike[0]:
                yield node, alike


def _find_float(node: Any, module: Any, floats: Any) -> Any:
    """Return the float tensor that the reader of an integer weight reads in the float module; ``None`` if none fits."""
    reader = next(iter(node.users))
    theirs = next((each for each in floats.graph.nodes if each.name == reader.name), None)
    if theirs is None or len(theirs.args) != len(reader.args) or node not in reader.args:
        return None
    found: Any = theirs.args[reader.args.index(node)]
    # An observer lies between.
    found = found.args[0] if found.op == "call_module" else found
    rounded = node.target(*(attrgetter(each.target)(module) if hasattr(each, "op") else each for each in node.args))
    real = attrgetter(found.target)(floats).detach() if found.op == "get_attr" else rounded.new_empty(0)
    return real if real.shape == rounded.shape and (rounded - real).norm() < _LARGEST * real.norm() else None


def _multiplies(node: Any) -> bool:
    return _called(node).removeprefix("aten.").startswith(_PRODUCTS)


def _products(made: Sequence[Any], undone: Iterable[Any]) -> tuple[str, ...]:
    """Return the submodules of the nearest products that make a tensor, and of the nearest ones that read it."""
    above = find_nearest(made, _multiplies, lambda node: node.all_input_nodes)
    below = find_nearest([each for node in undone for each in node.users], _multiplies, lambda node: node.users)
    return tuple(dict.fromkeys(name for node in (*above, *below) if (name := submodule_of(node))))


def _range_of(how: Sequence[Any]) -> Range | None:
    """Return the range of integers with one scale that is known; ``None`` for any other."""
    scale, zero, least, most = how[:4]
    return Range((least - zero) * scale, (most - zero) * scale) if isinstance(scale, float) else None


def open_switchable(spec: EngineSpec, folder: Path) -> SwitchableGraph | None:
    """Return the program in `folder` with switches; ``None`` if it has no pairs. Raises `QuantError`."""
    file = folder / PROGRAM_FILE
    if not file.exists() or not any(_find_roundings((module := load_module(file)).graph)):
        return None
    with torch_quiet(), name_errors(f"the graph of {spec.id} with switches cannot be made"):
        return TorchSwitchableGraph(spec, module, prepare(spec, is_dynamic=False))
