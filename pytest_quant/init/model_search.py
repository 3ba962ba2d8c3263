"""The model that a first check is written for: an ONNX file, or a torch module with example inputs; random samples."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pytest_quant.backends import Reads, get_exporter
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.environment.revision import ask_git
from pytest_quant.errors import BackendUnavailable, ModelError, UsageError
from pytest_quant.measure.model_kinds import describe_quantizing
from pytest_quant.spec import Model, Signature, TensorInfo

_NAMED = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<attribute>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class ModelToTest:
    """The model, and how a fixture gives it.

    Attributes
    ----------
    name : of tests and files, letters, digits and underscores.
    signature : inputs and outputs.
    reads : what a backend has to take, or to be handed an export of: ``onnx`` or ``module``.
    file : of an ONNX model, relative to the root with slashes; empty for a module.
    module : to import for a module, ``package.nets``; empty for a file.
    expression : in Python, that gives the `Model` of a module; empty for a file.
    rows : of the embedding table that an input of whole numbers indexes, by its name.
    from_sources : the module is found in the folder of sources only, which Python started at the root does not search.
    """

    name: str
    signature: Signature
    reads: Reads
    file: str = ""
    module: str = ""
    expression: str = ""
    rows: tuple[tuple[str, int], ...] = ()
    from_sources: bool = False


def find_model(root: Path, here: Path, name: str | None, sources: str) -> ModelToTest:
    """Return the model that the user names, or the only ONNX file of the repository.

    Parameters
    ----------
    root : top folder of the repository.
    here : the folder that a path counts from.
    name : a path, or ``module:attribute``; ``None`` to look for a file.
    sources : the folder below `root` that modules are imported from.

    Raises
    ------
    UsageError : there is no such model, there are several, or it lies outside of the repository.
    ModelError : the file is broken, the module cannot be imported or gives no model, or the model is quantized.
    BackendUnavailable : what reads the model is not installed.
    """
    files = onnx_files(root)
    listed = ", ".join(files[:10])
    if name is None:
        if len(files) != 1:
            raise UsageError(
                f"there are {len(files)} ONNX files in this repository"
                if files
                else "there is no ONNX file in this repository",
                value=listed or None,
                allowed="the path of one, or module:attribute for a torch module with example inputs",
                fix=f"pytest-quant init {(*files, 'model.onnx')[0]}, or: pytest-quant init package.nets:example",
            )
        return _from_file(root, (root / files[0]).resolve())
    path = (here / name).resolve()
    # Not by `Path`, which raises for a name that no file system takes.
    if os.path.isfile(path):  # noqa: PTH113
        return _from_file(root, path)
    file, _, attribute = name.rpartition(":")
    if file.endswith(".py"):
        place, top = (here / file).resolve().with_suffix(""), (root / sources).resolve()
        parts = place.relative_to(top).parts if place.is_relative_to(top) else (place.name,)
        fix = f"write {'.'.join(parts)}:{attribute}"
        raise UsageError("a module has another name than its file: the name that import takes", value=name, fix=fix)
    module = _NAMED.fullmatch(name)
    if module is None:
        raise UsageError(
            "there is no such model file",
            value=name,
            allowed=f"the path of an ONNX file, or module:attribute; here are {listed or 'no ONNX files'}",
            fix="give the path of the file, relative to this folder; of a module its name, without .py",
        )
    return _from_module(root, sources, module["module"], module["attribute"])


def onnx_files(root: Path) -> list[str]:
    """Return the ONNX files that git has or would take, relative to `root`."""
    listed = ask_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.onnx")
    return sorted({name for name in listed.text.split("\0") if name and (root / name).is_file()})


def _from_file(root: Path, path: Path) -> ModelToTest:
    if not path.is_relative_to(root.resolve()):
        raise UsageError(
            "the model lies outside of the repository, so that CI would not have it",
            value=str(path),
            allowed=f"a file below {root}",
            fix="copy it into the repository; Git LFS is for large ones",
        )
    if find_spec("onnx") is None:
        raise BackendUnavailable("onnx is not installed, which reads the model", fix='pip install "pytest-quant[ort]"')
    # Here, because it imports onnx.
    from pytest_quant.backends.onnx_files import read_signature, read_table_rows

    try:
        signature, rows = read_signature(path), read_table_rows(path)
    except ModelError:
        if path.suffix.lower() == ".onnx":
            raise
        raise UsageError(
            "this is no ONNX file",
            value=path.name,
            allowed="an ONNX file, or module:attribute of a torch module with example inputs",
            fix="for weights of torch write a function that returns (module, example_inputs), and name it: "
            "pytest-quant init package.nets:example. Export a model of another framework to ONNX first",
        ) from None
    # A file that is just called model.onnx is known by its folder.
    stem = path.parent.name if path.stem == "model" and path.parent != root else path.stem
    file = path.relative_to(root.resolve()).as_posix()
    _refuse_quantized(Model.from_onnx(path), file, repr(file))
    return ModelToTest(_word(stem), signature, "onnx", file=file, rows=tuple(sorted(rows.items())))


def _refuse_quantized(model: Model, name: str, value: str) -> None:
    if parts := describe_quantizing(model):
        raise ModelError(
            f"{name} is quantized already",
            value=parts,
            allowed="the float model, which the test quantizes and compares with",
            fix=f"give the float model here, and this one to the mark of the test: quantized={value}",
        )


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "model"


def _from_module(root: Path, sources: str, module: str, attribute: str) -> ModelToTest:
    _search(root)
    what = f"'{module}' cannot be imported"
    from_sources = _try_call(what, lambda: find_spec(module.partition(".")[0])) is None
    _search(root / sources)
    value = _try_call(what, lambda: importlib.import_module(module))
    if not hasattr(value, attribute):
        raise UsageError(
            f"the module '{module}' has no '{attribute}'",
            value=str(getattr(value, "__file__", module)),
            fix="name a function that returns (module, example_inputs), a pytest_quant.Model, or such a pair",
        )
    model, expression = _model_in(value, module, attribute)
    reader = get_exporter()
    signature = reader.signature(model)
    _refuse_quantized(model, f"{module}:{attribute}", "'NAME', a fixture that returns this module")
    return ModelToTest(
        _word(attribute), signature, reader.offer.reads, module=module, expression=expression, from_sources=from_sources
    )


def _search(folder: Path) -> None:
    """Let Python import from a folder."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _model_in(imported: object, module: str, attribute: str) -> tuple[Model, str]:
    """Return the model that an attribute gives, and the expression that gives it again in a fixture."""
    value, text = getattr(imported, attribute), f"{module}.{attribute}"
    if callable(value) and not _is_network(value) and not isinstance(value, type):
        value, text = _try_call(f"{text}() fails", value), f"{text}()"
    if isinstance(value, Model) and value.module is not None:
        return value, text
    if isinstance(value, tuple) and len(value) == 2 and _is_network(value[0]):
        return Model.from_torch(*value), f'Model.from_torch(*{text}, name="{_word(attribute)}")'
    raise UsageError(
        f"'{module}:{attribute}' gives no torch module with example inputs",
        value=type(value).__name__,
        allowed="a pytest_quant.Model of a module, (module, example_inputs), or a function that returns either",
        fix=f"write in {module}: def example(): return net, (torch.zeros(2, 3, 224, 224),), and name {module}:example",
    )


