"""Layers fit the terminal, and their document has all of them; what they say is in ``screens``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from pytest_quant.backends.readback import LayerTime
from pytest_quant.diagnose.layers import align
from pytest_quant.report.layer_table import layers_document
from tests.screens import CANDIDATE, PROFILE, REFERENCE, layers_of


@pytest.mark.parametrize("width", [80, 99, 100, 160, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Long names lose their beginning, which many have in common; the figures stay."""
    path = "model/encoder/layers/" * 12
    long = [
        LayerTime(
            f"{path}{number}", "VeryLongOperator" * 3, "fp32", 1000.0 / number, (f"{path}MatMul_{number}", "next")
        )
        for number in range(1, 4)
    ]
    sides = [replace(side, layers=(*side.layers, *long)) for side in (REFERENCE, CANDIDATE)]
    text = layers_of(replace(PROFILE, reference=sides[0], candidate=sides[1]), width=width)
    *_, causes = text.split("\n\n")
    table = text.removesuffix(causes)
    assert max(map(cell_len, table.splitlines())) <= width
    assert "MatMul_1 +" in text
    assert "1000.000" in text or "1833.333" in text


def test_names_from_a_model_act_on_no_terminal() -> None:
    """Neither escapes nor lines of their own."""
    evil = LayerTime("\x1b[31mred", "\x1b]0;title\x07", "fp32", 1.0, ("a\nb\x1b[0m",))
    text = layers_of(replace(PROFILE, reference=replace(REFERENCE, layers=(evil,))), width=160)
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
