"""How the building process ended, and what its refusals mean; the two builds of implicit INT8."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.backends.child_process import ChildError
from pytest_quant.backends.cuda.device import complaints
from pytest_quant.backends.trt import build
from pytest_quant.backends.trt.build import LOG_FILE, SHAPE_INPUT, BuildRequest, next_step, run_builder
from pytest_quant.backends.trt.options import TrtOptions
from pytest_quant.errors import BuildError
from pytest_quant.spec import Calibration, EngineSpec
from pytest_quant.testing.conformance.examples import dense


def request(folder: Path, module: str = "tensorrt_rtx") -> BuildRequest:
    """A request whose answers go into `folder`."""
    return BuildRequest(module, folder / "model.onnx", TrtOptions(compute_capability="SM89"), {})


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


def test_an_error_with_a_step_of_its_own_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other is read out of its words: nodes left in float, which a text about INT8 asks for, are refused here."""

    def no_batch(*_: object, **__: object) -> None:
        raise ChildError("", error=BuildError("no batch was read: INT8", value="0 batches", fix="drop the option"))

    monkeypatch.setattr(build, "call_in_child", no_batch)
    with pytest.raises(BuildError, match="next: drop the option") as caught:
        run_builder(request(tmp_path), "engine")
    assert "no batch was read: INT8" in str(caught.value)
    assert "0 batches" in str(caught.value)
    assert str(caught.value).count("next:") == 1
    assert "exclude" not in str(caught.value)


SHAPES = {"x": ((1, 3, 8, 8), (1, 3, 16, 16), (4, 3, 32, 32))}
ABOUT_SHAPES = [
    "Error Code 4: API Usage Error (Dynamic input tensor x is missing dimensions in profile 0. In validate)",
    "Error Code 4: Internal Error (Profile kOPT values are not self-consistent. Dimensions with name l must be equal.",
    "IShuffleLayer flat: reshaping failed for tensor: c Tensor to be reshaped must have non-negative dimensions.",
    "Error Code 4: Shape Error (inherently false condition In rebuild at shape/valueRebuilder.cpp:160)",
]
RESOURCE = "libnvinfer_builder_resource.so.10.7.0"
ABOUT_OPERATORS = [
    "node 'q' (NoSuch): creator && \"Plugin not found, are the plugin name, version, and namespace correct?\"",
    "No importer registered for op: NoSuch. Attempting to import as plugin.",
    "Error Code 1: Internal Error (what no one has seen yet)",
]


@pytest.mark.parametrize("said", ABOUT_SHAPES)
def test_shapes_are_answered_with_shapes(said: str) -> None:
    """With those that were asked for, and the option that sets others, where there is one; no node is at fault."""
    text = next_step(said, SHAPES)
    assert "'x' from (1, 3, 8, 8) to (4, 3, 32, 32), usually (1, 3, 16, 16)" in text
    assert "options={'shapes': {'x':" in text
    assert "exclude" not in text
    assert "options" not in next_step(said, {})


@pytest.mark.parametrize(
    ("said", "step"),
    [
        *((operator, "operators that TensorRT has") for operator in ABOUT_OPERATORS),
        # TensorRT 10 and 11 say it of a V100, the one building, the other before.
        ("Error Code 9: API Usage Error (Target GPU SM 70 is not supported by this TensorRT release.)", "ort-cuda"),
        ("Internal Error (Assertion SmVersion{0x0705} <= smVersion failed. )", "older TensorRT"),
        ("Assertion failed: only activation types allowed as input to a QuantizeLinear node", "exclude=[...]"),
        (f"{SHAPE_INPUT} 'size'", "as a constant"),
        ("Tactic Selection: no tactics to implement the operation within workspace limit.", "larger workspace_mb"),
        (
            "plugin node attn requires 210571452800 bytes of scratch space, but only 47697362944 is available.",
            "larger wo",
        ),
        (
            "[virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory (no further information)",
            "smaller ma",
        ),
        ("Error Code 2: Internal Error (User allocator error allocating 1073741824-byte buffer)", "smaller max_batch"),
        (
            f"Unable to load library: {RESOURCE}: {RESOURCE}: cannot enable executable stack as shared",
            "newer than 10.8",
        ),
        (f"Unable to load library: {RESOURCE}: cannot open shared object file: No such file", "anew, in one version"),
        ("CUDA initialization failure with error: 35. Please check your CUDA installation", "pytest-quant[trt-cu12]"),
        ("[Errno 28] No space left on device: '/tmp/x/model.engine'", "TMPDIR"),
    ],
)
def test_each_refusal_has_one_answer(said: str, step: str) -> None:
    """An operator, an old GPU, a pair, an input that is a shape, a library, an option; no other step is advised."""
    text = next_step(said, SHAPES)
    assert step in text
    others = {"operators that TensorRT has", "exclude=[...]", "'shapes'", "older TensorRT"} - {step}
    assert not [other for other in others if other in text and step != "ort-cuda"]


