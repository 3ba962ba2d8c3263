"""One graph in onnx's reference evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, OpCoverage
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.rounding import ELIGIBLE, is_rounded


class NumpyEngine(Engine):
    """A graph that is evaluated node by node in numpy; `simulated` unless it is the float one."""

    provider = "numpy"

    def __init__(self, spec: EngineSpec, path: Path) -> None:
        self.spec = spec
        self.signature = read_signature(path)
        self.simulated = spec.scheme is not None
        self.size_bytes = size_bytes(path)
        if self.simulated:
            self.notes = ("int8 is simulated: values are rounded to 8 bits and computed in float",)
        self._model = onnx.load(path)
        self._evaluator = _evaluator(self._model, path)

    def _run(self, feeds: Feeds) -> Outputs:
        call = self._prepare(feeds)
        names = (tensor.name for tensor in self.signature.outputs)
        return {name: np.array(array) for name, array in zip(names, call(), strict=True)}  # type: ignore[call-overload]

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        return partial(self._evaluator.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the eligible nodes whose operands are rounded to 8 bits; for a float engine, all of them."""
        self._prepare(feeds)()
        nodes = [node for node in self._model.graph.node if node.op_type in ELIGIBLE]
        done = [node for node in nodes if not self.simulated or is_rounded(node, self._model.graph)]
        all_types = Counter(node.op_type for node in nodes)
        done_types = Counter(node.op_type for node in done)
        missed = [node.name or node.output[0] for node in nodes if node not in done]
        return Coverage(
            pct=100.0 * len(done) / len(nodes) if nodes else None,
            unit="nodes",
            by_op=tuple(OpCoverage(name, count, done_types[name]) for name, count in sorted(all_types.items())),
            provider=self.provider,
            float_nodes=tuple(missed[:10]),
            asked_nodes=tuple(node.name or node.output[0] for node in done),
        )

    def _close(self) -> None:
        del self._evaluator


def _evaluator(model: onnx.ModelProto, path: Path) -> ReferenceEvaluator:
    """Raise `BuildError` for what the evaluator cannot run; it says so in several classes of its own."""
    try:
        return ReferenceEvaluator(model)
    except (NotImplementedError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise BuildError(
            f"numpy cannot run {path.name}",
            value=str(error),
            allowed="operators of ONNX itself",
            fix="use a runtime that knows the operator, such as backend='ort'",
        ) from error
