"""Read-backs of OpenVINO, recorded on every instruction set that was at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_quant.backends.openvino.coverage import Source, count_layers, hidden_products
from tests.recorded_isa import RECORDED, layers_in

MACS = {"dense": {"first": 64 * 32, "y": 32 * 10}, "conv": {"conv": 8 * 36 * 9, "dense": 288 * 10}}
"""For one sample, from the shapes of the examples: a weight of a product counts once, of a convolution once a place."""

CALLED = {"dense": ("first", "y"), "conv": ("conv", "y")}
"""OpenVINO calls a node that gives an output of the model like the output."""

QUANTIZERS = frozenset({"x/fq_output_0", "relu/fq_output_0"})
FILES = sorted(
    file for file in RECORDED.glob("*/openvino_*.xml") if re.search(r"_(fp32|int8)_batch\d+$", file.stem) is not None
)


def facts(file: Path) -> tuple[str, str, int]:
    """Example, precision and batch size of a recording."""
    found = re.fullmatch(r"openvino_(\w+)_(fp32|int8)_batch(\d+)", file.stem)
    assert found is not None
    return found[1], found[2], int(found[3])


def source(example: str, batch: int) -> Source:
    """The compute of an example, from its shapes."""
    each = MACS[example].values()
    return Source({name: batch * macs for name, macs in zip(CALLED[example], each, strict=True)}, QUANTIZERS)


def identifier(file: Path) -> str:
    """Instruction set and file."""
    return f"{file.parent.name}-{file.stem}"


def test_all_sets_are_here() -> None:
    """Five levels of x86, on which OpenVINO takes four kinds of kernels."""
    assert {file.parent.name for file in FILES} == {"amx_int8", "avx2", "avx512", "avx512_vnni", "avx_vnni"}


@pytest.mark.parametrize("file", FILES, ids=identifier)
def test_what_was_asked_for_ran(file: Path) -> None:
    """All MACs are in the asked precision; where a fused layer hides them, the layers compiled apart tell."""
    example, precision, batch = facts(file)
    layers, compute = layers_in(file), source(example, batch)
    hidden = hidden_products(layers, compute, precision)
    apart = file.with_name(f"{file.stem}_apart.xml")
    if hidden:
        assert precision == "int8"
        alone = count_layers(layers, compute, precision)
        assert (alone.pct, alone.opaque_nodes, alone.float_nodes) == (None, 2, ())
    if hidden and not apart.exists():
        return
    found = count_layers(layers, compute, precision, layers_in(apart) if hidden else ())
    assert (found.pct, found.unit, found.opaque_nodes) == (100.0, "MACs", 0)
    rows = [row for row in found.by_op if row.macs is not None]
    assert sum(row.macs or 0 for row in rows) == batch * sum(MACS[example].values())
    assert bool(found.notes) is bool(hidden)


@pytest.mark.parametrize("file", FILES, ids=identifier)
def test_the_other_precision_did_not_run(file: Path) -> None:
    """The same recording, judged as the precision that it is not: 0, or unknown where a fused layer hides it."""
    example, precision, batch = facts(file)
    other = {"int8": "fp32", "fp32": "int8"}[precision]
    compute = source(example, batch)
    found = count_layers(layers_in(file), compute, other)
    assert found.pct == (None if hidden_products(layers_in(file), compute, other) else 0.0)


@pytest.mark.parametrize("example", MACS)
def test_a_float_engine_that_was_left_alone_ran_in_bfloat16(example: str) -> None:
    """Recorded without the hint for float32, on a CPU that has bfloat16: nothing of it is fp32."""
    layers = layers_in(RECORDED / "avx512_vnni" / f"openvino_{example}_unpinned_batch16.xml")
    found = count_layers(layers, source(example, 16), "fp32")
    assert (found.pct, len(found.float_nodes), found.opaque_nodes) == (0.0, 2, 0)


def test_the_fused_network_is_among_them() -> None:
    """With VNNI a whole quantized network is one layer of float outside and integer weights; without, it is not."""
    fused = {
        file.parent.name
        for file in FILES
        if "int8" in file.stem and hidden_products(layers_in(file), source(*facts(file)[::2]), "int8")
    }
    assert fused == {"amx_int8", "avx512_vnni", "avx_vnni"}
