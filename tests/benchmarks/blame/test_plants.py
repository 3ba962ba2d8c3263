"""Plants are what they are said to be: unseen by FP32, costly in eight bits, next to the products that are named."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort.build import RANGES_FILE
from tests.benchmarks.blame import counts, plants
from tests.benchmarks.blame.__main__ import main
from tests.benchmarks.blame.answers import Answer
from tests.benchmarks.blame.cases import LOSS_DB, Case, run_all
from tests.benchmarks.blame.engine_edits import scale_ort_range
from tests.benchmarks.blame.graph import largest_difference
from tests.benchmarks.blame.networks import networks
from tests.benchmarks.blame.rivals import ERRORS, rank
from tests.benchmarks.blame.workshop import Workshop

LAYERS = ("layer0", "layer2", "layer5", "layer8")
"""Products of the digits, one behind the other; which channel costs enough differs by processor."""


@pytest.fixture(scope="module", params=["ort", "openvino"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """The digits of the example in each backend."""
    return Workshop(networks()["digits"], request.param, tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def channel(shop: Workshop) -> Case:
    """A channel of 64 times its size."""
    case = plants.channel(shop, 0)
    assert case is not None
    return case


def test_fp32_does_not_see_a_channel(shop: Workshop, channel: Case) -> None:
    """Outputs of the planted float model are equal to 1e-5 of the largest, though its weights are not."""
    assert channel.float_model.read_bytes() != shop.model.read_bytes()
    planted = shop.run_float(channel.float_model, shop.samples.evaluation)
    assert largest_difference(shop.reference, planted) <= 1e-5


def test_the_engine_sees_it(channel: Case) -> None:
    """Eight bits lose 3 dB and more, as the engine that the case opens shows by itself."""
    assert channel.healthy_db - channel.planted_db >= LOSS_DB
    assert tuple(sorted(channel.nodes)) in tuple(itertools.pairwise(LAYERS))


def test_a_range_is_that_of_the_tensor_named(tmp_path: Path) -> None:
    """Both ends are a third of what they were, and no other range is another one."""
    from onnxruntime.quantization.calibrate import load_tensors_data

    shop = Workshop(networks()["digits"], "ort", tmp_path)
    found: list[Any] = []

    def edit(ranges: Path) -> None:
        for _ in range(2):
            found.append(
                {name: each.range_value for name, each in load_tensors_data(ranges / RANGES_FILE).data.items()}
            )
            scale_ort_range(ranges, "layer1", 1 / 3)

    shop.build(shop.model, shop.draw(0, 8), edit=edit)
    before, after = found
    assert {name for name in before if before[name] != after[name]} == {"layer1"}
    np.testing.assert_allclose(after["layer1"], np.array(before["layer1"]) / 3, rtol=1e-6)


def test_a_wrong_kernel_changes_what_the_engine_answers_and_no_file(shop: Workshop) -> None:
    """The wrapped engine of the healthy folder answers something else than the backend's own."""
    case = plants.kernel(shop, 0)
    assert case is not None
    assert case.folder == shop.healthy[1]
    with case.open() as wrong, get_backend(case.backend).open(case.spec, case.folder) as right:
        answers = [run_all(each, case.evaluation, case.batch)[case.output] for each in (wrong, right)]
    assert largest_difference(*answers) > 1e-3
    assert case.loss_db >= LOSS_DB


def test_errors_that_cancel_cost_nothing(shop: Workshop) -> None:
    """FP32 and eight bits both answer as without the twins, whose weights alone would cost much."""
    case = plants.cancelling(shop, 0)
    assert case is not None
    assert abs(case.loss_db) < LOSS_DB
    assert case.is_sound


def test_other_tools_rank_products(channel: Case) -> None:
    """Each that can look at the backend ranks products of the network, and one of them is right."""
    ranked = rank(channel)
    assert {*ranked} == {"search", *(ERRORS if channel.backend == "ort" else ["nncf"])}
    assert {name for names in ranked.values() for name in names} <= {*LAYERS}
    assert any(counts.hits(names, channel.nodes) for names in ranked.values())


def test_a_case_is_counted_by_stage_and_place(channel: Case) -> None:
    """Right: the stage is one of the case, and most products that are named are next to the plant."""
    line = json.loads(json.dumps(counts.line_of(channel, Answer(None, 0, 0), {})))
    own, far = channel.nodes[0], [name for name in LAYERS if name not in channel.nodes]
    cause = {"stage": "layer", "nodes": [own], "sites": [{"nodes": far[:1]}, {"nodes": [own]}]}
    assert counts.is_first(line | {"cause": cause})
    elsewhere = line | {"cause": cause | {"nodes": [*far, own]}}
    assert not counts.is_first(elsewhere)
    assert counts.is_among_three(elsewhere)
    assert not counts.stage_is_right(line | {"cause": cause | {"stage": "range"}})
    assert not counts.is_first(line)


def test_a_run_goes_on_where_it_was_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second run adds the kind that is missing, and builds nothing that is there."""
    out = tmp_path / "lines.json"
    common = ["--networks", "digits", "--backends", "ort", "--json", str(out)]
    assert main([*common, "--kinds", "few"]) == 0
    first = out.read_text("utf-8")
    assert main([*common, "--kinds", "few,kernel"]) == 0
    assert out.read_text("utf-8").startswith(first)
    keys = [json.loads(line)["key"] for line in out.read_text("utf-8").splitlines()]
    assert keys == ["digits/ort/few/0", "digits/ort/kernel/0"]
    assert "| kernel | 1 |" in capsys.readouterr().out
