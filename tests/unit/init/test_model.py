"""The model is found, or what is there is told."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.doctor.probe import BackendState
from pytest_quant.errors import BackendUnavailable, ModelError, UsageError
from pytest_quant.init import backends
from pytest_quant.init.backends import extras_of, named, on_cpu, on_gpu
from pytest_quant.init.model import (
    SAMPLES,
    ModelToTest,
    described,
    find_model,
    input_line,
    is_scores,
)
from pytest_quant.spec import Signature, TensorInfo
from tests.support.in_process import imports_forgotten
from tests.support.models import select_first
from tests.support.repository import make_repository


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A new repository; what a test imports from it is forgotten."""
    made = make_repository(tmp_path / "repository").path
    with imports_forgotten(made):
        yield made


def find(root: Path, asked: str | None) -> ModelToTest:
    """Look for a model from the top of the repository."""
    return find_model(root, root, asked, ".")


def test_the_only_file_is_taken(root: Path) -> None:
    """One that git ignores does not count, and one that it would take does."""
    (root / ".gitignore").write_text("build/\n")
    (root / "build").mkdir()
    (root / "models").mkdir()
    select_first(root / "build" / "other.onnx")
    select_first(root / "models" / "Select First.onnx")
    found = find(root, None)
    assert (found.name, found.file, found.reads) == ("select_first", "models/Select First.onnx", "onnx")
    assert [tensor.name for tensor in found.signature.inputs] == ["x"]
    assert [tensor.shape for tensor in found.signature.outputs] == [(None, 4)]


def test_a_path_counts_from_where_the_user_is(root: Path) -> None:
    """As in every command; what is written counts from the top."""
    (root / "models" / "resnet").mkdir(parents=True)
    select_first(root / "models" / "resnet" / "model.onnx")
    found = find_model(root, root / "models", "resnet/model.onnx", ".")
    assert (found.name, found.file) == ("resnet", "models/resnet/model.onnx")


def test_no_model_at_all_is_told_with_both_forms(root: Path) -> None:
    """Of a file, and of a module."""
    with pytest.raises(UsageError) as error:
        find(root, None)
    assert "there is no ONNX file in this repository" in str(error.value)
    assert "package.nets:example" in str(error.value)


@pytest.mark.parametrize("asked", ["missing.onnx", "models", "x" * 300, "a:b:c"])
def test_a_model_that_is_not_there_is_told_with_those_that_are(root: Path, asked: str) -> None:
    """A slip in a name is seen at once."""
    select_first(root / "here.onnx")
    (root / "models").mkdir()
    with pytest.raises(UsageError) as error:
        find(root, asked)
    assert "here.onnx" in str(error.value)


def test_what_is_no_onnx_file_is_told_with_the_way_there(root: Path) -> None:
    """Weights of torch most of all, which no download mends."""
    (root / "yolo.pt").write_bytes(b"PK nothing")
    with pytest.raises(UsageError, match="this is no ONNX file") as caught:
        find(root, "yolo.pt")
    assert "pytest-quant init package.nets:example" in (caught.value.fix or "")


def test_a_model_outside_is_refused(root: Path, tmp_path: Path) -> None:
    """CI would not have it."""
    select_first(tmp_path / "outside.onnx")
    with pytest.raises(UsageError, match="outside of the repository"):
        find(root, "../outside.onnx")


NETS = """
import torch

net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
inputs = (torch.zeros(2, 1, 8, 8),)
pair = (net, inputs)
number = 3
Net = torch.nn.Linear

def example():
    return net, inputs

def model():
    from pytest_quant import Model
    return Model.from_torch(net, inputs, name="mine")

def nothing():
    return 3

def fails():
    raise RuntimeError("no weights here")
"""


@pytest.mark.parametrize(
    ("attribute", "expression"),
    [
        ("example", 'Model.from_torch(*nets.example(), name="example")'),
        ("pair", 'Model.from_torch(*nets.pair, name="pair")'),
        ("model", "nets.model()"),
    ],
)
def test_a_module_is_read_in_every_form(root: Path, attribute: str, expression: str) -> None:
    """What is written into the conftest gives the same model again."""
    pytest.importorskip("torch")
    (root / "nets.py").write_text(NETS)
    found = find(root, f"nets:{attribute}")
    assert (found.module, found.expression, found.reads) == ("nets", expression, "module")
    assert found.signature.outputs[0].shape == (None, 10)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("nets:net", "gives no torch module with example inputs"),
        ("nets:number", "gives no torch module with example inputs"),
        ("nets:Net", "gives no torch module with example inputs"),
        ("nets:nothing", "gives no torch module with example inputs"),
        ("nets:fails", "no weights here"),
        ("nets:missing", "has no 'missing'"),
        ("missing.nets:net", "'missing.nets' cannot be imported"),
    ],
)
def test_what_gives_no_model_is_told(root: Path, asked: str, words: str) -> None:
    """With the function to write."""
    pytest.importorskip("torch")
    (root / "nets.py").write_text(NETS)
    with pytest.raises((UsageError, ModelError)) as error:
        find(root, asked)
    assert words in str(error.value)


