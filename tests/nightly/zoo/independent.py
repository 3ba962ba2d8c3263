"""The figures of the zoo without pytest-quant: ONNX Runtime (OpenVINO for its engines) and numpy.

Run in a process of its own. It reads a list of tasks from standard input and writes a list of results to standard
output. A task names the float model, the engine file that a check built, the samples, and where these lie in inputs
and outputs. Every sample is run by itself, step after step where the model has a state, and every figure is computed
from its formula.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Feeds = dict[str, Array]
Run = Callable[[Feeds], dict[str, Array]]
Shapes = dict[str, list[Any]]


def onnx_runtime(path: str, _: list[str], *, rounded: bool = False) -> tuple[Run, Shapes]:
    """Open in ONNX Runtime; with `rounded` pairs of Q/DQ round and products run in float.

    ONNX Runtime has an option for that, and nodes that it fuses add up in another order: the last bits of a sum decide
    now and then to which integer the next pair rounds.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if rounded:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    shapes = {each.name: list(each.shape) for each in session.get_inputs()}
    return lambda feeds: dict(zip(names, session.run(names, feeds), strict=True)), shapes


def openvino(path: str, wanted: list[str]) -> tuple[Run, Shapes]:
    """Open in OpenVINO, float32 where it is not quantized, one thread; of an output's names a `wanted` one counts."""
    import openvino as runtime

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    model = runtime.Core().compile_model(path, "CPU", settings)
    shapes = {
        name: [dim.get_length() if dim.is_static else None for dim in each.partial_shape]
        for each in model.inputs
        for name in each.get_names()
    }
    names = [next((name for name in output.get_names() if name in wanted), output.any_name) for output in model.outputs]

    def run(feeds: Feeds) -> dict[str, Array]:
        result = model(feeds)
        return {names[index]: np.array(result[each]) for index, each in enumerate(model.outputs)}

    return run, shapes


RUNTIMES: dict[str, Callable[[str, list[str]], tuple[Run, Shapes]]] = {
    "ort": onnx_runtime,
    "openvino": openvino,
    "rounded": lambda path, wanted: onnx_runtime(path, wanted, rounded=True),
}


SCALES = {"top1": 100, "text": 100, "voice": 100, "key": 100, "pitch": 1}
"""All but the last are counted in percent."""


def placed(array: Array, axis: int | None, size: int) -> Array:
    """Put the sample where the model has its samples, as often as the model takes."""
    return array if axis is None else np.repeat(np.expand_dims(array, axis), size, axis)


def taken(array: Array, axis: int | None) -> Array:
    """Take the first sample out."""
    return array if axis is None or array.ndim == 0 else np.take(array, 0, axis)


def answer(run: Run, shapes: Shapes, sample: Feeds, task: dict[str, Any]) -> dict[str, Array]:
    """Outputs of one sample; those of all steps behind each other where the model has a state."""
    axes: dict[str, int | None] = task["axes"]

    def size(name: str) -> int:
        shape, axis = shapes.get(name), axes.get(name, 0)
        result = shape[axis] if shape and axis is not None else 1
        return result if isinstance(result, int) else 1

    def outputs(feeds: Feeds) -> dict[str, Array]:
        return {name: taken(array, task["output_axes"].get(name, 0)) for name, array in feeds.items()}

    if not task["state"]:
        return outputs(run({name: placed(array, axes.get(name, 0), size(name)) for name, array in sample.items()}))
    state = {
        name: np.zeros([each if isinstance(each, int) else 1 for each in shapes[name]], np.float32)
        for name in task["state"].values()
    }
    steps = []
    for index in range(len(next(iter(sample.values())))):
        now = {name: placed(array[index], axes.get(name, 0), size(name)) for name, array in sample.items()}
        result = run(now | state)
        state = {into: result[out] for out, into in task["state"].items()}
        steps.append(outputs(result))
    return {name: np.stack([step[name] for step in steps]) for name in steps[0]}


def text(output: Array, blank: int, alphabet: list[str]) -> str:
    """Read the largest letters, without repeats and blanks."""
    letters, before = [], None
    for step in output:
        largest = int(np.argmax(step))
        if largest != before and largest != blank:
            letters.append(alphabet[largest])
        before = largest
    return "".join(letters)


def score(outputs: list[Array], labels: list[Any], kind: str, settings: dict[str, Any]) -> float:
    """Return the score over all samples, in percent or in Hz."""
    return SCALES[kind] * float(np.mean(rights(list(zip(outputs, labels, strict=True)), kind, settings)))


