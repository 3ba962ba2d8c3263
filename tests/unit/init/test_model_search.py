"""The model is found, or what is there is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.doctor.probe import BackendState
from pytest_quant.errors import BackendUnavailable, ModelError, UsageError
from pytest_quant.init import render
from pytest_quant.init.model_search import (
    SAMPLES,
    ModelToTest,
    describe_input,
    find_model,
    input_line,
    is_scores,
)
from pytest_quant.init.render import extras_of, select_cpu, select_gpu, select_named
from pytest_quant.spec import Signature, TensorInfo
from tests.support.in_process import imports_forgotten
from tests.support.models import parsed, select_first
from tests.support.repository import make_repository


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A new repository; what a test imports from it is forgotten."""
    top = make_repository(tmp_path / "repository").path
    with imports_forgotten(top):
        yield top


def find(root: Path, model: str | None) -> ModelToTest:
    """Look for a model from the top of the repository."""
    return find_model(root, root, model, ".")


def test_the_only_file_is_taken(root: Path) -> None:
    """One that git ignores does not count, and one that it would take does; a path counts from where the user is."""
    (root / ".gitignore").write_text("build/\n")
    (root / "build").mkdir()
    (root / "models").mkdir()
    select_first(root / "build" / "other.onnx")
    select_first(root / "models" / "Select First.onnx")
    result = find(root, None)
    assert (result.name, result.file, result.reads) == ("select_first", "models/Select First.onnx", "onnx")
    assert [tensor.name for tensor in result.signature.inputs] == ["x"]
    assert [tensor.shape for tensor in result.signature.outputs] == [(None, 4)]
    (root / "models" / "resnet").mkdir()
    select_first(root / "models" / "resnet" / "model.onnx")
    result = find_model(root, root / "models", "resnet/model.onnx", ".")
    assert (result.name, result.file) == ("resnet", "models/resnet/model.onnx")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        *((name, "here.onnx") for name in ("missing.onnx", "models", "x" * 300, "a:b:c")),
        ("yolo.pt", r"(?s)this is no ONNX file.*pytest-quant init package.nets:example"),
        ("../outside.onnx", "outside of the repository"),
    ],
)
def test_a_model_that_is_not_there_is_told_with_those_that_are(root: Path, model: str, words: str) -> None:
    """A slip in a name is seen at once; weights of torch are no ONNX file, and CI would not have a file outside."""
    select_first(root / "here.onnx")
    select_first(root.parent / "outside.onnx")
    (root / "models").mkdir()
    (root / "yolo.pt").write_bytes(b"PK nothing")
    with pytest.raises(UsageError, match=words):
        find(root, model)


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
    result = find(root, f"nets:{attribute}")
    assert (result.module, result.expression, result.reads) == ("nets", expression, "module")
    assert result.signature.outputs[0].shape == (None, 10)


@pytest.mark.parametrize(
    ("sources", "given", "module"),
    [
        (".", "nets.py", "nets"),
        (".", "./nets.py", "nets"),
        (".", "package/nets.py", "package.nets"),
        ("src", "src/package/nets.py", "package.nets"),
    ],
)
def test_of_a_file_that_is_given_as_a_module_the_module_is_named(
    root: Path, sources: str, given: str, module: str
) -> None:
    """As its import needs it, and that is taken."""
    pytest.importorskip("torch")
    (root / given).parent.mkdir(parents=True, exist_ok=True)
    (root / given).write_text(NETS)
    with pytest.raises(UsageError) as error:
        find_model(root, root, f"{given}:example", sources)
    assert error.value.fix == f"write {module}:example"


