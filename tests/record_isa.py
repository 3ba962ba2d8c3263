"""Record what the runtimes of this machine say about the conformance examples: ``python -m tests.record_isa DIR``.

The readers of `pytest_quant.backends` are tested on such recordings of every instruction set that was ever at hand
(`tests/recorded_isa`). A folder named after the set is added to DIR. OpenVINO is recorded at the level to which the
variable ``ONEDNN_MAX_CPU_ISA`` lowers it; ONNX Runtime has no such switch and is recorded without it only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends import get_backend
from pytest_quant.backends.openvino.coverage import SEEN_APART, hidden_products, layers_of, source_of
from pytest_quant.backends.openvino.engine import compile_model
from pytest_quant.backends.openvino.files import ENGINE_FILE, read_model
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.session import open_session
from pytest_quant.environment.machine import ONEDNN_LIMIT, onednn_tier
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, build, conv, dense

BATCH = 4
"""With VNNI OpenVINO fuses the dense example whole at this batch size, with 1 or 16 samples it does not."""

ORT_ENGINES = (("fp32", None), ("int8", "static"), ("int8", "dynamic"), ("int4", "weight-only"))


def record(target: Path) -> Path:
    """Write the recordings of this process's instruction set below `target` and return their folder."""
    folder = target / onednn_tier()
    folder.mkdir(parents=True, exist_ok=True)
    for example in (dense(), conv()):
        with tempfile.TemporaryDirectory() as work:
            model = example.write(Path(work))
            _record_openvino(example, model, folder)
            if not os.environ.get(ONEDNN_LIMIT):
                _record_ort(example, model, folder)
    return folder


def _record_openvino(example: Example, model: Model, folder: Path) -> None:
    for precision, scheme in (("fp32", None), ("int8", "static")):
        spec = EngineSpec("openvino", precision, scheme, model)
        with tempfile.TemporaryDirectory() as work:
            source = read_model(build(get_backend("openvino"), spec, example, Path(work)) / ENGINE_FILE)
            source.reshape({0: list(np.shape(example.feeds(BATCH, 0)["x"]))})
            name = f"openvino_{example.name}_{precision}_batch{BATCH}"
            runtime = compile_model(source, spec).get_runtime_model()
            _write_runtime(runtime, folder / f"{name}.xml")
            if hidden_products(layers_of(runtime), source_of(source), precision):
                apart = compile_model(source, spec, SEEN_APART).get_runtime_model()
                _write_runtime(apart, folder / f"{name}_apart.xml")


def _write_runtime(runtime: Any, file: Path) -> None:
    import openvino

    openvino.serialize(runtime, file)
    file.with_suffix(".bin").unlink(missing_ok=True)


def _record_ort(example: Example, model: Model, folder: Path) -> None:
    for precision, scheme in ORT_ENGINES:
        spec = EngineSpec("ort", precision, scheme, model)
        with tempfile.TemporaryDirectory() as work:
            built = build(get_backend("ort"), spec, example, Path(work))
            session, _ = open_session(engine_file(spec, built), threads=1, profile=Path(work))
            session.run(None, example.feeds(1, 0))
            events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
        ran = [_node(event) for event in events if event.get("cat") == "Node" and "op_name" in event["args"]]
        text = json.dumps([node for node in ran if node["name"].endswith("_kernel_time")], indent=1)
        (folder / f"ort_{example.name}_{precision}_{scheme}.profile.json").write_text(text + "\n", "utf-8")


def _node(event: dict[str, Any]) -> dict[str, Any]:
    """Keep what does not change from run to run."""
    keys = ("op_name", "provider", "input_type_shape", "output_type_shape")
    return {"cat": "Node", "name": event["name"], "args": {key: event["args"][key] for key in keys}}


if __name__ == "__main__":
    sys.stdout.write(f"{record(Path(sys.argv[1]))}\n")
