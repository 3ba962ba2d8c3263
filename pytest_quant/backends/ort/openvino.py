"""The backend ``ort-openvino``: the quantized files of ``ort``, run by OpenVINO's plugin for ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Engine
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort.libraries import DISTRIBUTION, OPENVINO, find_plugin
from pytest_quant.backends.ort.options import OPENVINO_KEYS
from pytest_quant.environment import onednn_tier
from pytest_quant.environment.packages import version
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec


class OrtOpenVinoBackend(OrtBackend):
    """ONNX Runtime with its OpenVINO plugin on the CPU, pinned to float32 where it is not quantized."""

    name = "ort-openvino"
    offer = replace(
        OrtBackend.offer,
        precisions={"fp32": (None,), "int8": ("static", "qat")},
        options=OPENVINO_KEYS,
        extras=("ort-openvino",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and the plugin are installed, load, and offer this CPU."""
        return find_plugin()

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for another provider, and for what is not offered."""
        if "provider" in dict(spec.options):
            raise UsageError(
                f"backend '{self.name}' runs on {OPENVINO} and nothing else",
                value=f"provider={dict(spec.options)['provider']!r}",
                fix="drop the option; backend='ort' runs on the CPU provider",
            )
        super().check(spec)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the quantizer, and the provider."""
        ours = {"provider": f"{OPENVINO} {version(DISTRIBUTION)}", "instruction set": onednn_tier()}
        return {**super().ingredients(spec), **ours}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on OpenVINO. Raises `BuildError`."""
        from pytest_quant.backends.ort.openvino_engine import open_engine

        return open_engine(spec, folder)
