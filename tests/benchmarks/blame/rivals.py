"""What other ways to look rank first: each by its own measure, on an engine that a fault was planted in.

- The debugger of ONNX Runtime's quantizer compares tensors of the engine, by either of its errors.
- NNCF takes groups of quantizers out of an engine of OpenVINO, as its accuracy control does before the first step.
- The search for `exclude` quantizes groups of nodes alone, and splits the worst. It builds engines anew, so that it
  does not see what was changed in a range or an engine by hand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends import get_backend
from pytest_quant.backends.offer import exclude_nodes
from pytest_quant.backends.ort.build import ENGINE_FILE
from pytest_quant.backends.ort.prepare import prepare_model
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.diagnose.advise import rank_nodes
from pytest_quant.errors import QuantError
from pytest_quant.files import temporary_folder
from tests.benchmarks.blame.cases import Case, batches, run_all, sqnr_db
from tests.benchmarks.blame.graph import Graph
from tests.benchmarks.blame.networks import take

ERRORS = ("qdq_err", "xmodel_err")
"""A tensor before its pair against behind it; the float model's tensor against it. In dB: the least is first."""

RIVALS = {
    **{error: f"qdq_loss_debug {error}" for error in ERRORS},
    "nncf": "NNCF's ranking",
    "search": "exclude search",
}
"""What each is called in the table."""

SAMPLES = 64
SEARCH_CALIBRATION = 16
"""As many calibrate an engine that only ranks nodes, in the search of a check."""

SEARCH_S = 30.0
"""The search of a check has as long by default for all that it tries."""


class _Reader:
    def __init__(self, feeds: list[Any]) -> None:
        self._feeds = iter(feeds)

    def __iter__(self) -> Any:
        return self._feeds


def rank(case: Case) -> dict[str, list[str]]:
    """Return by rival the products that it ranks first; without those that cannot look at this backend."""
    others = _rank_tensors(case) if case.backend == "ort" else {"nncf": _rank_groups(case)}
    return {**others, "search": _search(case)}


def _rank_tensors(case: Case) -> dict[str, list[str]]:
    """Return by error the products next to the tensor that ONNX Runtime's debugger ranks first."""
    from onnxruntime.quantization import qdq_loss_debug as tool

    feeds = batches(take(case.evaluation, slice(SAMPLES)), case.batch)
    prepared = prepare_model(case.spec, per_channel=recipe_of(case.spec).per_channel)
    found = []
    with temporary_folder() as work:
        for number, path in enumerate((prepared, case.folder / ENGINE_FILE)):
            saved = work / f"{number}.onnx"
            tool.modify_model_output_intermediate_tensors(path, saved)
            found.append(tool.collect_activations(str(saved), _Reader(feeds)))
    floats, quantized = found
    errors = tool.compute_activation_error(
        {name: each for name, each in tool.create_activation_matching(quantized, floats).items() if "float" in each}
    )
    graph = Graph.load(prepared)
    first = {kind: min(errors, key=lambda name: errors[name][kind]) for kind in ERRORS if errors}
    return {kind: list(graph.near(name)) for kind, name in first.items()}


