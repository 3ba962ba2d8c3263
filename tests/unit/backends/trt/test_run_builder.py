"""How the building process ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.backends.trt.configure import LOG_FILE, SHAPE_INPUT, BuildRequest, write_log
from pytest_quant.backends.trt.run_builder import build_notes, next_step, run_builder
from pytest_quant.errors import BuildError
from pytest_quant.measure.steps import Steps


def request(folder: Path, module: str = "tensorrt_rtx") -> BuildRequest:
    """A request whose answers go into `folder`."""
    return BuildRequest(module, str(folder / "model.onnx"), str(folder), "SM89", None, None)


def test_a_runtime_that_does_not_load(tmp_path: Path) -> None:
    """The import's own message is shown."""
    with pytest.raises(BuildError, match="No module named 'no_such_runtime'"):
        run_builder(request(tmp_path, "no_such_runtime"), "engine")


def test_a_crash_is_an_error_and_not_the_end_of_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is named, and the last lines of the log are shown."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"\n'
    )
    python.chmod(0o755)
    (tmp_path / LOG_FILE).write_text("[VERBOSE] about to do something\n")
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(BuildError, match=r"did not build engine: it crashed \(SIGSEGV\)") as caught:
        run_builder(request(tmp_path), "engine")
    assert "about to do something" in str(caught.value)


def test_a_build_that_takes_too_long(tmp_path: Path) -> None:
    """The limit, what the builder was at, and what makes builds shorter; not a traceback of subprocess."""
    (tmp_path / LOG_FILE).write_text("[VERBOSE] about to do something\n")
    with pytest.raises(BuildError, match=r"did not build engine: it took more than 0\.01 s, and was ended") as caught:
        run_builder(request(tmp_path), "engine", limit_s=0.01)
    assert "about to do something" in str(caught.value)
    assert "optimization_level" in str(caught.value)


def test_the_limit_of_the_session_ends_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that hangs is ended, and the check is an error that names the option; pytest goes on."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import signal; signal.pause()"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    ended: list[int] = []
    steps = Steps(print, 0.1, end=ended.append)
    with (
        pytest.raises(BuildError, match=r"building engine did not end within 0\.1 s") as caught,
        steps.bounded("building engine"),
    ):
        run_builder(request(tmp_path), "engine")
    assert "--quant-step-timeout" in str(caught.value)
    assert not ended, "this process"


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ([], None),
        (["conv1"], "1 tensor has no scale"),
        (["conv1", "conv2"], "2 tensors have no scale"),
    ],
)
def test_tensors_without_a_scale_are_counted(tmp_path: Path, lines: list[str], note: str | None) -> None:
    """TensorRT warns of each and goes on; the note says what that means."""
    told = [f"[WARNING] Missing scale and zero-point for tensor {name}, expect fall back" for name in lines]
    write_log(tmp_path, "\n".join(["[INFO] parsing", *told]))
    found = build_notes(tmp_path)
    assert len(found) == (note is not None)
    assert all(note in line and "may stay in float" in line for line in found if note)


SHAPES = {"x": ((1, 3, 8, 8), (1, 3, 16, 16), (4, 3, 32, 32))}
ABOUT_SHAPES = [
    "Error Code 4: Internal Error (kOPT values for profile 0 violate shape constraints: c: spatial dimension of "
    "convolution/deconvolution output cannot be negative (build-time output dimension of axis 2 is (+ h -6)))",
    "Error Code 4: API Usage Error (Dynamic input tensor x is missing dimensions in profile 0. In validate)",
    "Error Code 4: Internal Error (Profile kOPT values are not self-consistent. Dimensions with name l must be equal.",
    "Error Code 4: API Usage Error (Dimension mismatch for tensor x and profile 0. At dimension axis 1, profile has "
    "min=4, opt=4, max=4 but tensor has 3.)",
    "IShuffleLayer flat: reshaping failed for tensor: c Tensor to be reshaped must have non-negative dimensions.",
    "Error Code 4: Shape Error (inherently false condition In rebuild at shape/valueRebuilder.cpp:160)",
]
ABOUT_OPERATORS = [
    "node 'q' (NoSuch): creator && \"Plugin not found, are the plugin name, version, and namespace correct?\"",
    "No importer registered for op: NoSuch. Attempting to import as plugin.",
    "Error Code 1: Internal Error (what no one has seen yet)",
]


@pytest.mark.parametrize("said", ABOUT_SHAPES)
def test_shapes_are_answered_with_shapes(said: str) -> None:
    """With those that were asked for, and the option that sets others; no node is at fault."""
    text = next_step(said, SHAPES)
    assert "'x' from (1, 3, 8, 8) to (4, 3, 32, 32), usually (1, 3, 16, 16)" in text
    assert "options={'shapes': {'x':" in text
    assert "exclude" not in text


@pytest.mark.parametrize("said", ABOUT_OPERATORS)
def test_what_has_nothing_to_do_with_quantization(said: str) -> None:
    """An operator that is missing, or an unknown cause: nothing tells that a node left in float would help."""
    text = next_step(said, SHAPES)
    assert "operators that TensorRT has" in text
    assert "exclude" not in text
    assert "shapes" not in text


@pytest.mark.parametrize(
    "said",
    [
        "IBuilder::buildSerializedNetwork: Error Code 9: API Usage Error (Target GPU SM 70 is not supported by this "
        "TensorRT release.)",
        "Internal Error (Assertion SmVersion{0x0705} <= smVersion failed. )",
    ],
)
def test_a_gpu_that_this_release_left_behind(said: str) -> None:
    """No graph is at fault: TensorRT 10 and 11 say it of a V100, the one building, the other before."""
    text = next_step(said, SHAPES)
    assert "older TensorRT" in text
    assert "ort-cuda" in text
    assert "export the model" not in text


def test_a_quantized_node_is_answered_with_exclude() -> None:
    """It is the pair that is refused."""
    said = "Assertion failed: only activation types allowed as input to a QuantizeLinear node"
    assert "exclude=[...]" in next_step(said, SHAPES)


def test_an_input_that_is_a_shape() -> None:
    """Its own name stands in the line to write."""
    assert "{'shapes': {'size': [" in next_step(f"{SHAPE_INPUT} 'size'", SHAPES)


def test_fixed_shapes_cannot_be_set() -> None:
    """An option would be of no use."""
    assert "options" not in next_step(ABOUT_SHAPES[-1], {})


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("API Usage Error (Unable to load library: libnvinfer_lean.so.10: cannot open shared object", "tensorrt-lean"),
        ("Tactic Selection: no tactics to implement the operation within workspace limit.", "larger workspace_mb"),
    ],
)
def test_what_a_library_or_an_option_lacks(said: str, step: str) -> None:
    """No operator is at fault."""
    assert step in next_step(said, SHAPES)
    assert "operators" not in next_step(said, SHAPES)