NO_MEMORY = "[ERROR] [virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory (no further information)"
TACTIC = [
    NO_MEMORY,
    "[WARNING] Requested amount of GPU memory (8589934592 bytes) could not be allocated.",
    "[WARNING] UNSUPPORTED_STATE: Skipping tactic 3 due to insufficient memory on requested size of 8589934592 bytes",
]
NO_KERNEL = (
    "[ERROR] Error Code 10: Internal Error (Could not find any implementation for node w_QuantizeLinear + conv.)"
)


@pytest.mark.parametrize("skips", [0, 1, 8, 40])
@pytest.mark.parametrize(
    ("cause", "step", "on_a_full_card"),
    [
        ("[ERROR] Error Code 4: API Usage Error (dimension mismatch, optimization profile 0)", "'shapes'", "'shapes'"),
        (NO_KERNEL, "exclude=[...]", "smaller max_batch"),
        ("[ERROR] Error Code 9: Target GPU SM 70 is not supported by this TensorRT release.", "ort-cuda", "ort-cuda"),
    ],
)
def test_the_cause_is_told_and_not_what_was_skipped(cause: str, step: str, on_a_full_card: str, skips: int) -> None:
    """A card that is short of memory logs errors for each tactic that it skips, in builds that succeed too."""
    log = ["[INFO] Local timing cache in use.", *(skips * TACTIC), "[INFO] Detected 1 inputs.", cause]
    assert complaints(log) == cause
    assert (on_a_full_card if skips else step) in next_step(complaints(log), SHAPES, "\n".join(log))


def test_the_last_errors_come_first() -> None:
    """A message shows few lines. Errors without a tactic beside them stay, and those of tactics where none is left."""
    errors = [f"[ERROR] number {place}" for place in range(9)]
    assert complaints(errors).splitlines() == errors[:2:-1]
    assert complaints(TACTIC) == NO_MEMORY
    assert complaints([*8 * [NO_MEMORY], NO_KERNEL]).startswith(NO_KERNEL)
    assert complaints(["[INFO] a", "[INFO] b"]) == "[INFO] a\n[INFO] b"
    assert complaints([]) == "the log says nothing"


def test_the_build_that_calibrates_looks_for_no_fast_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is thrown away, and the times that it measured are no one else's; the build of the plan has them."""
    requests: list[BuildRequest] = []
    monkeypatch.setattr(build, "run_builder", lambda request, _name: requests.append(request))
    example = dense()
    options = {"quantization": "implicit", "optimization_level": 5, "timing_cache": str(tmp_path / "times")}
    spec = EngineSpec(
        "trt", "int8", "static", example.write(tmp_path), calibration=Calibration("entropy"),
        options=tuple(sorted(options.items())),
    )  # fmt: skip
    (tmp_path / "ranges").mkdir()
    (tmp_path / "plan").mkdir()
    batches = iter([example.feeds(4, 0), example.feeds(2, 1)])
    build.write_implicit_ranges(spec, batches, tmp_path / "ranges", module="tensorrt")
    build.write_plan(spec, tmp_path / "ranges", tmp_path / "plan", module="tensorrt")
    ranges, plan = requests
    assert (ranges.options.optimization_level, ranges.options.timing_cache) == (0, None)
    assert (plan.options.optimization_level, plan.options.timing_cache) == (5, str(tmp_path / "times"))
    assert ranges.ranges == plan.ranges
    assert ranges.calibration == plan.calibration == "entropy"
    assert ranges.samples is not None
    assert (ranges.samples.size, plan.samples) == (2, None)
