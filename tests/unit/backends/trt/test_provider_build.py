"""What the TensorRT provider is told, what is written for it, and the layers that the log of its builds lists."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.trt.coverage import count_layers
from pytest_quant.backends.trt.provider import OrtTrtBackend
from pytest_quant.backends.trt.provider_build import (
    TABLE_FILE,
    largest_magnitude,
    layers_in_summary,
    profile_options,
    provider_options,
    readable_log,
    write_table,
)
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import build
from tests.support import fake_ort_trt

SPEC = EngineSpec("ort-trt", "int8", "static", Model.from_onnx("model.onnx"))
TABLE = (("ranges", "table"),)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_each_precision_turns_on_its_own_switch(precision: str, tmp_path: Path) -> None:
    """And turns the others off, in words, for what is left out keeps the value of an environment variable."""
    spec = replace(SPEC, precision=precision, scheme="static" if precision == "int8" else None)
    told = provider_options(spec, tmp_path)
    assert {name: told[f"trt_{name}_enable"] for name in ("fp16", "bf16", "int8")} == {
        name: str(int(name == precision)) for name in ("fp16", "bf16", "int8")
    }


def test_a_table_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """With Q/DQ pairs in the graph the provider refuses one; an option of another scheme is ignored."""
    name = "trt_int8_calibration_table_name"
    assert name not in provider_options(SPEC, tmp_path)
    asked = replace(SPEC, options=TABLE)
    assert provider_options(asked, tmp_path)[name] == TABLE_FILE
    assert name not in provider_options(replace(asked, scheme="qat", quantized=SPEC.model), tmp_path)


def test_shapes_in_the_spelling_of_the_provider() -> None:
    """``name:1x3x64x64``, inputs parted by commas, in three options of the same order."""
    shapes = {"x": ((1, 3, 32, 32), (4, 3, 64, 64), (32, 3, 96, 320)), "ids": ((1, 7), (4, 7), (32, 90))}
    told, notes = profile_options(shapes)
    assert told == {
        "trt_profile_min_shapes": "ids:1x7,x:1x3x32x32",
        "trt_profile_opt_shapes": "ids:4x7,x:4x3x64x64",
        "trt_profile_max_shapes": "ids:32x90,x:32x3x96x320",
    }
    assert notes == ()


@pytest.mark.parametrize("name", ["input:0", "a,b"])
def test_a_name_that_the_provider_would_cut(name: str) -> None:
    """It takes what follows the first colon for the shape; a note says that it is not told."""
    told, (note,) = profile_options({name: ((1, 2), (1, 2), (1, 2))})
    assert told == {}
    assert f"'{name}'" in note


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": (("ranges", "cache"),)}, "option 'ranges' of backend 'ort-trt' cannot be that"),
        ({"options": (("range", "table"),)}, "backend 'ort-trt' has no option 'range'"),
        ({"options": TABLE, "exclude": ("first",)}, "leaves no node in float"),
    ],
)
def test_what_cannot_be_asked(changes: dict[str, object], message: str) -> None:
    """A misspelt option, and nodes left in float where TensorRT alone chooses."""
    with pytest.raises(UsageError, match=message):
        OrtTrtBackend().check(replace(SPEC, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"precision": "fp16", "scheme": None}, {"options": TABLE}])
def test_what_cannot_be_simulated(changes: dict[str, object]) -> None:
    """With a target named in place of a GPU it is a skip that says what the simulation has not."""
    spec = replace(SPEC, **changes)  # type: ignore[arg-type]
    target = ("compute_capability", "SM89")
    found = OrtTrtBackend().availability(replace(spec, options=(target, *spec.options)))
    assert (found.available, found.broken) == (False, False)
    assert "not a table of ranges" in found.reason or "not fp16" in found.reason


def test_the_table_is_an_ingredient(tmp_path: Path) -> None:
    """A table and Q/DQ pairs are two engines in the cache; the ranges are the same, and are found once."""
    backend = OrtTrtBackend()
    spec = replace(SPEC, model=dense().write(tmp_path))
    asked = replace(spec, options=TABLE)
    assert backend.ingredients(spec) != backend.ingredients(asked)
    assert backend.calibration_ingredients(spec) == backend.calibration_ingredients(asked)


def test_a_float_graph_with_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph has no Q/DQ pair; every name in the table is a tensor of it, and the input has the samples' range."""
    fake_ort_trt.install(monkeypatch)
    example = dense()
    spec = replace(SPEC, model=example.write(tmp_path), options=TABLE)
    folder = build(OrtTrtBackend(), spec, example, tmp_path)
    graph = onnx.load(folder / "model.onnx").graph
    assert not {node.op_type for node in graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    tensors = {name for node in graph.node for name in (*node.input, *node.output)}
    found = decoded((folder / TABLE_FILE).read_bytes())
    assert {"x", "y"} <= found.keys() <= tensors
    samples = [example.feeds(4, seed)["x"] for seed in range(20, 28)]
    assert found["x"] == pytest.approx(float(np.abs(np.concatenate(samples)).max()), rel=1e-6)


def test_a_table_for_a_quantized_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT would ignore the table; the error names a Q/DQ node."""
    fake_ort_trt.install(monkeypatch)
    example = dense()
    backend = OrtTrtBackend()
    folder = build(backend, replace(SPEC, model=example.write(tmp_path)), example, tmp_path)
    quantized = Model.from_onnx(folder / "model.onnx")
    again = tmp_path / "again"
    again.mkdir()
    spec = replace(SPEC, model=quantized, options=TABLE)
    with pytest.raises(BuildError, match=r"QuantizeLinear|DequantizeLinear"):
        build(backend, spec, example, again)


FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def decoded(data: bytes) -> dict[str, float]:
    """A root offset; a table whose first field is a vector of tables with two strings each."""

    def unsigned(at: int) -> int:
        return int(struct.unpack_from("<I", data, at)[0])

    def field(table: int, index: int) -> int:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        offset = struct.unpack_from("<H", data, vtable + 4 + 2 * index)[0]
        at = table + offset
        return int(at + unsigned(at))

    def text(at: int) -> str:
        return data[at + 4 : at + 4 + unsigned(at)].decode()

    vector = field(unsigned(0), 0)
    places = [vector + 4 + 4 * index for index in range(unsigned(vector))]
    entries = [place + unsigned(place) for place in places]
    return {text(field(entry, 0)): float(text(field(entry, 1))) for entry in entries}


@pytest.mark.parametrize(
    ("lowest", "highest", "expected"), [(-5.0, 1.0, 5.0), (-5.0, -2.0, 5.0), (0.0, 3.0, 3.0), (-1.0, 4.0, 4.0)]
)
def test_the_largest_absolute_value(tmp_path: Path, lowest: float, highest: float, expected: float) -> None:
    """A range from -5 to 1 gives 5, where the writer of ONNX Runtime gives 1, and one from -5 to -2 gives 5, not -2."""
    write_table({"t": (lowest, highest)}, tmp_path / "table")
    assert decoded((tmp_path / "table").read_bytes()) == {"t": expected}


@given(
    ranges=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
        st.tuples(FLOATS, FLOATS).map(sorted).map(tuple).filter(any),
        max_size=20,
    )
)
def test_every_tensor_is_in_it(
    tmp_path_factory: pytest.TempPathFactory, ranges: dict[str, tuple[float, float]]
) -> None:
    """Any names and any number of them come back, each with a number no end of its range lies beyond."""
    file = tmp_path_factory.getbasetemp() / "table"
    write_table(ranges, file)
    assert decoded(file.read_bytes()) == {name: float(np.abs(np.array(ends)).max()) for name, ends in ranges.items()}


@pytest.mark.parametrize(
    ("lowest", "highest"), [(-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, math.nan), (2.0, 1.0), (0.0, 0.0)]
)
def test_a_range_that_is_none(lowest: float, highest: float) -> None:
    """It is refused with the tensor's name; TensorRT would take it and compute nonsense."""
    with pytest.raises(BuildError, match="'hidden'"):
        largest_magnitude("hidden", lowest, highest)


TENSORRT_10 = """\
\x1b[0;93m2026-11-22 17:17:35.343 [W:onnxruntime:Default, tensorrt_execution_provider.h:93 log] [2026-11-22 17:17:35 \
UNKNOWN] Engine Layer Information:
Layer(Reformat): Reformatting CopyNode for Input Tensor 0 to conv1 + relu1, Tactic: 0x00000000000003e8, \
x (Float[1,3,64,64]) -> Reformatted Input Tensor 0 to conv1 + relu1 (Int8[1,3:4,64,64])
Layer(CaskConvolution): conv1.weight + QuantizeLinear_3 + conv1 + relu1, Tactic: 0x4727434768e46395, \
Reformatted Input Tensor 0 to conv1 + relu1 (Int8[1,3:4,64,64]) -> a (Int8[1,32:32,64,64])
Layer(CaskConvolution): conv10 + PWN(clip), Tactic: 0x02d9f5211e4d2d82, a (Float[1,32,64,64]), \
r (Int8[1,32:32,64,64]) -> b (Float[1,32,64,64])
Layer(CaskGemmMatrixMultiply): head/MatMulAddFusion, Tactic: 0x0000000000020054, b (Half[1,32]) -> y (Half[1,10])
Layer(Myelin): {ForeignNode[attention_q...softmax]}, Tactic: 0x0000000000000000, y (Float[8,1,8]) -> z (Float[8,10])
\x1b[m
"""

TENSORRT_8 = """\
Layer(Reformat): Reformatting CopyNode for Input Tensor 0 to Conv_0, Tactic: 1002, \
x[Float(-8,3,224,224)] -> Reformatted Input Tensor 0 to Conv_0[Int8(-8,3,224,224)]
Layer(CaskConvolution): Conv_0 + PWN(Clip_3), Tactic: -1838109259315759592, \
(Unnamed Layer* 1) [Shuffle]_output[Int8(-8,3,224,224)] -> 191[Int8(-8,96,56,56)]
"""


def rows(text: str, *nodes: str) -> dict[str, tuple[str, list[str], list[str]]]:
    """Return kind, input types and nodes by name."""
    layers = layers_in_summary(text, nodes)
    return {layer.name: (layer.kind, list(layer.input_types), list(layer.nodes)) for layer in layers}


def test_layers_of_version_10() -> None:
    """Name, kind, types of all inputs in order and the nodes that the name holds, none of which begins another."""
    found = rows(TENSORRT_10, "conv1", "conv10", "head", "attention_q", "attention_k", "softmax", "")
    assert found["conv1.weight + QuantizeLinear_3 + conv1 + relu1"] == ("CaskConvolution", ["Int8"], ["conv1"])
    assert found["conv10 + PWN(clip)"] == ("CaskConvolution", ["Float", "Int8"], ["conv10"])
    assert found["head/MatMulAddFusion"] == ("CaskGemmMatrixMultiply", ["Half"], ["head"])
    assert found["{ForeignNode[attention_q...softmax]}"][0] == "Myelin"
    assert len(found) == 5


def test_layers_before_version_10() -> None:
    """Types lie in other brackets, sizes may be free, and tactics are decimal."""
    found = rows(TENSORRT_8, "Conv_0")
    assert found["Conv_0 + PWN(Clip_3)"] == ("CaskConvolution", ["Int8"], ["Conv_0"])


def test_what_is_counted() -> None:
    """Of four products one reads int8, two float types, and one is inside Myelin; its last node's name is no proof."""
    ops = {"conv1": "Conv", "conv10": "Conv", "head": "MatMul", "attention_q": "MatMul"}
    layers = layers_in_summary(TENSORRT_10, ops)
    found = count_layers(layers, ops, "int8", "TensorRT", {})
    assert (found.opaque_nodes, found.float_nodes) == (1, ("conv10", "head"))
    for precision in ("int8", "fp32", "fp16"):
        found = count_layers(layers, ops, precision, "TensorRT", {})
        assert (found.pct, found.high_pct) == (25.0, 50.0)


def test_the_log_that_is_kept() -> None:
    """Layers and warnings stay; colors and the rest of the verbose log go."""
    missing = "[2026-11-22 17:17:35 WARNING] Missing scale and zero-point for tensor a, expect fall back"
    verbose = "[2026-11-22 17:17:35 UNKNOWN] Tactic: 0x0 Time: 0.006"
    kept = readable_log(f"{missing}\n{verbose}\n{TENSORRT_10}")
    assert missing in kept
    assert "Layer(CaskConvolution): conv10" in kept
    assert not any(word in kept for word in ("UNKNOWN", "Time: 0.006", "\x1b"))
    assert layers_in_summary(kept, ["conv1"]) == layers_in_summary(TENSORRT_10, ["conv1"])


def test_other_lines() -> None:
    """A log without the list has no layers."""
    assert layers_in_summary("Layer normalization\nLayer(s): none\n", ["s"]) == []
