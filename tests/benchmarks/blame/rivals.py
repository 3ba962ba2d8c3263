"""What other tools rank first: the debugger of ONNX Runtime's own quantizer, by each of its two errors."""

from __future__ import annotations

from typing import Any

from pytest_quant.backends.ort.build import ENGINE_FILE
from pytest_quant.backends.ort.prepare import prepare_model
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.files import temporary_folder
from tests.benchmarks.blame.cases import Case, batches
from tests.benchmarks.blame.graph import Graph
from tests.benchmarks.blame.networks import take

ERRORS = ("qdq_err", "xmodel_err")
"""A tensor before its pair against behind it; the float model's tensor against it. In dB: the least is first."""


class _Reader:
    def __init__(self, feeds: list[Any]) -> None:
        self._feeds = iter(feeds)

    def __iter__(self) -> Any:
        return self._feeds


def rank(case: Case) -> dict[str, list[str]]:
    """Return by error the products next to the tensor that the tool ranks first; nothing for other backends."""
    if case.backend != "ort":
        return {}
    from onnxruntime.quantization import qdq_loss_debug as tool

    feeds = batches(take(case.evaluation, slice(64)), case.batch)
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
