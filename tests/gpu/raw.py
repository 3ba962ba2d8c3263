"""What a GPU and its libraries say, brought home as it is, to be read and tested on a machine without one.

``python -m tests.gpu.raw PIECE FOLDER`` writes one piece into FOLDER, in a process of its own, and prints its summary
as `tests.gpu.device_checks` does.
"""

from __future__ import annotations

import inspect
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from pytest_quant.backends import get_backend
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.trt.build import LOG_FILE, PLAN_FILE
from pytest_quant.backends.trt.plan import Plan
from pytest_quant.environment.gpu import find_gpus
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, build, conv
from tests.gpu.device_checks import Lacking, answer, cuda_torch

HIDDEN = "N/A due to dynamic shapes"
PAIRS = 1000
_BATCH = 4
_KERNELS_US = (10, 50, 200)
_CYCLES = 1_000_000
_TARGET = ("compute_capability", "SM89")
_KINDS = (("fp32", None), ("int8", "static"))


def inspector(folder: Path) -> str:
    """What TensorRT's inspector says of a static and of a free batch, with an execution context and without."""
    backend = get_backend("trt")
    result = backend.availability()
    if not result.available:
        raise Lacking(result.reason)
    trt, counts = import_module("tensorrt"), []
    for free in (False, True):
        example = conv()
        for precision, scheme in _KINDS:
            with TemporaryDirectory() as work:
                name = f"{'free' if free else 'static'}-{precision}"
                spec = EngineSpec("trt", precision, scheme, _model(example, Path(work), free=free))
                built = build(backend, spec, example, Path(work))
                for context, text in inspected(trt, built / PLAN_FILE, example.feeds(_BATCH, 1)).items():
                    (folder / f"inspector-{name}-{context}.json").write_text(text, encoding="utf-8")
                    counts.append(f"{name} {context} {text.count(HIDDEN)}")
    return f"'{HIDDEN}' in TensorRT {result.version}: {', '.join(counts)}"


def inspected(trt: Any, plan_file: Path, feeds: dict[str, Any]) -> dict[str, str]:
    """Return the inspector's JSON of a plan, without and with an execution context that has all shapes."""
    with open_device().current():
        plan = Plan(trt, plan_file)
        engine_inspector = plan.engine.create_engine_inspector()
        texts = {"without-context": str(engine_inspector.get_engine_information(trt.LayerInformationFormat.JSON))}
        context = plan.new_context()
        for name, array in feeds.items():
            assert context.set_input_shape(name, array.shape), name
        engine_inspector.execution_context = context
        texts["with-context"] = str(engine_inspector.get_engine_information(trt.LayerInformationFormat.JSON))
        del engine_inspector, context
        plan.close()
    return texts


def logs(folder: Path) -> str:
    """The logs of builds, with their sizes."""
    sizes = []
    for name in ("trt", "ort-trt", "trt-rtx"):
        backend = get_backend(name)
        options = (_TARGET,) if name == "trt-rtx" else ()
        example = conv()
        with TemporaryDirectory() as work:
            spec = EngineSpec(name, "int8", "static", _model(example, Path(work), free=True), options=options)
            if not backend.availability(spec).available:
                continue
            log = build(backend, spec, example, Path(work)) / LOG_FILE
            shutil.copyfile(log, folder / f"{name}-{LOG_FILE}")
        lines = (folder / f"{name}-{LOG_FILE}").read_text("utf-8", errors="replace").splitlines()
        size_mb = (folder / f"{name}-{LOG_FILE}").stat().st_size / 1e6
        verbose = sum("VERBOSE" in line for line in lines)
        sizes.append(f"{name} {size_mb:.3f} MB, {len(lines)} lines, {verbose} of them verbose")
    if not sizes:
        raise Lacking("none of trt, ort-trt and trt-rtx can build here")
    return "; ".join(sizes)


