"""The kinds of faults, each a function of a workshop and a seed; ``None`` where a network has no place for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pytest_quant.backends.base import Engine
from pytest_quant.backends.feeds import Outputs
from pytest_quant.spec import Calibration
from tests.benchmarks.blame import engine_edits as edits
from tests.benchmarks.blame import twins
from tests.benchmarks.blame.cases import LOSS_DB, Case, ChangedEngine
from tests.benchmarks.blame.channels import find_paths, multiply
from tests.benchmarks.blame.graph import Graph, largest_difference
from tests.benchmarks.blame.networks import Arrays, count, take
from tests.benchmarks.blame.workshop import N_CALIBRATION, Workshop

Plant: TypeAlias = Callable[[Workshop, int], Case | None]

TRIES = 5
"""Places that are tried until one costs `LOSS_DB`; the last one is kept as it is."""

EQUAL = 1e-5
"""Most that the outputs of FP32 may change by a plant that FP32 does not see, as a share of the largest."""


def _costly(cases: Iterator[Case]) -> Case | None:
    """Return the first that costs enough, else the last."""
    found = None
    for _, found in zip(range(TRIES), cases, strict=False):
        if found.loss_db >= LOSS_DB:
            return found
    return found


def _draw(shop: Workshop, seed: int, kind: str) -> np.random.Generator:
    """Return what draws for one case, another one in each network."""
    return np.random.default_rng([seed, *f"{shop.network.name} {kind}".encode()])


def _shuffled(draw: np.random.Generator, items: Sequence[Any]) -> list[Any]:
    return [items[place] for place in draw.permutation(len(items))]


def channel(shop: Workshop, seed: int) -> Case | None:
    """One channel between two linear operators x16 to x256, and undone after."""
    return _costly(_channels(shop, seed))


def _channels(shop: Workshop, seed: int) -> Iterator[Case]:
    draw = _draw(shop, seed, "channel")
    places = _shuffled(draw, range(sum(1 for _ in find_paths(Graph.load(shop.model)))))
    for place in places:
        graph = Graph.load(shop.model)
        path = list(find_paths(graph))[place]
        which = int(draw.integers(path.channels))
        factor = float(2 ** draw.integers(4, 9))
        nodes = dict.fromkeys((*graph.near(path.tensor), *(node.name for node, _ in path.readers)))
        fits = multiply(graph, path, which, factor)
        if not fits:
            continue
        model = shop.new_folder() / shop.model.name
        graph.save(model)
        planted = shop.run_float(model, shop.samples.evaluation)
        if largest_difference(shop.reference, planted) > EQUAL:
            continue
        engine = shop.build(model, shop.draw(0, N_CALIBRATION))
        variant = f"channel {which} of {path.tensor} x{factor:g}"
        yield shop.case("channel", seed, variant, ("layer", "weights"), nodes=tuple(nodes), engine=engine, model=model)


def narrow(shop: Workshop, seed: int) -> Case | None:
    """One range x0.1 to x0.5."""
    return _costly(_ranges(shop, seed, "narrow", (0.1, 0.5)))


def wide(shop: Workshop, seed: int) -> Case | None:
    """One range x3 to x30."""
    return _costly(_ranges(shop, seed, "wide", (3.0, 30.0)))


def _ranges(shop: Workshop, seed: int, kind: str, ends: tuple[float, float]) -> Iterator[Case]:
    draw = _draw(shop, seed, kind)
    graph = Graph.load(shop.model)
    _, healthy, _ = shop.healthy
    for tensor in _shuffled(draw, edits.ranged_tensors(shop.backend, healthy, graph)):
        factor = float(np.exp(draw.uniform(*np.log(ends))))
        edit: Callable[[Path], None] = partial(edits.scale_ort_range, tensor=tensor, factor=factor)
        if shop.backend == "openvino":
            edit = partial(edits.scale_openvino_range, tensor=tensor, factor=factor, graph=graph)
        try:
            engine = shop.build(shop.model, shop.draw(0, N_CALIBRATION), edit=edit)
        except KeyError:
            # A tensor that the quantizer's own preparation made.
            continue
        yield shop.case(
            kind, seed, f"range of {tensor} x{factor:.3g}", ("range",), nodes=graph.near(tensor), engine=engine
        )


def _calibrated(shop: Workshop, seed: int, kind: str, variant: str, calibration: Arrays) -> Case:
    engine = shop.build(shop.model, calibration)
    return shop.case(kind, seed, variant, ("calibration",), engine=engine, calibration=calibration)


def raw(shop: Workshop, seed: int) -> Case | None:
    """Calibration without the normalization that evaluation has."""
    if shop.network.raw is None:
        return None
    return _calibrated(shop, seed, "raw", "not normalized", shop.network.raw(shop.draw(seed, N_CALIBRATION)))


def scaled(shop: Workshop, seed: int) -> Case | None:
    """Calibration on inputs x0.1 to x0.5."""
    if shop.network.raw is None:
        return None
    factor = np.float32(_draw(shop, seed, "scaled").uniform(0.1, 0.5))
    drawn = shop.draw(seed, N_CALIBRATION)
    floats = {name: array * factor if array.dtype == np.float32 else array for name, array in drawn.items()}
    return _calibrated(shop, seed, "scaled", f"inputs x{factor:.3g}", floats)


def outlier(shop: Workshop, seed: int) -> Case | None:
    """One calibration sample x10 to x100."""
    if shop.network.raw is None:
        return None
    draw, drawn = _draw(shop, seed, "outlier"), shop.draw(seed, N_CALIBRATION)
    factor, row = np.float32(np.exp(draw.uniform(np.log(10), np.log(100)))), int(draw.integers(count(drawn)))
    for array in drawn.values():
        if array.dtype == np.float32:
            array[row] *= factor
    return _calibrated(shop, seed, "outlier", f"sample {row} x{factor:.3g}", drawn)


def one_class(shop: Workshop, seed: int) -> Case | None:
    """Calibration on samples of one class."""
    classes = shop.samples.classes
    if classes is None:
        return None
    wanted = int(_draw(shop, seed, "one_class").choice(np.unique(classes)))
    rows = np.flatnonzero(classes == wanted)[:N_CALIBRATION]
    return _calibrated(shop, seed, "one_class", f"{len(rows)} of class {wanted}", take(shop.samples.pool, rows))


def few(shop: Workshop, seed: int) -> Case | None:
    """Calibration on 3 to 10 samples."""
    n = int(_draw(shop, seed, "few").integers(3, 11))
    return _calibrated(shop, seed, "few", f"{n} samples", shop.draw(seed, n))


def weight(shop: Workshop, seed: int) -> Case | None:
    """The integers of one weight with noise of 5 to 20 % of their norm, in the engine's file."""
    return _costly(_weights(shop, seed))


