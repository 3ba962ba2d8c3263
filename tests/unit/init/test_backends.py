"""The backends of a job are those that quantize the model, and the extras those that bring them."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pytest_quant.doctor.probe import BackendState
from pytest_quant.errors import BackendUnavailable, UsageError
from pytest_quant.init import backends
from pytest_quant.init.backends import extras_of, named, on_cpu, on_gpu
from pytest_quant.init.model import ModelToTest
from pytest_quant.spec import Signature

FILE = ModelToTest("net", Signature((), ()), "onnx", file="net.onnx")
MODULE = ModelToTest("net", Signature((), ()), "module", module="nets", expression="nets.net")


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that can run here; the others are missing."""
    here: list[str] = []

    def probe(name: str) -> BackendState:
        return BackendState(name, "ok" if name in here else "missing", reason="not installed", fix=f"install {name}")

    monkeypatch.setattr(backends, "probe", probe)
    return here


@pytest.mark.parametrize(
    ("model", "here", "found"),
    [
        (FILE, ["ort"], (("ort",), ("ort",))),
        (
            FILE,
            ["openvino", "ort", "torch", "trt-rtx", "ort-trt"],
            (("openvino", "ort"), ("openvino", "ort")),
        ),
        (MODULE, ["ort", "torch"], (("ort", "torch"), ("ort", "torch"))),
        (MODULE, ["openvino"], (("openvino",), ("openvino", "torch"))),
    ],
    ids=["one", "files only", "modules too", "with what exports"],
)
def test_the_cpu_job_has_what_can_run_here(
    working: list[str], model: ModelToTest, here: Collection[str], found: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    """No backend for a GPU, none that only builds for another machine, none that cannot read the model."""
    working += here
    names = on_cpu(model)
    assert (names, extras_of(names, model)) == found


def test_where_nothing_can_run_every_remedy_is_told(working: list[str]) -> None:
    """The lines of the doctor."""
    with pytest.raises(BackendUnavailable) as error:
        on_cpu(FILE)
    assert "ort: not installed" in str(error.value)
    assert "install openvino\n" in str(error.value)


def test_the_gpu_job_has_what_has_int8_kernels(working: list[str]) -> None:
    """Where none can run here all of them are written, for the runner that has one."""
    assert on_gpu(FILE) == on_gpu(MODULE) == ("ort-trt", "trt")
    assert extras_of(["ort-trt", "trt"], FILE) == ("gpu", "trt10", "trt")
    assert extras_of(["ort-trt", "trt"], MODULE) == ("gpu", "trt10", "trt", "torch-cuda")
    working += ["trt", "ort-cuda"]
    assert on_gpu(FILE) == ("trt",)


def test_named_backends_are_taken_as_they_are(working: list[str]) -> None:
    """They may be on another machine."""
    assert named(["trt", "ort"], FILE) == ("trt", "ort")
    assert extras_of(["trt", "ort"], FILE) == ("gpu", "trt", "ort")
    assert working == []


@pytest.mark.parametrize(
    ("name", "model", "words"),
    [("otr", FILE, "did you mean 'ort'"), ("torch", FILE, "no static int8"), ("torch-cuda", MODULE, "no static int8")],
)
def test_a_name_that_cannot_be_meant_is_told(name: str, model: ModelToTest, words: str) -> None:
    """With those that can."""
    with pytest.raises(UsageError, match=words):
        named([name], model)