def test_a_module_is_imported_from_the_folder_of_sources(root: Path) -> None:
    """As the installed project would be."""
    pytest.importorskip("torch")
    (root / "src" / "package_of_nets").mkdir(parents=True)
    (root / "src" / "package_of_nets" / "__init__.py").write_text(NETS)
    found = find_model(root, root, "package_of_nets:example", "src")
    assert found.expression.startswith("Model.from_torch(*package_of_nets.example()")


@pytest.mark.parametrize(("file", "from_sources"), [("src/netted/__init__.py", True), ("netted.py", False)])
def test_whether_python_finds_a_module_by_itself_is_known(root: Path, file: str, from_sources: bool) -> None:
    """Started at the root, as the tests are."""
    pytest.importorskip("torch")
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(NETS)
    assert find_model(root, root, "netted:example", "src").from_sources is from_sources


def made(tensor: TensorInfo, rows: dict[str, int] | None = None) -> NDArray[np.generic]:
    """Run the line that is written, as a conftest would."""
    names = {"np": np, "rng": np.random.default_rng(0)}
    found: NDArray[np.generic] = eval(input_line(tensor, rows or {}), names)  # noqa: S307 - a line of ours
    return found


@pytest.mark.parametrize(
    ("kind", "shape", "wanted"),
    [
        ("float16", (None, 1, 8, 8), (SAMPLES, 1, 8, 8)),
        ("float32", (None, 3, None, None), (SAMPLES, 3, 224, 224)),
        ("float64", (8, 3), (SAMPLES, 3)),
        ("int8", (None, None), (SAMPLES, 16)),
        ("uint16", (None,), (SAMPLES,)),
        ("bool", None, (SAMPLES, 16)),
        ("object", (None, 2), (SAMPLES, 2)),
        ("int64", (), ()),
        ("float32", (), ()),
    ],
)
def test_they_have_the_type_and_the_shape(
    kind: str, shape: tuple[int | None, ...] | None, wanted: tuple[int, ...]
) -> None:
    """The first axis counts the samples, a free one gets a usual size; a number for all samples has no axis."""
    samples = made(TensorInfo("x", kind, shape))
    assert samples.shape == wanted
    assert np.asarray(samples).dtype == np.dtype(kind)


def test_token_ids_lie_within_the_table() -> None:
    """A larger one would be an error of the runtime."""
    ids = made(TensorInfo("ids", "int64", (None, 64)), {"ids": 300})
    assert 2 < ids.max() < 300
    assert ids.min() >= 0


def test_an_index_that_nothing_is_known_of_is_small() -> None:
    """Every table has two rows; a mask lets everything through."""
    assert set(np.unique(made(TensorInfo("types", "int64", (None, 64))))) == {0, 1}
    assert set(np.unique(made(TensorInfo("attention_mask", "int64", (None, 64))))) == {1}


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (TensorInfo("image", "float32", (None, 1, 8, 8)), "image float32 (n, 1, 8, 8)"),
        (TensorInfo("ids", "int64", (4, None)), "ids int64 (4, ?)"),
        (TensorInfo("y", "float32", (None,)), "y float32 (n,)"),
        (TensorInfo("rate", "int64", ()), "rate int64 ()"),
        (TensorInfo("x", "float32", None), "x float32, of any shape"),
    ],
)
def test_a_tensor_is_told_in_a_line(tensor: TensorInfo, text: str) -> None:
    """With n for the samples and a question mark for other free axes."""
    assert described(tensor) == text


@pytest.mark.parametrize(
    ("tensor", "scores"),
    [
        (TensorInfo("y", "float32", (None, 10)), True),
        (TensorInfo("y", "float16", (1, 2)), True),
        (TensorInfo("y", "float32", (None, 1)), False),
        (TensorInfo("y", "float32", (None, None)), False),
        (TensorInfo("y", "int64", (None, 10)), False),
        (TensorInfo("y", "float32", (None, 10, 4)), False),
        (TensorInfo("y", "float32", None), False),
    ],
)
def test_scores_of_classes_are_known(tensor: TensorInfo, scores: bool) -> None:
    """Floats (n, classes), of two classes at least."""
    assert is_scores(tensor) is scores


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