def _weights(shop: Workshop, seed: int) -> Iterator[Case]:
    draw = _draw(shop, seed, "weight")
    spec, healthy, _ = shop.healthy
    found: list[tuple[Any, str]] = []
    perturb: Callable[[Path, Any, float, int], None]
    if shop.backend == "ort":
        found, perturb = [*edits.ort_weights(healthy)], edits.perturb_ort_weight
    else:
        found, perturb = [*edits.openvino_weights(healthy, shop.model)], edits.perturb_openvino_weight
    for which, reader in _shuffled(draw, found):
        folder, share = shop.copy(healthy), float(draw.uniform(0.05, 0.2))
        perturb(folder, which, share, seed)
        variant = f"{reader} with {100 * share:.0f} % noise"
        yield shop.case("weight", seed, variant, ("weights", "layer"), nodes=shop.called(reader), engine=(spec, folder))


def operator(shop: Workshop, seed: int) -> Case | None:
    """An attribute of one operator changed in the engine's file: another graph than the model's."""
    return _costly(_operators(shop, seed))


def _operators(shop: Workshop, seed: int) -> Iterator[Case]:
    spec, healthy, _ = shop.healthy
    for words, what in _shuffled(_draw(shop, seed, "operator"), list(edits.changed_operators(shop.backend, healthy))):
        folder = shop.copy(healthy)
        if edits.change_operator(shop.backend, folder, what):
            yield shop.case("operator", seed, words, ("kernels", "export"), engine=(spec, folder))


def kernel(shop: Workshop, seed: int) -> Case | None:
    """Outputs that are cut, or get noise, after the engine computed them: by odd and even seeds."""
    spec, folder, healthy_db = shop.healthy
    reference, cuts = shop.reference.astype(np.float64), seed % 2 == 1
    noise = float(np.sqrt(np.mean(reference**2))) * 10 ** (-(healthy_db - 6) / 20)
    most = float(np.quantile(np.abs(reference), 0.9))

    def change(outputs: Outputs) -> Outputs:
        given = outputs[shop.output]
        draw = np.random.default_rng(seed)
        wrong = np.clip(given, -most, most) if cuts else given + draw.normal(0, noise, given.shape)
        return outputs | {shop.output: wrong.astype(given.dtype)}

    def wrap(engine: Engine) -> Engine:
        return ChangedEngine(engine, change)

    variant = f"outputs cut to {most:.3g}" if cuts else f"noise of {noise:.3g}"
    return shop.case("kernel", seed, variant, ("kernels",), engine=(spec, folder), wrap=wrap)


def cancelling(shop: Workshop, seed: int) -> Case | None:
    """Two products with errors that cancel, and a limit that is too hard."""
    graph = Graph.load(shop.model)
    for node in _shuffled(_draw(shop, seed, "cancelling"), list(graph.weighted())):
        graph = Graph.load(shop.model)
        if not twins.add(graph, node.name, _draw(shop, seed, "twins")):
            continue
        model = shop.new_folder() / shop.model.name
        graph.save(model)
        if largest_difference(shop.reference, shop.run_float(model, shop.samples.evaluation)) <= EQUAL:
            engine = shop.build(model, shop.draw(0, N_CALIBRATION))
            return shop.case("cancelling", seed, f"twins of {node.name}", ("none",), engine=engine, model=model)
    return None


def nothing(shop: Workshop, seed: int) -> Case | None:
    """Nothing planted: other samples, how many, another method; a limit that is too hard."""
    methods = [Calibration("minmax"), Calibration("percentile"), Calibration("minmax"), Calibration("entropy")]
    method = methods[seed % (len(methods) if shop.backend == "ort" else 3)]
    n = (N_CALIBRATION, 2 * N_CALIBRATION, N_CALIBRATION // 2)[seed // len(methods) % 3]
    calibration = shop.draw(seed + 100, n)
    engine = shop.build(shop.model, calibration, method=method)
    variant = f"{count(calibration)} samples, {method.method}"
    return shop.case("nothing", seed, variant, ("none",), engine=engine, calibration=calibration)


KINDS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        *(channel, narrow, wide, raw, scaled, one_class, few, outlier, weight, operator, kernel, cancelling, nothing),
    )
}
"""Kinds by name. A place for export with another padding, eps or axis, which needs torch modules, is left."""
