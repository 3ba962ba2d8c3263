"""A program in the cache that somebody changed runs nothing when it is opened, though its signature be right."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pytest_quant.backends.torch.archive import refuse_code
from pytest_quant.backends.torch.program import PROGRAM_FILE, load_program, write_engine
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model

Parts = dict[str, bytes]

WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
MODEL = "models/model.json"


class Touching:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[object, ...]:
        """Make pickle call it."""
        return (os.system, (command(self._file),))


def command(file: Path) -> str:
    """Return the command that creates `file`."""
    return f"touch {file}"


def saved(value: object) -> bytes:
    """Return what ``torch.save`` writes."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def change(parts: Parts, name: str, old: object, new: object) -> None:
    """Replace each value that is `old` in a part of JSON."""

    def changed(value: object) -> object:
        if value == old:
            return new
        if isinstance(value, list):
            return [changed(one) for one in value]
        return {key: changed(one) for key, one in value.items()} if isinstance(value, dict) else value

    parts[name] = json.dumps(changed(json.loads(parts[name]))).encode()


def _inputs(parts: Parts, file: Path) -> None:
    parts["data/sample_inputs/model.pt"] = saved(((Touching(file),), {}))


def _weight(parts: Parts, file: Path) -> None:
    parts["data/weights/weight_0"] = saved(Touching(file))
    change(parts, WEIGHTS, False, True)


def _all_weights(parts: Parts, file: Path) -> None:
    parts["data/weights/model.pt"] = saved({"linear.weight": Touching(file)})


def _constant(parts: Parts, file: Path) -> None:
    parts["data/constants/opaque_obj_0"] = pickle.dumps(Touching(file))
    parts[CONSTANTS] = json.dumps(
        {"config": {"c": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}}}
    ).encode()


def _library(parts: Parts, file: Path) -> None:
    parts["data/aotinductor/model/model.so"] = str(file).encode()


def _size(parts: Parts, file: Path) -> None:
    change(parts, MODEL, _free_size(parts), f"__import__('os').system({command(file)!r})")


def _size_in_a_text(parts: Parts, file: Path) -> None:
    text = f"__import__('os').system({command(file)!r})"
    change(parts, MODEL, _free_size(parts), f"Max({text!r}, {_free_size(parts)})")


def _free_size(parts: Parts) -> str:
    graph = json.loads(parts[MODEL])["graph_module"]["graph"]
    return str(graph["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"])


def _guard(parts: Parts, file: Path) -> None:
    document = json.loads(parts[MODEL])
    document["guards_code"] = [f"__import__('os').system({command(file)!r}) == 0"]
    parts[MODEL] = json.dumps(document).encode()


def _operator(parts: Parts, file: Path) -> None:
    document = json.loads(parts[MODEL])
    node = document["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.os.system"
    node["inputs"] = [{"name": "", "arg": {"as_string": command(file)}, "kind": 1}]
    parts[MODEL] = json.dumps(document).encode()


def _name(parts: Parts, file: Path) -> None:
    change(parts, MODEL, "x", f"x=__import__('os').system({command(file)!r})")


def _structure(parts: Parts, file: Path) -> None:
    document = json.loads(parts[MODEL])
    entry = document["graph_module"]["module_call_graph"][0]["signature"]
    entry["in_spec"] = json.dumps([1, {"type": "x", "context": {"__enum__": True, "fqn": f"{file.stem}:x"}}])
    parts[MODEL] = json.dumps(document).encode()


def _deep(parts: Parts, _: Path) -> None:
    parts[MODEL] = b"[" * 100_000


POISONS = (
    *(_inputs, _weight, _all_weights, _constant, _library),
    *(_size, _size_in_a_text, _guard, _operator, _name, _structure, _deep),
)


class Example(torch.nn.Module):
    """One layer, and an input called ``x``."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        found: torch.Tensor = self.linear(x)
        return found


def spec_of(module: torch.nn.Module) -> EngineSpec:
    """The spec of the module as it is."""
    return EngineSpec("torch", "fp32", None, Model.from_torch(module, (torch.zeros(2, 4),)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program as it is kept in the cache."""
    folder = tmp_path_factory.mktemp("program")
    write_engine(spec_of(Example().eval()), None, folder)
    return folder / PROGRAM_FILE


def poisoned(program: Path, folder: Path, poison: Callable[[Parts, Path], None]) -> Path:
    """Return the program with parts that create the file ``ran`` in `folder`."""
    with zipfile.ZipFile(program) as archive:
        whole = {one: archive.read(one) for one in archive.namelist()}
    prefix = next(iter(whole)).partition("/")[0] + "/"
    parts = {one.removeprefix(prefix): content for one, content in whole.items()}
    poison(parts, folder / "ran")
    with zipfile.ZipFile(folder / PROGRAM_FILE, "w") as archive:
        for one, content in parts.items():
            archive.writestr(prefix + one, content)
    return folder / PROGRAM_FILE


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__[1:])
def test_a_poisoned_program_is_refused_and_runs_nothing(
    program: Path, tmp_path: Path, poison: Callable[[Parts, Path], None]
) -> None:
    """In each place where PyTorch unpickles, evaluates, imports or writes code of what an archive says."""
    file = poisoned(program, tmp_path, poison)
    with pytest.raises(BuildError, match="loading the program"):
        load_program(file).module()(torch.ones(2, 4))
    assert not (tmp_path / "ran").exists()


def test_the_poison_works_where_pytorch_opens_the_program_itself(program: Path, tmp_path: Path) -> None:
    """So the test above tells something; should this fail, PyTorch has become safer."""
    file = poisoned(program, tmp_path, _inputs)
    with suppress(Exception):  # what follows is broken in PyTorch's own ways
        torch.export.load(file)
    assert (tmp_path / "ran").exists()


def test_a_format_of_earlier_versions_is_refused(program: Path, tmp_path: Path) -> None:
    """PyTorch falls back to it where the first part of an archive cannot be read, and unpickles all of it."""
    file = tmp_path / PROGRAM_FILE
    file.write_bytes(program.read_bytes())
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("version", "8.15")
    with pytest.raises((ValueError, RuntimeError)):
        refuse_code(file)


def test_a_program_that_was_not_touched_computes_what_the_module_does(tmp_path: Path) -> None:
    """With a size that is free, and guards on it."""
    module = Example().eval()
    write_engine(spec_of(module), None, tmp_path)
    given = torch.randn(5, 4)
    with torch.no_grad():
        torch.testing.assert_close(load_program(tmp_path / PROGRAM_FILE).module()(given), module(given))
