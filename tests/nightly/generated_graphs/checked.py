"""One drawn graph through our own straight line, and the answer of the independent script laid beside it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from pytest_quant.errors import QuantError
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.result import AccuracyResult, OutputError
from pytest_quant.spec import Check, Dataset, EngineSpec, Model
from tests.nightly.generated_graphs.drawn import Drawn
from tests.support.measuring import quiet_session

SCRIPT = Path(__file__).with_name("independent.py")
BATCH = 32
RELATIVE = 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one graph.

    Attributes
    ----------
    wrong : what differs from the independent figures; empty when nothing does.
    refusal : our own message; empty when figures were given.
    """

    wrong: str = ""
    refusal: str = ""


class Independent:
    """``with Independent() as independent: independent.figures(request)``."""

    def __enter__(self) -> Self:
        """Start the process; nothing of ours is on its path."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process by the end of its input."""
        self._process.communicate()

    def figures(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask once and return the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer


def check_graph(drawn: Drawn, independent: Independent, folder: Path) -> Outcome:
    """Build, run and compare `drawn` in `folder`, which must be empty."""
    path = folder / "model.onnx"
    path.write_bytes(drawn.model.SerializeToString())
    try:
        with _measured(drawn, path, folder / "cache") as measurement:
            request = _request(drawn, path, Path(measurement.engine.path), folder)  # type: ignore[attr-defined]
            return _beside(measurement.accuracy, independent.figures(request), drawn)
    except QuantError as error:
        return Outcome(refusal=str(error))


@contextmanager
def _measured(drawn: Drawn, path: Path, cache: Path) -> Iterator[Measurement]:
    session = quiet_session(cache)
    measurement = session.measure_engines(_check(drawn, path))
    try:
        session.judge(measurement)
        yield measurement
    finally:
        measurement.close()


def _check(drawn: Drawn, path: Path) -> Check:
    model = Model.from_onnx(path, batch_axes=_told(drawn))
    return Check(
        "generated",
        "generated",
        EngineSpec("ort", "int8", drawn.plan.scheme, model),
        EngineSpec("ort", "fp32", None, model),
        Dataset.from_arrays(drawn.inputs, drawn.labels, drawn.calibration),
        metric=None,
        eval_batch_size=BATCH,
        latency=None,
        latency_off="figures are compared",
    )


def _told(drawn: Drawn) -> dict[str, int | None] | None:
    """Tell the axes that are not the first where the graph fixes their sizes: nothing else can tell them."""
    if drawn.fixed is None:
        return None
    return {name: axis for name, axis in (drawn.input_axes | drawn.output_axes).items() if axis != 0}


def _request(drawn: Drawn, reference: Path, candidate: Path, folder: Path) -> dict[str, Any]:
    labels = {} if drawn.labels is None else {"labels": drawn.labels}
    np.savez(folder / "samples.npz", **drawn.inputs, **labels)  # type: ignore[arg-type]  # its stub has allow_pickle
    return {
        "reference": str(reference),
        "candidate": str(candidate),
        "samples": str(folder / "samples.npz"),
        "inputs": drawn.input_axes,
        "outputs": drawn.output_axes,
        "fixed": drawn.fixed,
        "sizes": sorted({1, drawn.fixed or BATCH}),
    }


def _beside(ours: AccuracyResult, answer: dict[str, Any], drawn: Drawn) -> Outcome:
    """Lay ours beside the figures of samples that run alone, then beside those of the batches that ran.

    Rounding of floats in another order can move a value to the next quantization step, and then only batches of one
    size give equal figures; ranges that are found while running must be those of the mark's batch size, 1.
    """
    if "error" in answer:
        return Outcome(wrong=f"only we could run it: {answer['error']}")
    result = {int(size): _differences(ours, figures, drawn) for size, figures in answer.items()}
    allowed = {1, drawn.fixed} if drawn.fixed or drawn.plan.scheme == "dynamic" else {1, BATCH}
    equal = [size for size, differences in result.items() if not differences and size in allowed]
    return Outcome("" if equal else "; ".join(result[1]))


def _differences(ours: AccuracyResult, figures: dict[str, Any], drawn: Drawn) -> list[str]:
    """Name every figure of ours that is another one; scores must be equal, errors to 1e-6 of the output's size."""
    n = len(next(array for name, array in drawn.inputs.items() if drawn.input_axes[name] is not None))
    exact: dict[str, tuple[float | None, float | None]] = {"n": (ours.n, n)}
    if "scores" in figures:
        exact["reference"], exact["candidate"] = zip((ours.reference, ours.candidate), figures["scores"], strict=True)
    if figures["top"] is not None:
        exact["agreement_pct"] = (ours.agreement_pct, 100 * float(np.mean(np.equal(*figures["top"]))))
    result = [
        f"{name} {got} in place of {value}" for name, (got, value) in exact.items() if not _near(got, value, 1e-12)
    ]
    own = {output.name: output for output in ours.by_output}
    for name, sums in figures["outputs"].items():
        result += _output_differences(name, own.get(name, OutputError(name)), sums)
    return result


def _output_differences(name: str, ours: OutputError, sums: dict[str, float]) -> list[str]:
    """Compare figures with their formulas; an SQNR as the ratio of noise to signal that it stands for."""
    product = math.sqrt(sums["signal"]) * math.sqrt(sums["candidate"])
    ratio = math.sqrt(sums["noise"] / sums["signal"]) if sums["signal"] and sums["candidate"] else None
    got = None if ours.sqnr_db is None else 10 ** (-ours.sqnr_db / 20)
    checked = {
        "noise to signal": (got or 0.0, ratio or 0.0, RELATIVE),
        "cosine": (ours.cosine, sums["product"] / product if product else None, RELATIVE),
        "max_abs_error": (ours.max_abs_error, sums["max_abs_error"], RELATIVE * sums["largest"]),
    }
    return [
        f"{name}.{figure} {a} in place of {b}" for figure, (a, b, limit) in checked.items() if not _near(a, b, limit)
    ]


def _near(ours: float | None, theirs: float | None, limit: float) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return math.isclose(ours, theirs, rel_tol=RELATIVE, abs_tol=limit)
