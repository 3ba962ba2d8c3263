"""Libraries of custom operators and plugins: loaded wherever a model is built or runs, and a part of the key."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Backend, Feeds, get_backend
from pytest_quant.backends.child_process import call_in_child
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import dense
from tests.support.custom_operators import HEAD, INNER, doubling_network

X = np.random.default_rng(1).normal(size=(64, 8)).astype(np.float32)
WANTED = 2 * (X @ INNER) @ HEAD


def spec_of(
    model: Model, scheme: str | None, library: Path | None, backend: str = "ort", **options: object
) -> EngineSpec:
    """An engine of the network with the library, if one is given."""
    named = {**options, **({} if library is None else {"libraries": [str(library)]})}
    return EngineSpec(backend, "int8" if scheme else "fp32", scheme, model, options=tuple(sorted(named.items())))


def built(spec: EngineSpec, folder: Path) -> Path:
    """Check, calibrate and build as a check does, and return the folder of the engine."""
    backend: Backend = get_backend(spec.backend)
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    ranges.mkdir(parents=True)
    engine.mkdir()

    def batches() -> Iterator[Feeds]:
        yield {"x": X}

    calibrates = backend.calibration_ingredients(spec) is not None
    if calibrates:
        backend.calibrate(spec, batches, ranges)
    backend.build(spec, ranges if calibrates else None, engine)
    return engine


def outputs_of(spec: EngineSpec, folder: Path) -> tuple[object, float, int]:
    """Open an engine and return what it computes, its coverage in percent and the process."""
    with get_backend(spec.backend).open(spec, folder) as engine:
        return engine.run({"x": X})["y"], float(engine.coverage({"x": X}).pct or 0), os.getpid()


@pytest.mark.parametrize("scheme", [None, "static", "dynamic"])
def test_an_operator_of_the_users_own_is_built_around_and_runs(
    tmp_path: Path, custom_operators: Path, scheme: str | None
) -> None:
    """The product behind it is quantized too, by the type that the file tells; in each process."""
    spec = spec_of(doubling_network(tmp_path), scheme, custom_operators)
    folder = built(spec, tmp_path / "built")
    answers = [outputs_of(spec, folder)]
    # One is enough: where a session opens does not depend on the scheme.
    answers += [call_in_child(outputs_of, spec, folder)[0]] if scheme == "static" else []
    for outputs, pct, _ in answers:
        error = np.linalg.norm(np.asarray(outputs) - WANTED) / np.linalg.norm(WANTED)
        assert error < (0.1 if scheme else 1e-5)
        assert pct == 100
    assert len({process for *_, process in answers}) == len(answers)


def test_without_its_library_the_option_is_named_and_helps(tmp_path: Path, custom_operators: Path) -> None:
    """The fix of the error is the option of the test above."""
    spec = spec_of(doubling_network(tmp_path), None, None)
    with pytest.raises(BuildError, match=r"Twice.*not a registered function(.|\n)*options=\{'libraries': \[") as caught:
        outputs_of(spec, built(spec, tmp_path / "without"))
    assert "/path/libops.so" in str(caught.value)
    followed = spec_of(spec.model, None, custom_operators)
    assert outputs_of(followed, built(followed, tmp_path / "with"))[1] == 100


def test_a_library_that_is_not_one_is_an_error(tmp_path: Path, custom_operators: Path) -> None:
    """A path that leads nowhere, before anything is built; a file that does not load, and one without operators."""
    model = doubling_network(tmp_path)
    for missing in (tmp_path / "libmissing.so", tmp_path):
        with pytest.raises(UsageError, match=r"option 'libraries'(.|\n)*all of them existing files"):
            get_backend("ort").check(spec_of(model, None, missing))
    with pytest.raises(UsageError, match="option 'libraries'"):
        get_backend("ort").check(
            EngineSpec("ort", "fp32", None, model, options=(("libraries", str(custom_operators)),))
        )
    text = tmp_path / "text.so"
    text.write_text("no library")
    loads = Path(np.linalg._umath_linalg.__file__)
    for file, said in (
        (text, "ldd shows what that library"),
        (loads, "has no operators for ONNX Runtime: leave it out"),
    ):
        for scheme in (None, "static"):
            with pytest.raises(BuildError, match=said):
                outputs_of(
                    spec_of(model, scheme, file), built(spec_of(model, scheme, file), tmp_path / f"{said}{scheme}")
                )


@pytest.mark.parametrize("backend", ["ort", "ort-cuda", "ort-openvino", "trt-rtx"])
@pytest.mark.parametrize("scheme", [None, "static"])
def test_the_bytes_of_a_library_are_a_part_of_the_key(
    tmp_path: Path, custom_operators: Path, backend: str, scheme: str | None
) -> None:
    """Where it lies is none; another build of it is another engine."""
    model = dense().write(tmp_path)
    copied = Path(shutil.copyfile(custom_operators, tmp_path / "copied.so"))
    changed = Path(shutil.copyfile(custom_operators, tmp_path / "changed.so"))
    with changed.open("ab") as stream:
        stream.write(b"another build")
    target = {"compute_capability": "SM89"} if backend == "trt-rtx" else {}
    ours = get_backend(backend)
    keys = [
        (ours.ingredients(spec), ours.calibration_ingredients(spec))
        for spec in (
            spec_of(model, scheme, file, backend, **target) for file in (custom_operators, copied, changed, None)
        )
    ]
    assert keys[0] == keys[1]
    for place in (0, 1) if scheme else (0,):
        assert len({str(key[place]) for key in keys}) == 3


def test_a_plugin_is_loaded_where_tensorrt_builds_and_where_it_runs(
    tmp_path: Path, custom_operators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT's builder is a process of its own, which what a conftest loads does not reach."""
    pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx is not installed")
    marks = tmp_path / "loaded by"
    monkeypatch.setenv("LOADED_BY", str(marks))
    mine = Path(shutil.copyfile(custom_operators, tmp_path / "libplugin.so"))
    example = dense()
    spec = spec_of(example.write(tmp_path), None, mine, "trt-rtx", compute_capability="SM89")
    folder = built(spec, tmp_path / "built")
    (builder,) = {int(line) for line in marks.read_text().split()} - {os.getpid()}
    assert builder != os.getpid()
    with get_backend("trt-rtx").open(spec, folder) as engine:
        engine.run(example.feeds(2, 0))
    assert os.getpid() in {int(line) for line in marks.read_text().split()}


def test_an_operator_without_its_plugin_names_the_option(tmp_path: Path, custom_operators: Path) -> None:
    """ONNX Runtime calibrates with the operator of the library; TensorRT's parser wants a plugin, and there is none."""
    pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx is not installed")
    spec = spec_of(doubling_network(tmp_path), "static", custom_operators, "trt-rtx", compute_capability="SM89")
    with pytest.raises(BuildError, match=r"Twice(.|\n)*options=\{'libraries': \['/path/libplugin\.so'\]\}"):
        built(spec, tmp_path / "built")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(BuildError, match="library of the option 'libraries' does not load"):
        built(spec_of(spec.model, "static", text, "trt-rtx", compute_capability="SM89"), tmp_path / "other")
