"""Layers as text: every row in its width, the slowest first, and what makes the difference."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from pytest_quant.backends.layers import LayerTime, Role
from pytest_quant.diagnose.layers import align
from pytest_quant.measure.layers import LayerProfile, SideLayers
from pytest_quant.report.layers import layers_document, layers_text


def _layer(name: str, op: str, precision: str, ms: float | None, *nodes: str, role: Role = "compute") -> LayerTime:
    return LayerTime(name, op, precision, ms, nodes, role)


REFERENCE = SideLayers(
    "ort-fp32",
    "CPUExecutionProvider",
    7.5,
    (
        _layer("conv1_nchwc", "Conv", "fp32", 4.0, "backbone/conv1", "backbone/relu1"),
        _layer("reorder", "ReorderOutput", "fp32", 1.0, role="reformat"),
        _layer("fc", "Gemm", "fp32", 2.0, "fc"),
    ),
)
CANDIDATE = SideLayers(
    "ort-int8-dynamic",
    "CPUExecutionProvider",
    16.0,
    (
        _layer("x_quant", "DynamicQuantizeLinear", "fp32", 0.5, role="reformat"),
        _layer("conv1_quant", "ConvInteger", "int8", 12.0, "backbone/conv1"),
        _layer("conv1_scale", "Mul", "fp32", 0.5, "backbone/conv1", "backbone/relu1"),
        _layer("fc_quant", "DynamicQuantizeMatMul", "int8", 1.0, "fc"),
        _layer("riddle", "Mystery", "", 0.25, role="other"),
    ),
)
PROFILE = LayerProfile("test_a.py::test_a", "net", 4, REFERENCE, CANDIDATE)


def _text(profile: LayerProfile = PROFILE, *, width: int = 120, top: int = 20) -> str:
    return layers_text(profile, align(profile.reference.layers, profile.candidate.layers), width, top)


def _cells(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


def test_a_row_says_what_it_was_and_what_it_is() -> None:
    """Nodes, operators, times, the difference, the ratio and the precision of what takes the time."""
    lines = [_cells(line) for line in _text().splitlines()]
    assert lines[2] == [
        "nodes of the model", "op", "reference", "candidate", "added", "speedup x", "precision",
    ]  # fmt: skip
    assert lines[3] == [
        "backbone/conv1, backbone/relu1", "Conv -> ConvInteger+Mul", "4.000", "12.500", "+8.500", "0.32",
        "fp32 -> int8",
    ]  # fmt: skip
    assert lines[4] == ["fc", "Gemm -> DynamicQuantizeMatMul", "2.000", "1.000", "-1.000", "2", "fp32 -> int8"]
    assert lines[5] == ["(riddle)", "- -> Mystery", "-", "0.250", "+0.250", "-", "-"]


def test_reformats_have_their_share_of_all_layers() -> None:
    """One of 7 ms is 14.3 %, half a millisecond of 14.25 is 3.5 %."""
    lines = [_cells(line) for line in _text().splitlines()]
    assert ["ReorderOutput", "1.000", "1 x", "14.3", "-", "-"] in lines
    assert ["DynamicQuantizeLinear", "-", "-", "0.500", "1 x", "3.5"] in lines


def test_sums_stand_beside_the_whole_run() -> None:
    """What the layers do, their sum, and the run as it is timed without a profiler."""
    lines = [_cells(line) for line in _text().splitlines()]
    for row in (
        ["work on the model", "6.000", "13.500"],
        ["reformats", "1.000", "0.500"],
        ["other layers", "-", "0.250"],
        ["sum of layers", "7.000", "14.250"],
        ["whole run as timed", "7.500", "16.000"],
    ):
        assert row in lines


def test_the_last_sentence_names_what_makes_the_difference() -> None:
    """The rows that go its way, the largest first; those of less than 5 % of it are left out."""
    last = _text().replace("\n", " ").rpartition("the layers of the candidate ")[2]
    assert last == (
        "take 7.250 ms more in all: backbone/conv1, backbone/relu1 (Conv -> ConvInteger+Mul) +8.500; "
        "DynamicQuantizeLinear +0.500"
    )
    assert "take 7.250 ms less in all" in _text(replace(PROFILE, reference=CANDIDATE, candidate=REFERENCE)).replace(
        "\n", " "
    )


def test_no_cause_is_named_where_layers_and_runs_disagree() -> None:
    """The candidate is faster as a whole, and slower with a profiler: the profiler is what is seen."""
    quick = replace(PROFILE, reference=replace(REFERENCE, run_ms=2.0), candidate=replace(CANDIDATE, run_ms=1.0))
    text = _text(quick).replace("\n", " ")
    assert "the layers of the candidate" not in text
    assert "the layers sum up to 14 times the whole run" in text


@pytest.mark.parametrize("width", [80, 99, 100, 160, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Long names lose their beginning, which many have in common; the figures stay."""
    path = "model/encoder/layers/" * 12
    long = [
        _layer(f"{path}{number}", "VeryLongOperator" * 3, "fp32", 1000.0 / number, f"{path}MatMul_{number}", "next")
        for number in range(1, 4)
    ]
    sides = [replace(side, layers=(*side.layers, *long)) for side in (REFERENCE, CANDIDATE)]
    text = _text(replace(PROFILE, reference=sides[0], candidate=sides[1]), width=width)
    *_, causes = text.split("\n\n")
    table = text.removesuffix(causes)
    assert max(map(cell_len, table.splitlines())) <= width
    assert "MatMul_1 +" in text
    assert "1000.000" in text or "1833.333" in text


