"""The options of OpenVINO's backend, and its choices where the user leaves them open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_quant.backends.offer import checked
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.readers import FLAG, count, keys_of, one_of, option


@dataclass(frozen=True, slots=True)
class OpenVinoOptions:
    """Options as asked; ``None`` leaves the choice to the machine or to NNCF."""

    threads: int = option(1, count(), "threads of the one stream")
    preset: str = option("performance", one_of("performance", "mixed"), "mixed: activations need not be symmetric")
    overflow_fix: str | None = option(
        None,
        one_of("enable", "first_layer", "disable"),
        "7-bit weights against saturation; default enable without VNNI, else disable",
    )
    model_type: str | None = option(None, one_of("transformer"), "NNCF's rules for attention")
    fast_bias_correction: bool = option(True, FLAG, "False is slower and may be more accurate")
    dynamic_quantization: int | None = option(
        None, count(0), "group of inputs that share a scale in layers of int8 weights alone; default OpenVINO's, 0 none"
    )

    @property
    def seven_bits(self) -> str:
        """NNCF's name of the weights that get seven bits: all where kernels add in 16 bits, unless the user sets it."""
        return self.overflow_fix or ("disable" if has_vnni(onednn_tier()) else "enable")


KEYS = keys_of(OpenVinoOptions)

PLUGIN = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""Settings of the CPU plugin: without the hint a CPU with bfloat16 may run the float reference in it."""


def parse_options(options: Iterable[tuple[str, object]]) -> OpenVinoOptions:
    """Turn the options of a mark into `OpenVinoOptions`. Raises `UsageError`."""
    return OpenVinoOptions(**checked("openvino", options, KEYS))