def rights(pairs: list[tuple[Array, Any]], kind: str, settings: dict[str, Any]) -> list[float]:
    """Return one number for each sample."""
    if kind == "top1":
        return [int(np.argmax(each)) == label for each, label in pairs]
    if kind == "text":
        return [text(each, settings["blank"], settings["alphabet"]) == label for each, label in pairs]
    if kind == "voice":
        loud = [[float(step.ravel()[0]) > settings["threshold"] for step in each] for each, _ in pairs]
        return [
            sum(a == bool(b) for a, b in zip(steps, label, strict=True)) / len(label)
            for steps, (_, label) in zip(loud, pairs, strict=True)
        ]
    if kind == "key":
        return [int(np.argmax(each.sum(axis=0))) == label for each, label in pairs]
    if kind == "pitch":
        return [abs(float(np.median(each)) - label) for each, label in pairs]
    raise ValueError(kind)


def distance(references: list[Array], candidates: list[Array]) -> dict[str, float | None]:
    """Compute SQNR, cosine and the largest error over all values of all samples, and the largest of these values.

    A sample whose output has another shape on the two sides cannot be compared; the others can.
    """
    pairs = [pair for pair in zip(references, candidates, strict=True) if pair[0].shape == pair[1].shape]
    if not pairs:
        return dict.fromkeys(("sqnr_db", "cosine", "max_abs_error", "largest_value"))
    r = np.concatenate([reference.astype(np.float64).ravel() for reference, _ in pairs])
    c = np.concatenate([candidate.astype(np.float64).ravel() for _, candidate in pairs])
    noise, signal, other = np.square(r - c).sum(), np.square(r).sum(), np.square(c).sum()
    return {
        "sqnr_db": 10 * math.log10(signal / noise) if noise and signal else None,
        "cosine": float((r * c).sum() / math.sqrt(signal * other)) if signal and other else None,
        "max_abs_error": float(np.abs(r - c).max()) if r.size else None,
        "largest_value": float(np.abs(r).max()) if r.size else None,
    }


def size_mb(path: Path) -> float:
    """Return the size of an engine's file in 10^6 bytes, with the weights that OpenVINO keeps beside it."""
    weights = path.with_suffix(".bin")
    return (path.stat().st_size + (weights.stat().st_size if weights.is_file() else 0)) / 1e6


def figures(task: dict[str, Any]) -> dict[str, Any]:
    """Run both models over the samples, and compare."""
    archive = np.load(task["samples"])
    sides = []
    for side in ("reference", "candidate"):
        run, shapes = RUNTIMES[task["runtime"]](task[side], task["outputs"])
        outcome = []
        for index in range(task["n"]):
            sample = {name: archive[f"{index}|{name}"] for name in task["inputs"]}
            outcome.append(answer(run, shapes, sample, task))
        sides.append(outcome)
    reference, candidate = sides
    names = list(reference[0])
    where = dict(zip(names, candidate[0], strict=True))
    pairs = {
        name: ([each[name] for each in reference], [each[where[name]] for each in candidate])
        for name in names
        if reference[0][name].dtype.kind in "fiub"
    }
    result: dict[str, Any] = {
        "n": task["n"],
        "size_mb": size_mb(Path(task["candidate"])),
        "outputs": {name: distance(*pair) for name, pair in pairs.items()},
    }
    first = task["score"]["output"] if task["score"] else names[0]
    ones = pairs.get(first) if task["score"] is None or task["score"]["kind"] == "top1" else None
    if ones is not None and all(each.ndim == 1 and each.size > 1 for each in ones[0]) and ones[0][0].dtype.kind == "f":
        same = [int(np.argmax(a)) == int(np.argmax(b)) for a, b in zip(*ones, strict=True)]
        result["agreement_pct"] = 100 * sum(same) / len(same)
    if task["score"] is not None:
        kind, settings = task["score"]["kind"], task["score"]["settings"]
        for side, outputs in zip(("reference", "candidate"), pairs[task["score"]["output"]], strict=True):
            result[side] = score(outputs, task["labels"], kind, settings)
    return result


def main() -> None:
    """Answer all tasks; a task that cannot be answered says why."""
    results = []
    for task in json.load(sys.stdin):
        try:
            results.append(figures(task))
        except Exception as fault:
            results.append({"fault": f"{type(fault).__name__}: {fault}"[:400]})
    sys.stdout.write("\n" + json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