def _rank_groups(case: Case) -> list[str]:
    """Return the products of the group of quantizers that NNCF takes out first, by the NMSE of the output as metric.

    By its other mode, NMSE without a metric, NNCF 3.4 takes out first what leaves the largest error.
    """
    import openvino
    from nncf import Dataset
    from nncf.common.factory import build_graph
    from nncf.quantization.algorithms.accuracy_control import algorithm, evaluator, ranker
    from nncf.quantization.algorithms.accuracy_control.openvino_backend import OVAccuracyControlAlgoBackend
    from nncf.quantization.algorithms.accuracy_control.rank_functions import normalized_mse
    from openvino.passes import ConstantFolding

    from pytest_quant.backends.onnx_files import model_file
    from pytest_quant.backends.onnx_files.normalize import normal_file
    from pytest_quant.backends.openvino import files
    from pytest_quant.backends.openvino.coverage import OPERATORS
    from pytest_quant.backends.openvino.quantize import rename_operations

    logging.getLogger("nncf").setLevel(logging.ERROR)
    with temporary_folder() as work:
        floats = files.read_model(normal_file(model_file(case.spec.model), work))
    engine, called = (files.read_model(case.folder / files.ENGINE_FILE) for _ in range(2))
    rename_operations(called, case.spec.model)
    # NNCF takes no model with two operations of one name, as a product and its addition have it by the user's names.
    model_names = {
        own.get_friendly_name(): each.get_friendly_name()
        for own, each in zip(engine.get_ordered_ops(), called.get_ordered_ops(), strict=True)
    }
    # Each process numbers anew what has no name.
    ours, theirs = (
        {each.get_friendly_name(): each for each in model.get_ordered_ops() if each.get_type_name() in OPERATORS}
        for model in (floats, engine)
    )
    for one, other in zip(
        (name for name in ours if name not in theirs), (name for name in theirs if name not in ours), strict=True
    ):
        ours[one].set_friendly_name(other)
    # It takes weights as floats that were rounded, and puts back those of the float model with a group.
    ConstantFolding().run_on_model(engine)
    names = [each.get_any_name() for each in engine.inputs]
    data = Dataset(
        [[feeds[name] for name in names] for feeds in batches(take(case.evaluation, slice(SAMPLES)), case.batch)]
    )
    tools = OVAccuracyControlAlgoBackend()
    graph = build_graph(engine)
    algorithm.QuantizationAccuracyRestorer._collect_original_biases_and_weights(
        build_graph(floats), graph, floats, tools
    )
    reference = openvino.compile_model(floats, "CPU")

    def validate(model: Any, items: Iterable[Any]) -> tuple[float, list[float]]:
        pairs = [([side(each)[case.output]] for side in (reference, model)) for each in items]
        scores = [-normalized_mse(*pair) for pair in pairs]
        return sum(scores) / len(scores), scores

    judge = evaluator.Evaluator(validate)
    wanted, had = (judge.validate(model, data)[1] for model in (floats, engine))
    ranking = ranker.Ranker(len(wanted), data, tools, judge)
    groups = ranking.find_groups_of_quantizers_to_rank(graph)
    # The last is taken out first: without it, the figure of merit is best.
    first = ranking.rank_groups_of_quantizers(groups, engine, graph, wanted, had)[-1:]
    return [model_names[node.node_name] for group in first for node in group.operations if node.node_type in OPERATORS]


def _search(case: Case) -> list[str]:
    """Return the nodes of the group whose error is largest when they alone are quantized."""
    backend = get_backend(case.backend)
    nodes = backend.quantized_nodes(case.spec)
    samples, few = take(case.evaluation, slice(SAMPLES)), take(case.calibration, slice(SEARCH_CALIBRATION))

    def output_of(spec: Any, work: Path) -> Any:
        ranges, folder = work / "ranges", work / "engine"
        for each in (ranges, folder):
            each.mkdir(parents=True)
        if spec.scheme:
            backend.calibrate(spec, lambda: iter(batches(few, case.batch)), ranges)
        backend.build(spec, ranges if spec.scheme else None, folder)
        with backend.open(spec, folder) as engine:
            return np.asarray(run_all(engine, samples, case.batch)[case.output])

    with temporary_folder() as work:
        reference = output_of(replace(case.spec, precision="fp32", scheme=None), work / "float")
        number = iter(range(1 << 20))

        def noise(quantized: tuple[str, ...]) -> float | None:
            spec = exclude_nodes(case.spec, [name for name in nodes if name not in quantized]).spec
            try:
                return float(10 ** (-sqnr_db(reference, output_of(spec, work / str(next(number)))) / 10))
            except QuantError:
                return None

        end = time.perf_counter() + SEARCH_S
        groups, _ = rank_nodes(nodes, noise, lambda: time.perf_counter() < end)
    return [name for group in groups[:1] for name in group.nodes]
