"""What a plain script does in place of a check, on each runtime: quantize, run both models, count right answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.onnx_files.graphs import PASSING
from tests.benchmarks.networks import Network

Run = Callable[[NDArray[Any]], NDArray[Any]]


def _score(run: Run, folder: Path, batch: int) -> float:
    samples, labels = np.load(folder / "samples.npy"), np.load(folder / "labels.npy")
    answers = [run(samples[first : first + batch]).argmax(1) for first in range(0, len(samples), batch)]
    return 100.0 * float(np.mean(np.concatenate(answers) == labels))


def on_ort(_network: Network, folder: Path, work: Path, batch: int) -> dict[str, float]:
    """Quantize with Q/DQ pairs and scales per channel, over batches of 1, as the documentation shows."""
    import onnxruntime as ort
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    calibration = np.load(folder / "calibration.npy")
    float_model, prepared, int8 = (str(place) for place in (folder / "model.onnx", work / "p.onnx", work / "q.onnx"))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    reference = ort.InferenceSession(float_model, options)
    name = reference.get_inputs()[0].name

    feeds = iter([{name: sample[None]} for sample in calibration])
    reader = SimpleNamespace(get_next=lambda: next(feeds, None))
    quant_pre_process(float_model, prepared)
    quantization.quantize_static(
        prepared,
        int8,
        reader,
        op_types_to_quantize=OP_TYPES,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    candidate = ort.InferenceSession(int8, options)

    def score(session: Any) -> float:
        return _score(lambda inputs: np.asarray(session.run(None, {name: inputs})[0]), folder, batch)

    return {"reference": score(reference), "candidate": score(candidate)}


OP_TYPES = ["Conv", "ConvTranspose", "Gemm", "MatMul", *PASSING]
"""Operators with weights, and those that hand values on, as a check takes them."""


def on_openvino(_network: Network, folder: Path, _work: Path, batch: int) -> dict[str, float]:
    """Quantize with NNCF, its preset and the ranges as a check has them, over batches of 1."""
    import nncf
    import openvino
    from nncf.quantization.range_estimator import RangeEstimatorParametersSet

    calibration = np.load(folder / "calibration.npy")
    core = openvino.Core()
    model = core.read_model(folder / "model.onnx")
    quantized = nncf.quantize(
        model,
        nncf.Dataset([sample[None] for sample in calibration]),
        preset=nncf.QuantizationPreset.PERFORMANCE,
        target_device=nncf.TargetDevice.CPU,
        subset_size=len(calibration),
        advanced_parameters=nncf.AdvancedQuantizationParameters(
            activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX
        ),
    )

    def score(compiled: Any) -> float:
        return _score(lambda inputs: np.asarray(compiled([inputs])[0]), folder, batch)

    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    both = (score(core.compile_model(each, "CPU", hint)) for each in (model, quantized))
    return dict(zip(("reference", "candidate"), both, strict=True))


def on_torch(network: Network, folder: Path, _work: Path, batch: int) -> dict[str, float]:
    """Quantize with torchao's quantizer for Inductor, and compile both models."""
    import torch
    import torch._inductor.config
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    calibration = torch.from_numpy(np.load(folder / "calibration.npy"))
    module = network.module(folder / WEIGHTS)
    torch._inductor.config.freezing = True
    program = torch.export.export(module, (calibration[:2],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(program.module(), quantizer)
        for sample in calibration:
            prepared(sample[None])
        quantized = convert_pt2e(prepared)
        move_exported_model_to_eval(quantized)
        both = {"reference": torch.compile(module, dynamic=False), "candidate": torch.compile(quantized, dynamic=False)}

        def score(compiled: Any) -> float:
            return _score(lambda inputs: np.asarray(compiled(torch.from_numpy(inputs)).numpy()), folder, batch)

        return {name: score(compiled) for name, compiled in both.items()}


PLAIN = {"ort": on_ort, "openvino": on_openvino, "torch": on_torch}
RUNTIMES = tuple(PLAIN)

WEIGHTS = "weights.pt"
"""Name of the file of a network's weights, beside its samples."""