def test_a_narrow_table_keeps_what_the_candidate_runs() -> None:
    """Below 100 characters it has the candidate's slowest operator, and how many more there are."""
    lines = [_cells(line) for line in _text(width=80).splitlines()]
    head = next(line for line in lines if line[0] == "nodes of the model")
    assert head == ["nodes of the model", "op", "reference", "candidate", "added", "precision"]
    assert any("ConvInteger +1" in line for line in lines)


def test_top_says_how_many_rows_are_left_out() -> None:
    """One of three is shown."""
    text = _text(top=1)
    assert "... and 2 rows more (--top)" in text
    assert "(riddle)" not in text
    assert "more (--top)" not in _text(top=3)


def test_layers_of_a_build_have_no_times() -> None:
    """Precisions are told, no column is of dashes alone, and a sentence says why."""
    reference, candidate = (
        replace(side, run_ms=None, layers=tuple(replace(one, ms=None) for one in side.layers))
        for side in (REFERENCE, CANDIDATE)
    )
    text = _text(LayerProfile("n", "net", 1, reference, candidate, untimed="ort is a float simulation"))
    lines = [_cells(line) for line in text.splitlines()]
    assert ["nodes of the model", "op", "precision"] in lines
    assert ["fc", "Gemm -> DynamicQuantizeMatMul", "fp32 -> int8"] in lines
    assert "sum of layers" not in text
    assert "those of the build (CPUExecutionProvider); nothing here can time them" in text
    assert "no whole run was timed: ort is a float simulation" in text
    assert "with a profiler" not in text


def test_a_side_that_tells_no_layers_is_named() -> None:
    """The other side's are shown all the same."""
    text = _text(replace(PROFILE, reference=replace(REFERENCE, layers=())))
    assert "ort-fp32: this backend does not tell its layers" in text
    assert "DynamicQuantizeMatMul" in text


def test_names_from_a_model_act_on_no_terminal() -> None:
    """Neither escapes nor lines of their own."""
    evil = _layer("\x1b[31mred", "\x1b]0;title\x07", "fp32", 1.0, "a\nb\x1b[0m")
    text = _text(replace(PROFILE, reference=replace(REFERENCE, layers=(evil,))), width=160)
    assert text.replace("\n", "").isprintable()
    assert "a\\nb" in text


def test_the_document_has_every_layer() -> None:
    """As JSON it holds all rows, whatever the text leaves out."""
    document = layers_document(PROFILE, align(REFERENCE.layers, CANDIDATE.layers))
    read = json.loads(json.dumps(document, allow_nan=False))
    assert (read["nodeid"], read["model"], read["batch_size"]) == ("test_a.py::test_a", "net", 4)
    assert read["candidate"] == {
        "engine": "ort-int8-dynamic",
        "provider": "CPUExecutionProvider",
        "run_ms": 16.0,
        "layers_ms": 14.25,
    }
    rows = [*read["rows"], *read["reformats_and_copies"]]
    for side, layers in (("reference", REFERENCE.layers), ("candidate", CANDIDATE.layers)):
        names = sorted(layer["name"] for row in rows for layer in row[side])
        assert names == sorted(layer.name for layer in layers)
    conv = next(row for row in rows if row["nodes"][:1] == ["backbone/conv1"])
    assert (conv["reference_ms"], conv["candidate_ms"], conv["speedup"]) == (4.0, 12.5, 0.32)
    assert conv["candidate"][0] == {
        "name": "conv1_quant",
        "op": "ConvInteger",
        "precision": "int8",
        "ms": 12.0,
        "nodes": ["backbone/conv1"],
        "role": "compute",
    }
