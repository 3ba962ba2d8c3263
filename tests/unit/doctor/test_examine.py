"""What goes wrong silently later is told: two wheels, a card that CUDA does not have, versions that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.doctor.examine import (
    CardState,
    Library,
    MachineFacts,
    compare_libraries,
    find_cards,
    find_cuda_header,
    find_libraries,
    find_problems,
    gather_facts,
    runner_line,
)
from pytest_quant.environment import fingerprint
from pytest_quant.history.selftests import keep_selftest
from tests.support.nvml_stub import NvmlStub, StubCard, StubInstance, uuid_of
from tests.unit.history.noisy import a_selftest

L4, T4 = StubCard(name="NVIDIA L4"), StubCard(name="NVIDIA T4", capability="7.5", memory_total=16_000_000_000)
PARTS = tuple(StubInstance(uuid_of(place, "MIG"), gpu_instance=place) for place in (1, 2))
SPLIT = StubCard(name="NVIDIA A100-SXM4-40GB", capability="8.0", mig=1, instances=PARTS)
DRIVER = "580.65.06"

HEALTHY = MachineFacts(
    ort_wheels=("onnxruntime",),
    isa="avx512_vnni",
    saturates=False,
    gpus=0,
    tensorrt="",
    cuda_memory="",
    nvcc=None,
    cuda_header=None,
)


def told(facts: MachineFacts) -> list[tuple[str, str]]:
    """What is said of `facts`, and the fix."""
    return [(problem.what, problem.fix) for problem in find_problems(facts)]


def test_a_healthy_machine_has_no_problem() -> None:
    """A CPU with VNNI and one wheel, no GPU and no TensorRT."""
    assert told(HEALTHY) == []


def test_two_wheels_of_onnxruntime() -> None:
    """They overwrite each other; the fix removes both and installs the one for the GPU."""
    ((what, fix),) = told(replace(HEALTHY, ort_wheels=("onnxruntime", "onnxruntime-gpu")))
    assert "onnxruntime and onnxruntime-gpu are both installed" in what
    assert fix == 'pip uninstall -y onnxruntime onnxruntime-gpu && pip install "pytest-quant[gpu]"'


def test_no_vnni() -> None:
    """The instruction set is named, and what follows from it."""
    ((what, _),) = told(replace(HEALTHY, isa="avx2", saturates=True))
    assert "(avx2) has no VNNI" in what


def test_pycuda_that_cannot_be_built() -> None:
    """With TensorRT or a GPU and no package for device memory, the missing part of a build is named."""
    for facts in (replace(HEALTHY, tensorrt="10.13"), replace(HEALTHY, gpus=1)):
        ((what, fix),) = told(facts)
        assert "pycuda cannot be built: nvcc is not on the PATH" in what
        assert fix == "pip install cuda-bindings"
    ((what, _),) = told(replace(HEALTHY, gpus=1, nvcc=Path("/opt/bin/nvcc")))
    assert "pycuda cannot be built: no cuda.h beside /opt/bin/nvcc" in what


def test_what_can_be_built_is_not_called_unbuildable() -> None:
    """With compiler and header there, one package is still missing; with the package there, nothing."""
    buildable = replace(HEALTHY, gpus=1, nvcc=Path("/opt/bin/nvcc"), cuda_header=Path("/opt/include/cuda.h"))
    ((what, _),) = told(buildable)
    assert "cannot be built" not in what
    assert told(replace(buildable, cuda_memory="cuda")) == []


def test_the_header_of_a_named_root_comes_first(tmp_path: Path) -> None:
    """CUDA_ROOT wins over the folder of a compiler, which may be a wrapper that lies elsewhere."""
    for name in ("root", "wrapper"):
        (tmp_path / name / "include").mkdir(parents=True)
    (tmp_path / "root" / "include" / "cuda.h").touch()
    nvcc = tmp_path / "wrapper" / "bin" / "nvcc"
    assert find_cuda_header(nvcc, {}) is None
    found = find_cuda_header(nvcc, {"CUDA_ROOT": str(tmp_path / "root")})
    assert found == tmp_path / "root" / "include" / "cuda.h"


def test_facts_of_this_machine_are_consistent() -> None:
    """A wheel of onnxruntime is installed where these tests run, and a header only counts if it is a file."""
    facts = gather_facts(0)
    assert "onnxruntime" in " ".join(facts.ort_wheels)
    assert facts.cuda_header is None or facts.cuda_header.is_file()


def test_without_a_driver_there_are_none(nvml_stub: NvmlStub) -> None:
    """And nothing is wrong with that."""
    assert find_cards() == ((), ())


def test_two_cards_in_the_order_of_cuda(nvml_stub: NvmlStub) -> None:
    """CUDA puts the faster one first, NVML the one with the lower place on the bus."""
    nvml_stub.play(T4, L4, cuda=(uuid_of(1), uuid_of(0)))
    cards = (
        CardState("cuda:0", "NVIDIA L4", "SM89", 24_000.0, uuid_of(1), DRIVER),
        CardState("cuda:1", "NVIDIA T4", "SM75", 16_000.0, uuid_of(0), DRIVER),
    )
    assert find_cards() == (cards, ())


def test_a_card_that_cuda_does_not_have_is_listed(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind those that it has."""
    nvml_stub.play(L4, T4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    cards, problems = find_cards()
    assert [(card.cuda, card.uuid) for card in cards] == [("cuda:0", uuid_of(1)), ("", uuid_of(0))]
    assert problems == ()


def test_a_variable_that_leaves_none_is_a_problem(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named with its value, and what to write."""
    nvml_stub.play(L4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    cards, (problem,) = find_cards()
    assert [card.cuda for card in cards] == [""]
    assert problem.what.startswith("CUDA_VISIBLE_DEVICES='7' leaves none of")
    assert "UUID" in problem.fix


def test_the_parts_of_a_split_card_are_its_devices(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is chosen by its UUID; the card itself is none of CUDA's."""
    nvml_stub.play(SPLIT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", PARTS[1].uuid)
    (card,), _ = find_cards()
    assert (card.cuda, card.uuid, card.sm) == ("cuda:0", PARTS[1].uuid, "SM80")
    assert "MIG" in card.name


def test_a_split_card_without_parts_is_a_problem(nvml_stub: NvmlStub) -> None:
    """CUDA has nothing to compute on."""
    nvml_stub.play(StubCard(name="NVIDIA A100-SXM4-40GB", capability="8.0", mig=1))
    cards, (problem,) = find_cards()
    assert [card.cuda for card in cards] == [""]
    assert "a split card needs an instance" in problem.what


REQUIREMENTS = [
    "numpy>=1.26",
    "onnxruntime>=1.28; extra == 'ort'",
    "onnx>=1.17; extra == 'ort'",
    "onnx>=1.17; extra == 'openvino'",
    "pytest-quant[ort]; extra == 'trt'",
    "tensorrt>=10.1; extra == 'trt'",
    "ruff>=0.12; extra == 'dev'",
]
INSTALLED = {"numpy": "2.4.6", "onnxruntime": "1.20.0", "onnx": "1.18.0rc1", "ruff": "0.13"}


def test_versions_are_compared() -> None:
    """Fitting, too old and absent; a pre-release counts, and what only developers need is left out."""
    assert compare_libraries(REQUIREMENTS, ["openvino", "ort", "trt"], lambda name: INSTALLED.get(name, "")) == (
        Library("numpy", (), ">=1.26", "2.4.6", fits=True),
        Library("onnx", ("openvino", "ort"), ">=1.17", "1.18.0rc1", fits=True),
        Library("onnxruntime", ("ort",), ">=1.28", "1.20.0", fits=False),
        Library("tensorrt", ("trt",), ">=10.1", "", fits=False),
    )


def test_our_own_metadata_is_read() -> None:
    """Core and runtimes are listed, developers' tools are not."""
    names = {library.name for library in find_libraries()}
    assert {"numpy", "onnxruntime", "openvino", "torch"} <= names
    assert not names & {"ruff", "pytest-quant"}


def test_without_a_self_test_it_says_how(tmp_path: Path) -> None:
    """And creates no history."""
    assert runner_line(str(tmp_path / "history.db")).endswith("yet: pytest-quant selftest --quick")
    assert list(tmp_path.iterdir()) == []


def test_the_newest_self_test_says_what_it_holds(tmp_path: Path) -> None:
    """With its day, the best kind of model and the worst."""
    place = str(tmp_path / "history.db")
    keep_selftest(place, a_selftest(identity=fingerprint().identity))
    keep_selftest(place, a_selftest(identity={"cpu": "another"}, measured_at="2026-05-05T00:00:00+00:00"))
    assert runner_line(place).startswith(
        "self-test of 2026-01-01: smallest limit in one launch 2.1 % (compute-bound models) to 4.4 %"
    )


def test_a_history_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The rest of the examination goes on."""
    (tmp_path / "history.db").write_text("no database")
    assert "cannot be opened" in runner_line(str(tmp_path / "history.db"))
