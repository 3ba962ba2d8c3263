"""Figures of two ONNX models over samples: only ONNX Runtime and numpy, in a process of its own.

Reads one request a line from standard input and writes one answer a line: paths of both models and of the samples,
the axis that counts samples in each input and output, the batch size that the graph fixes, and the sizes to run.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def open_session(path: str) -> onnxruntime.InferenceSession:
    """Open on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def outputs_of(path: str, samples: Arrays, request: dict[str, Any], size: int) -> Arrays:
    """Run `size` samples at a time and return every output with the samples on the first axis."""
    session = open_session(path)
    inputs, outputs, fixed = request["inputs"], request["outputs"], request["fixed"]
    n = next(len(samples[name]) for name, axis in inputs.items() if axis is not None)
    names = [output.name for output in session.get_outputs()]
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for start in range(0, n, size):
        rows = list(range(start, min(start + size, n)))
        filled = rows + [rows[-1]] * ((fixed or len(rows)) - len(rows))
        feeds = {
            name: samples[name] if axis is None else np.ascontiguousarray(np.moveaxis(samples[name][filled], 0, axis))
            for name, axis in inputs.items()
        }
        for name, array in zip(names, session.run(names, feeds), strict=True):
            axis = outputs[name]
            real = array[None] if axis is None else np.moveaxis(array, axis, 0)[: len(rows)]
            parts[name].append(real)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def compared(reference: NDArray[Any], candidate: NDArray[Any]) -> dict[str, float]:
    """Return the sums that all tensor figures are made of, in float64."""
    r, c = reference.astype(np.float64).ravel(), candidate.astype(np.float64).ravel()
    return {
        "signal": float(r @ r),
        "noise": float((r - c) @ (r - c)),
        "candidate": float(c @ c),
        "product": float(r @ c),
        "max_abs_error": float(np.abs(r - c).max()),
        "largest": float(np.abs(r).max()),
    }


def figures(request: dict[str, Any]) -> dict[str, Any]:
    """Return the figures at each batch size of the request."""
    with np.load(request["samples"]) as stored:
        samples = dict(stored)
    labels = samples.pop("labels", None)
    result = {}
    for size in request["sizes"]:
        sides = [outputs_of(request[side], samples, request, size) for side in ("reference", "candidate")]
        first = next(iter(request["outputs"]))
        of_size: dict[str, Any] = {
            "outputs": {name: compared(sides[0][name], sides[1][name]) for name in request["outputs"]},
            "top": [side[first].argmax(axis=1).tolist() for side in sides] if sides[0][first].ndim == 2 else None,
        }
        if labels is not None:
            of_size["scores"] = [100 * float(np.mean(side[first].argmax(axis=1) == labels)) for side in sides]
        result[str(size)] = of_size
    return result


def main() -> None:
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        try:
            answer = figures(json.loads(line))
        except Exception as error:
            # The runtime raises many kinds, and the asker must know which.
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