def ticks(folder: Path) -> str:
    """Times by pairs of events, around one run in an idle stream and around the second of two that are queued."""
    torch = cuda_torch()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed_ms(cycles: int, *, queued: bool) -> float:
        torch.cuda.synchronize()
        if queued:
            torch.cuda._sleep(cycles)
        first.record()
        torch.cuda._sleep(cycles)
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last))

    for _ in range(PAIRS):
        timed_ms(_CYCLES, queued=True)
    cycles_per_us = _CYCLES / (1e3 * statistics.median(timed_ms(_CYCLES, queued=True) for _ in range(PAIRS)))
    medians, all_times_ms = [], {}
    for kernel_us in _KERNELS_US:
        for queued in (False, True):
            times_ms = [timed_ms(round(kernel_us * cycles_per_us), queued=queued) for _ in range(PAIRS)]
            name = f"{kernel_us} us {'behind another' if queued else 'in an idle stream'}"
            all_times_ms[name] = times_ms
            medians.append(f"{name} {1e3 * statistics.median(times_ms):.2f}")
    (folder / "ticks-ms.json").write_text(json.dumps(all_times_ms) + "\n", encoding="utf-8")
    step_us = 1e3 * step_of([time for times in all_times_ms.values() for time in times])
    return f"medians in us: {', '.join(medians)}; the smallest step is {step_us:.3f} us"


def step_of(times: Sequence[float]) -> float:
    """Return the smallest difference between two times that are not the same, to a nanosecond where they are in ms."""
    distinct = sorted({round(time, 6) for time in times})
    return min((later - sooner for sooner, later in pairwise(distinct)), default=0.0)


def nvml(folder: Path) -> str:
    """Everything that NVML tells without a further question, and ``nvidia-smi -q``."""
    if find_spec("pynvml") is None:
        raise Lacking("nvidia-ml-py is not installed")
    if not find_gpus():
        raise Lacking("there is no NVIDIA GPU here, or its driver does not answer")
    library: Any = import_module("pynvml")
    library.nvmlInit()
    try:
        handles = [library.nvmlDeviceGetHandleByIndex(place) for place in range(library.nvmlDeviceGetCount())]
        machine = _getters(library, "nvmlSystemGet", ())
        cards = [_getters(library, "nvmlDeviceGet", (handle,)) for handle in handles]
    finally:
        library.nvmlShutdown()
    document = {"machine": machine, "cards": cards}
    (folder / "nvml.json").write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        said = subprocess.run((tool, "-q"), capture_output=True, text=True, timeout=60, check=False).stdout
        (folder / "nvidia-smi.txt").write_text(said, encoding="utf-8")
    return f"{len(machine)} answers of the machine and {', '.join(str(len(card)) for card in cards)} of its cards"


def _getters(library: Any, prefix: str, arguments: tuple[object, ...]) -> dict[str, object]:
    """Call every function of that prefix that wants `arguments` and nothing else; an error is an answer too."""
    answers = {}
    for name in sorted(vars(library)):
        function = getattr(library, name)
        if not name.startswith(prefix) or not inspect.isfunction(function):
            continue
        wanted = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
        ]
        if len(wanted) == len(arguments) and set(wanted) <= {"handle", "device"}:
            try:
                answers[name] = function(*arguments)
            except (library.NVMLError, library.NVMLLibraryMismatchError, AttributeError, TypeError) as error:
                answers[name] = f"{type(error).__name__}: {error}"
    return answers


def _model(example: Example, folder: Path, *, free: bool) -> Model:
    """Write the example, its batch free or of a fixed size."""
    if free:
        return example.write(folder)
    proto = onnx.ModelProto()
    proto.CopyFrom(example.proto)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = _BATCH
    path = folder / "static.onnx"
    onnx.save_model(proto, path)
    return Model.from_onnx(path)


PIECES: dict[str, Callable[[Path], str]] = {piece.__name__: piece for piece in (inspector, logs, ticks, nvml)}


if __name__ == "__main__":
    place = Path(sys.argv[2])
    place.mkdir(parents=True, exist_ok=True)
    sys.exit(answer(partial(PIECES[sys.argv[1]], place)))
