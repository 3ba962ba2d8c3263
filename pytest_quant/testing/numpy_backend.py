"""A backend that runs small ONNX graphs in numpy, as plainly as can be: something to compare other backends with.

Its int8 is a simulation: weights, and with scheme ``static`` activations too, are rounded to 8 bits and computed in
float. Its engines say so (``simulated``), so that accuracy is judged and latency is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from pytest_quant.backends.base import Availability, Engine, EngineBase, Feeds, Outputs, Reads
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.environment.packages import version
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.result import Coverage, OpCoverage
from pytest_quant.spec import EngineSpec, Model, Signature
from pytest_quant.testing.rounding import ELIGIBLE, is_rounded

_RANGES = "ranges.json"

_MODEL = "model.onnx"

_RECIPE = "1"


class NumpyEngine(EngineBase):
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


class NumpyBackend:
    """onnx's reference evaluator behind the protocol of a backend; it has no options."""

    name = "numpy"
    device = "cpu"
    reads: Reads = "onnx"
    schemes: Mapping[str, tuple[str | None, ...]] = {"fp32": (None,), "int8": ("static", "weight-only")}

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnx is installed."""
        if find_spec("onnx") is None:
            return Availability(False, reason="onnx is not installed", fix="pip install onnx")
        return Availability(True, version=version("numpy"), device="cpu")

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for any option, and for a calibration other than ``minmax``."""
        if spec.scheme not in self.schemes.get(spec.precision, ()):
            offered = "; ".join(f"{precision}: {names}" for precision, names in self.schemes.items())
            raise UsageError(f"backend 'numpy' has no {spec.precision} {spec.scheme}", allowed=offered)
        for name, value in spec.options:
            raise UsageError(f"backend 'numpy' has no option '{name}'", value=repr(value), allowed="none")
        if spec.scheme == "static" and spec.calibration.method != "minmax":
            raise UsageError(f"backend 'numpy' has no calibration '{spec.calibration.method}'", allowed="minmax")

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:  # noqa: ARG002
        """Return ``None``: what is slow here may be measured."""
        return None

    def signature(self, model: Model) -> Signature:
        """Read inputs and outputs from the graph. Raises `ModelError`."""
        from pytest_quant.backends.onnx_files import model_file, read_signature

        return read_signature(model_file(model))

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, precision, scheme, excluded nodes, versions."""
        own = {"precision": spec.precision, "scheme": str(spec.scheme), "exclude": json.dumps(sorted(spec.exclude))}
        return self._common(spec) | own

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """Model bytes, samples and batch size for ``static``, else ``None``."""
        if spec.scheme != "static":
            return None
        asked = spec.calibration
        return self._common(spec) | {"samples": str(asked.samples), "batch_size": str(asked.batch_size)}

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the smallest and largest value of each activation that an eligible node reads."""
        from pytest_quant.backends.onnx_files import model_file
        from pytest_quant.testing.rounding import activation_ranges

        ranges = activation_ranges(model_file(spec.model), batches())
        (folder / _RANGES).write_text(json.dumps(ranges), encoding="utf-8")

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the rounded model; the float one stays where it is."""
        from pytest_quant.backends.onnx_files import model_file
        from pytest_quant.testing.rounding import write_rounded

        if spec.scheme is None:
            return
        ranges = {} if calibration is None else json.loads((calibration / _RANGES).read_text(encoding="utf-8"))
        write_rounded(model_file(spec.model), ranges, spec.exclude, folder / _MODEL)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the evaluator. Raises `BuildError` for an operator that it does not know."""
        from pytest_quant.backends.onnx_files import model_file

        return NumpyEngine(spec, model_file(spec.model) if spec.scheme is None else folder / _MODEL)

    def _common(self, spec: EngineSpec) -> dict[str, str]:
        from pytest_quant.backends.onnx_files import file_digests, model_file

        digests = {f"model {name}".strip(): text for name, text in file_digests(model_file(spec.model)).items()}
        return digests | {"onnx": version("onnx"), "numpy": version("numpy"), "recipe": _RECIPE}
