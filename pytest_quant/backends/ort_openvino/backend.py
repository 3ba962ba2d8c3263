"""The backend ``ort-openvino``: the same quantized files as ``ort``, run by OpenVINO. Loads no runtime by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine
from pytest_quant.backends.options import checked
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.ort.options import KEYS
from pytest_quant.backends.ort_openvino.plugin import DISTRIBUTION, PROVIDER, find_plugin
from pytest_quant.environment import onednn_tier
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec

_KEYS = {name: key for name, key in KEYS.items() if name != "provider"}


class OrtOpenVinoBackend(OrtBackend):
    """ONNX Runtime with its OpenVINO plugin on the CPU, pinned to float32 where it is not quantized."""

    name = "ort-openvino"
    schemes: Mapping[str, tuple[str | None, ...]] = {"fp32": (None,), "int8": ("static", "qat")}

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and the plugin are installed, load, and offer this CPU."""
        return find_plugin()

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme, option or calibration that this backend does not know."""
        if "provider" in dict(spec.options):
            raise UsageError(
                f"backend '{self.name}' runs on {PROVIDER} and nothing else",
                value=f"provider={dict(spec.options)['provider']!r}",
                fix="drop the option; backend='ort' runs on the CPU provider",
            )
        checked(self.name, spec.options, _KEYS)
        super().check(spec)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the quantizer, and the provider."""
        from importlib.metadata import version

        ours = {"provider": f"{PROVIDER} {version(DISTRIBUTION)}", "instruction set": onednn_tier()}
        return {**super().ingredients(spec), **ours}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on OpenVINO. Raises `BuildError`."""
        from pytest_quant.backends.ort_openvino.engine import open_engine

        return open_engine(spec, folder)