def test_the_function_that_an_error_writes_is_a_model(root: Path) -> None:
    """Pasted into the file, its name is taken."""
    pytest.importorskip("torch")
    source = "import torch\nnet = torch.nn.Conv2d(3, 4, 3)\n"
    (root / "nets.py").write_text(source)
    with pytest.raises(UsageError) as error:
        find(root, "nets:net")
    code, _, name = str(error.value.fix).removeprefix("write in nets: ").partition(", and name ")
    (root / "written.py").write_text(source + code)
    (entry,) = find(root, name.replace("nets", "written")).signature.inputs
    assert entry.shape == (None, 3, 224, 224)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("nets:net", "gives no torch module with example inputs"),
        ("nets:Net", "gives no torch module with example inputs"),
        ("nets:nothing", "gives no torch module with example inputs"),
        ("nets:fails", "no weights here"),
        ("nets:missing", "has no 'missing'"),
        ("missing.nets:net", "'missing.nets' cannot be imported"),
        ("__main__:x", "'__main__' cannot be imported"),
    ],
)
def test_what_gives_no_model_is_told(root: Path, monkeypatch: pytest.MonkeyPatch, model: str, words: str) -> None:
    """With the function to write."""
    # As where a program is started by its name.
    monkeypatch.setattr("__main__.__spec__", None)
    pytest.importorskip("torch")
    (root / "nets.py").write_text(NETS)
    with pytest.raises((UsageError, ModelError)) as error:
        find(root, model)
    assert words in str(error.value)


def test_a_file_that_is_quantized_is_no_float_model(root: Path) -> None:
    """Its operators say so, not its name: a test would compare it with itself."""
    scale = "<float s = {0.5}, int8 z = {0}>"
    parsed(
        root / "net.onnx",
        f"(float[n, 4] x) => (float[n, 4] y) {scale} {{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}",
    )
    with pytest.raises(ModelError, match=r"net\.onnx is quantized already") as error:
        find(root, "net.onnx")
    assert str(error.value.value).startswith("2 nodes of a quantized model: QuantizeLinear ")
    assert "quantized='net.onnx'" in str(error.value.fix)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_a_module_that_is_quantized_is_no_float_model(root: Path) -> None:
    """Its layers say so, and the error tells how a module is the candidate."""
    pytest.importorskip("torch")
    layers = "torch.nn.Flatten(), torch.ao.nn.quantized.dynamic.Linear(64, 10)"
    (root / "nets.py").write_text(f"{NETS}\nrounds = (torch.nn.Sequential({layers}), inputs)\n")
    with pytest.raises(ModelError, match="nets:rounds is quantized already") as error:
        find(root, "nets:rounds")
    assert str(error.value.value).startswith("1 part of a quantized model: torch.ao.nn.quantized.dynamic.")
    assert "quantized='NAME', a fixture" in str(error.value.fix)


@pytest.mark.parametrize(("file", "from_sources"), [("src/netted/__init__.py", True), ("netted.py", False)])
def test_whether_python_finds_a_module_by_itself_is_known(root: Path, file: str, from_sources: bool) -> None:
    """Started at the root, as the tests are; it is imported from the folder of sources all the same."""
    pytest.importorskip("torch")
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(NETS)
    result = find_model(root, root, "netted:example", "src")
    assert result.from_sources is from_sources
    assert result.expression.startswith("Model.from_torch(*netted.example()")


def samples_of(tensor: TensorInfo, rows: dict[str, int] | None = None) -> NDArray[np.generic]:
    """Run the line that is written, as a conftest would."""
    names = {"np": np, "rng": np.random.default_rng(0)}
    result: NDArray[np.generic] = eval(input_line(tensor, rows or {}), names)  # noqa: S307 - a line of ours
    return result


@pytest.mark.parametrize(
    ("kind", "shape", "wanted"),
    [
        ("float16", (None, 1, 8, 8), (SAMPLES, 1, 8, 8)),
        ("float32", (None, 3, None, None), (SAMPLES, 3, 224, 224)),
        ("int8", (None, None), (SAMPLES, 16)),
        ("bool", None, (SAMPLES, 16)),
        ("object", (None, 2), (SAMPLES, 2)),
        ("int64", (), ()),
    ],
)
def test_they_have_the_type_and_the_shape(
    kind: str, shape: tuple[int | None, ...] | None, wanted: tuple[int, ...]
) -> None:
    """The first axis counts the samples, a free one gets a usual size; a number for all samples has no axis."""
    samples = samples_of(TensorInfo("x", kind, shape))
    assert samples.shape == wanted
    assert np.asarray(samples).dtype == np.dtype(kind)


