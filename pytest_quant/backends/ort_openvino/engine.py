"""One open session on OpenVINO, and what a check asks of it."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.macs import find_products, read_profile
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.ort_openvino.coverage import count_coverage, read_kernels
from pytest_quant.backends.ort_openvino.plugin import PROVIDER, cpu_devices
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

_SETTINGS = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""In words of OpenVINO: without the hint a CPU with bfloat16 may run the float reference in it."""


def on_openvino(threads: int) -> tuple[Provider]:
    """Return OpenVINO on this CPU, as a session is asked for it."""
    inside = _SETTINGS | {"INFERENCE_NUM_THREADS": str(threads)}
    return (Provider(PROVIDER, {"load_config": json.dumps({"CPU": inside})}, tuple(cpu_devices())),)


def open_engine(spec: EngineSpec, folder: Path) -> OrtOpenVinoEngine:
    """Open the engine that `build` wrote. Raises `BuildError` or `ModelError`."""
    return OrtOpenVinoEngine(spec, engine_file(spec, folder))


class OrtOpenVinoEngine(OrtEngine):
    """A session whose products are all on OpenVINO. Raises `BuildError` for a model of which nothing is."""

    def __init__(self, spec: EngineSpec, path: Path) -> None:
        threads = parse_options(spec.options).threads
        super().__init__(spec, path, on_openvino(threads), threads=threads, notes=recipe_of(spec).notes)
        parts = self._session.get_provider_graph_assignment_info()
        if parts and not any(part.ep_name == PROVIDER for part in parts):
            nodes = [f"{node.name} ({node.op_type})" for part in parts for node in part.get_nodes()]
            raise BuildError(
                f"nothing of {path.name} runs on {PROVIDER}",
                value="; ".join(nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else ""),
                fix="use backend='ort' for it",
            )

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Run once in a session of its own that counts kernels, inside OpenVINO too."""
        with self._profiled(feeds) as file:
            kernels, nodes = read_kernels(file), read_profile(file)
        return count_coverage(kernels, nodes, find_products(self._path, feeds), self.spec.precision)
