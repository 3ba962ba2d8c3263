"""The keys of ``@pytest.mark.quant(...)``: one table, read by the checks, by ``--markers`` and by the messages."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.marked import NAME

KEYS: Mapping[str, str] = {
    "backend": "runtime, or a list of them (default: ort)",
    "precision": "fp32, fp16, bf16, int8, int4, fp8, or a list (default: int8)",
    "scheme": "static, dynamic, weight-only, qat, or a list (default: static); for quantized precisions only",
    "model": "name of a fixture, else a path beside the test file, else under the root (default: quant_model)",
    "quantized": "the model already quantized, as for model; the scheme is then qat",
    "data": "name of a fixture that gives a Dataset (default: quant_data)",
    "reference": "backend of the reference (default: the candidate's)",
    "output": "name of the output that the metric reads (default: the first); tensor limits are then for it alone",
    "channels": "groups of channels in an output, judged as outputs: "
    "{'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}} gives output0.boxes and output0.scores",
    "batch_size": "samples in one timed run, or a list (default: 1)",
    "calibration": "minmax, entropy, percentile, or a dict of method, percentile (above 50), samples, batch_size",
    "exclude": "names of nodes to leave in float",
    "options": "dict that only the backend understands",
    "metric": "top1, top5, mae, rmse, f1, cosine, or a Metric (default: top1 for class labels)",
    "max_drop": "loss against the reference in the metric's unit, percentage points for percentages",
    "min_ratio": "candidate / reference; the inverse for a metric where lower is better",
    "min_accuracy": "the reference's own score, in the metric's unit",
    "min_agreement": "samples with the same top-1 class, in percent",
    "min_sqnr_db": "signal to quantization noise in dB of each output, or a dict by output, {'scores': 20}",
    "min_cosine": "cosine similarity of each output, 0 to 1, or a dict by output",
    "max_abs_error": "largest difference in each output, or a dict by output",
    "max_latency_ms": "median of one run in ms, or a dict of percentiles, {'p50': 3, 'p99': 9}",
    "min_speedup": "reference time / candidate time",
    "max_size_mb": "engine file in 10^6 bytes",
    "max_memory_mb": "peak memory added while running, in 10^6 bytes",
    "max_build_s": "seconds to build the engine",
    "max_energy_mj": "millijoules of one run",
    "min_coverage": "compute that ran in the asked precision, in percent (default: 50, for dynamic and weight-only of "
    "what the scheme can quantize)",
    "max_slowdown": "slowdown against the baseline in percent",
    "max_drop_increase": "drop above the baseline's, in percentage points",
}

LISTABLE = ("backend", "precision", "scheme", "batch_size")
"""Keys whose lists parametrize the test."""


def describe() -> str:
    """Return the text of ``pytest --markers``."""
    lines = [f"{NAME}(**keys): quantize a model, compare it with its FP32 reference, and judge every limit given."]
    return "\n".join(lines + [f"  {name}: {text}" for name, text in KEYS.items()])


def check_names(args: tuple[object, ...], keys: Mapping[str, object]) -> None:
    """Refuse positional arguments and unknown keys of one mark."""
    if args:
        raise UsageError(
            "@pytest.mark.quant takes keys only",
            value=", ".join(repr(arg) for arg in args),
            fix="name each, for example @pytest.mark.quant(backend='ort', max_drop=1.0)",
        )
    for name in keys:
        if name not in KEYS:
            raise UsageError(f"@pytest.mark.quant has no key '{name}'", allowed=nearest(name, KEYS))