def test_token_ids_lie_within_the_table() -> None:
    """Every table has two rows, if nothing is known of it; a mask lets everything through."""
    ids = samples_of(TensorInfo("ids", "int64", (None, 64)), {"ids": 300})
    assert 0 <= ids.min() <= 2 < ids.max() < 300
    assert set(np.unique(samples_of(TensorInfo("types", "int64", (None, 64))))) == {0, 1}
    assert set(np.unique(samples_of(TensorInfo("attention_mask", "int64", (None, 64))))) == {1}


@pytest.mark.parametrize(
    ("tensor", "text", "scores"),
    [
        (TensorInfo("y", "float32", (None, 10)), "y float32 (n, 10)", True),
        (TensorInfo("y", "float16", (1, 2)), "y float16 (1, 2)", True),
        (TensorInfo("y", "float32", (None, 1)), "y float32 (n, 1)", False),
        (TensorInfo("y", "float32", (4, None)), "y float32 (4, ?)", False),
        (TensorInfo("y", "int64", (None, 10)), "y int64 (n, 10)", False),
        (TensorInfo("y", "float32", (None,)), "y float32 (n,)", False),
        (TensorInfo("y", "int64", ()), "y int64 ()", False),
        (TensorInfo("y", "float32", None), "y float32, of any shape", False),
    ],
)
def test_a_tensor_is_told_in_a_line(tensor: TensorInfo, text: str, scores: bool) -> None:
    """With n for the samples and a question mark for other free axes; floats (n, classes) are scores of classes."""
    assert (describe_input(tensor), is_scores(tensor)) == (text, scores)


FILE = ModelToTest("net", Signature((), ()), "onnx", file="net.onnx")
MODULE = ModelToTest("net", Signature((), ()), "module", module="nets", expression="nets.net")


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that can run here; the others are missing."""
    here: list[str] = []

    def probe(name: str) -> BackendState:
        return BackendState(name, "ok" if name in here else "missing", reason="not installed", fix=f"install {name}")

    monkeypatch.setattr(render, "probe_all", lambda names: [probe(name) for name in names])
    return here


@pytest.mark.parametrize(
    ("model", "here", "names", "extras"),
    [
        (FILE, ["openvino", "ort", "torch", "trt-rtx", "ort-trt"], ("openvino", "ort"), ("openvino", "ort")),
        (MODULE, ["ort", "torch"], ("ort", "torch"), ("ort", "torch")),
        (MODULE, ["openvino"], ("openvino",), ("openvino", "torch")),
    ],
    ids=["files only", "modules too", "with what exports"],
)
def test_the_cpu_job_has_what_can_run_here(
    working: list[str], model: ModelToTest, here: list[str], names: tuple[str, ...], extras: tuple[str, ...]
) -> None:
    """None for a GPU, none that builds for another machine, none that cannot read the model; or what to do."""
    with pytest.raises(BackendUnavailable, match=r"(?s)ort: not installed.*install openvino\n"):
        select_cpu(FILE)
    working += here
    assert (select_cpu(model), extras_of(names, model)) == (names, extras)


def test_the_gpu_job_has_what_has_int8_kernels(working: list[str]) -> None:
    """Where none can run here all of them are written, for the runner that has one; so is what the user names."""
    assert select_gpu(FILE) == select_gpu(MODULE) == ("ort-trt", "trt")
    assert extras_of(["ort-trt", "trt"], FILE) == ("gpu", "trt10", "trt")
    assert extras_of(["ort-trt", "trt"], MODULE) == ("gpu", "trt10", "trt", "torch-cuda")
    assert select_named(["trt", "ort"], FILE) == ("trt", "ort")
    assert extras_of(["trt", "ort"], FILE) == ("gpu", "trt", "ort")
    working += ["trt", "ort-cuda"]
    assert select_gpu(FILE) == ("trt",)
    for name, model, words in (("otr", FILE, "did you mean 'ort'"), ("torch-cuda", MODULE, "no static int8")):
        with pytest.raises(UsageError, match=words):
            select_named([name], model)
