"""What goes wrong silently later is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.doctor.examine import Facts, find_cuda_header, find_problems, gather_facts

HEALTHY = Facts(
    ort_wheels=("onnxruntime",),
    isa="avx512_vnni",
    saturates=False,
    gpus=0,
    tensorrt="",
    cuda_memory="",
    nvcc=None,
    cuda_header=None,
)


def told(facts: Facts) -> list[tuple[str, str]]:
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
