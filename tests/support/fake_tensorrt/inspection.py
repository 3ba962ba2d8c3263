"""What a fake engine's inspector says, in the forms of versions 10 and 11.

The forms are those of NVIDIA's page "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x".
"""

from __future__ import annotations

import json
from typing import Any

WORD = {"int8": "Int8", "fp32": "FP32"}
TACTIC = {"int8": "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n", "fp32": "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n"}
HIDDEN = "N/A due to dynamic shapes"


def inspection(major: int, precision: str = "int8", *, tactic: str | None = None) -> str:
    """Return the text for the engine whose one product is the node ``product``.

    Parameters
    ----------
    major : 10 writes format and type as one phrase and lists ``Bindings``, 11 apart and lists ``I/O Tensors``.
    precision : ``int8`` or ``fp32``, in which the product reads ``x``.
    tactic : name of the product's kernel; ``None`` for one that tells what it multiplies.
    """
    layers: list[dict[str, Any]] = [
        {
            "Name": "product",
            "LayerType": "CaskGemmMatrixMultiply",
            "Inputs": [_tensor(major, "x", precision)],
            "Outputs": [_tensor(major, "y", "fp32")],
            "TacticName": TACTIC[precision] if tactic is None else tactic,
            "StreamId": 0,
            "Metadata": "[ONNX Layer: product]",
        },
        # What Myelin makes itself has no metadata, and null in its place.
        {"Name": "__myl_Repl_myl0_0", "LayerType": "kgen", "Inputs": [], "Outputs": [], "Metadata": None},
    ]
    if major < 11:
        return json.dumps({"Layers": layers, "Bindings": ["x", "ids", "next", "y"]})
    return json.dumps({"Layers": layers, "I/O Tensors": [_io_tensor(name) for name in ("x", "ids", "next", "y")]})


def without_shapes(text: str) -> str:
    """Return what is said of an engine with free axes while no context gives them sizes.

    So a full dump of a free batch has it; layers that Myelin made tell their types all the same. Of version 11, where
    the type has a field of its own, no dump is known: it is taken to be hidden too.
    """
    document = json.loads(text)
    detailed = [layer for layer in document["Layers"] if isinstance(layer, dict)]
    for layer in (layer for layer in detailed if layer["LayerType"].startswith("Cask")):
        for tensor in (*layer["Inputs"], *layer["Outputs"]):
            hidden = {key: HIDDEN for key in ("Format/Datatype", "Format", "DataType") if key in tensor}
            tensor |= {"Dimensions": [-1, *tensor["Dimensions"][1:]], **hidden}
    return json.dumps(document)


def _tensor(major: int, name: str, precision: str) -> dict[str, Any]:
    word = WORD[precision]
    described = {"Name": name, "Location": "Device", "Dimensions": [1, 4]}
    if major < 11:
        return {**described, "Format/Datatype": f"Row major linear {word} format"}
    return {**described, "Format": f"Row major linear {word} format (kLINEAR)", "DataType": word}


def _io_tensor(name: str) -> dict[str, Any]:
    shapes = {"MinShape": [1], "OptShape": [1], "MaxShape": [8]}
    return {
        "Name": name,
        "IOMode": "Input" if name in ("x", "ids") else "Output",
        "DataType": "Float" if name in ("x", "y") else "Int64",
        "Dimensions": [-1],
        "Location": "Device",
        "IsShapeInferenceIO": False,
        "ProfileInfo": [{**shapes, "Format": "Row major linear FP32 format (kLINEAR)"}],
    }
