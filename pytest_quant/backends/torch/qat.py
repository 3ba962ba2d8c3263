"""Quantization-aware training (QAT) in two steps around the user's own training loop.

Write::

    prepared = prepare_qat(network, (images[:32],))
    train(prepared)                                   # the user's loop, as it is
    converted = convert_qat(prepared)

and judge ``Model.from_torch(converted, (images[:32],))`` as ``quantized=``: as it is in PyTorch, and exported to ONNX
with Q/DQ pairs in the other runtimes.
"""

from __future__ import annotations

import copy
from typing import Any

from pytest_quant.backends.torch.quiet import quiet


def prepare_qat(module: Any, example_inputs: tuple[Any, ...], *, reduce_range: bool = False) -> Any:
    """Return a copy of `module` that rounds to int8 in its forward pass, ready to be trained.

    Parameters
    ----------
    module : a ``torch.nn.Module``; it is left as it was.
    example_inputs : tensors with a leading batch axis of at least 2, which stays free.
    reduce_range : train for 7-bit activations, for CPUs without VNNI.
    """
    import torch

    with quiet():
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_train
        from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

        shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in example_inputs)
        # Guards look at the gradient of an example that has none, and would raise in the user's training loop.
        graph = torch.export.export(copy.deepcopy(module).train(), example_inputs, dynamic_shapes=shapes).module(
            check_guards=False
        )
        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True, reduce_range=reduce_range))
        prepared = prepare_qat_pt2e(graph, quantizer)
        move_exported_model_to_train(prepared)
        allow_exported_model_train_eval(prepared)
    return prepared


def convert_qat(prepared: Any) -> Any:
    """Return the trained module with Q/DQ pairs in place of the rounding, in evaluation mode; judge this one."""
    with quiet():
        from torchao.quantization.pt2e import move_exported_model_to_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        trained = copy.deepcopy(prepared)
        move_exported_model_to_eval(trained)
        converted = convert_pt2e(trained)
        move_exported_model_to_eval(converted)
    return converted