def _is_network(value: object) -> bool:
    """Whether it is a module of torch, which need not be imported to tell."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("forward", "state_dict"))


def _try_call(what: str, call: Callable[[], object]) -> object:
    try:
        return call()
    except (Exception, SystemExit) as error:
        raise wrap_error(what, error, fix="make it work in python first", kind=ModelError) from error


SAMPLES = 32
CALIBRATION = 16
_FREE = 16
_PICTURE = 224
"""Height and width of pictures of any size."""


def input_line(tensor: TensorInfo, rows: Mapping[str, int]) -> str:
    """Return an expression of numpy that makes `SAMPLES` samples of an input, with the name ``rng`` for its generator.

    Parameters
    ----------
    tensor : the input, whose first axis counts the samples.
    rows : see `ModelToTest.rows`: whole numbers are drawn below them.
    """
    shape, kind = _shape(tensor), tensor.dtype
    if kind == "float32":
        return f"rng.random({shape}, dtype=np.float32)"
    if kind.startswith(("float", "bfloat")):
        return f'rng.random({shape}).astype("{kind}")'
    if kind == "bool":
        return f"rng.random({shape}) < 0.5"
    if not kind.startswith(("int", "uint")):
        return f'np.full({shape}, "text", dtype=object)'
    if "mask" in tensor.name.lower():
        return f"np.ones({shape}, dtype=np.{kind})"
    most = rows.get(tensor.name, 256 if kind == "uint8" else 2)
    return f"rng.integers(0, {most}, {shape}, dtype=np.{kind})"


def _shape(tensor: TensorInfo) -> tuple[int, ...]:
    if tensor.shape is None:
        return (SAMPLES, _FREE)
    if not tensor.shape:
        return ()
    is_picture = len(tensor.shape) == 4 and tensor.shape[2] is None and tensor.shape[3] is None
    free = _PICTURE if is_picture else _FREE
    return (SAMPLES, *(free if size is None else size for size in tensor.shape[1:]))


def describe_input(tensor: TensorInfo) -> str:
    """Return name, type and shape of an input or output, ``image float32 (n, 1, 8, 8)``."""
    if tensor.shape is None:
        return f"{tensor.name} {tensor.dtype}, of any shape"
    shape = str(tensor.shape).replace("None", "?").replace("(?", "(n")
    return f"{tensor.name} {tensor.dtype} {shape}"


def is_scores(tensor: TensorInfo) -> bool:
    """Whether the tensor has the form of class scores, floats (n, classes), for which top1 is the default metric."""
    shape = tensor.shape
    return tensor.dtype.startswith("float") and shape is not None and len(shape) == 2 and (shape[1] or 0) > 1
