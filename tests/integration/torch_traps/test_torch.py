"""Traps of PyTorch and torchao, each with the real ones."""

from __future__ import annotations

import getpass
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, dense, module_model, open_example, sqnr_db

TORCH = get_backend("torch")


class OwnConv(nn.Conv2d):
    """A subclass that changes nothing."""


class Layers(nn.Module):
    """Two convolutions of the class `kind`, and a dense layer."""

    def __init__(self, kind: type[nn.Conv2d]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = kind(1, 8, 3), kind(8, 8, 3)
        self.dense = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, 1, 8, 8) to (n, 10)."""
        logits: Tensor = self.dense(torch.relu(self.second(torch.relu(self.first(x)))).flatten(1))
        return logits


def static(model: Model, **options: object) -> EngineSpec:
    """The spec of static quantization."""
    return EngineSpec("torch", "int8", "static", model, options=tuple(sorted(options.items())))


def layers(kind: type[nn.Conv2d]) -> Model:
    """The network of that class."""
    return Model.from_torch(Layers(kind), (torch.zeros(2, 1, 8, 8),))


def batches() -> Iterator[Feeds]:
    """Samples to calibrate with."""
    for seed in range(4):
        yield {"x": np.random.default_rng(seed).normal(size=(4, 1, 8, 8)).astype(np.float32)}


def build(spec: EngineSpec, folder: Path, samples: Callable[[], Iterator[Feeds]] = batches) -> Engine:
    """Calibrate where that is asked for, build and open."""
    ranges, engine = folder / "ranges", folder / "engine"
    ranges.mkdir()
    engine.mkdir()
    if spec.scheme == "static":
        TORCH.calibrate(spec, samples, ranges)
    TORCH.build(spec, ranges if spec.scheme == "static" else None, engine)
    return TORCH.open(spec, engine)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a static engine of plain convolutions, which nobody may write to."""
    folder = tmp_path_factory.mktemp("convolutions")
    build(static(layers(nn.Conv2d)), folder).close()
    return folder / "engine"


@pytest.fixture(scope="module")
def compiled(folder: Path) -> Iterator[Engine]:
    """That engine, which compiles one version for each batch size that it runs."""
    with TORCH.open(static(layers(nn.Conv2d)), folder) as engine:
        yield engine


def test_a_subclass_is_not_quantized_and_coverage_shows_it(compiled: Engine, tmp_path: Path) -> None:
    """The quantizer goes by the class: plain convolutions run in INT8, a subclass of theirs does not."""
    feeds = next(batches())
    assert compiled.coverage(feeds).pct == 100.0
    with build(static(layers(OwnConv)), tmp_path) as engine:
        coverage = engine.coverage(feeds)
    convolved, multiplied = 6 * 6 * 8 * 9 + 4 * 4 * 8 * 8 * 9, 128 * 10
    assert coverage.pct == pytest.approx(100 * multiplied / (convolved + multiplied))
    assert coverage.float_nodes == ("first", "second")


@pytest.mark.parametrize("scheme", ["static", "dynamic"])
def test_a_program_holds_no_weights_that_nothing_reads(scheme: str, tmp_path: Path) -> None:
    """Float weights that torchao leaves beside the int8 ones: a file of 1 million of them has 1 MB and not 5 MB.

    The file is the same for an engine that is not compiled, which takes no seconds.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10)).eval()
    model = Model.from_torch(module, (torch.zeros(2, 1000),))
    spec = EngineSpec("torch", "int8", scheme, model, options=(("compiled", False),))
    name = TORCH.signature(spec.model).inputs[0].name
    feeds = {name: np.random.default_rng(0).normal(size=(8, 1000)).astype(np.float32)}
    exact = module(torch.from_numpy(feeds[name])).detach().numpy()
    with build(spec, tmp_path, lambda: iter([feeds])) as engine:
        assert 1010_000 < engine.size_bytes < 1.2e6
        (result,) = engine.run(feeds).values()
    assert sqnr_db({"y": exact}, {"y": result}) > 20


def test_what_is_not_compiled_is_a_simulation(folder: Path, compiled: Engine) -> None:
    """It is labelled, runs no INT8 kernel, and a limit on its speed is refused."""
    eager = static(layers(nn.Conv2d), compiled=False)
    with TORCH.open(eager, folder) as engine:
        assert engine.simulated
        assert any("not compiled" in note for note in engine.notes)
        assert engine.coverage(next(batches())).pct == 0.0
    assert not compiled.simulated
    assert isinstance(TORCH.refuses_speed(eager), UsageError)
    assert TORCH.refuses_speed(static(layers(nn.Conv2d))) is None


def test_without_freezing_no_int8_kernel_runs(folder: Path, compiled: Engine) -> None:
    """Plain torch.compile of the converted program is given no product in integers; our engine freezes it."""
    from pytest_quant.backends.torch.coverage import Sizes, watch_backend

    seen: Counter[Sizes] = Counter()
    feeds = next(batches())
    program = torch.export.load(folder / "program.pt2").module()
    with torch.no_grad():
        torch.compile(program, dynamic=False, backend=watch_backend(seen))(torch.from_numpy(feeds["x"]))
    assert seen.total() == 0
    assert compiled.coverage(feeds).pct == 100.0


def test_every_batch_size_is_right(folder: Path, compiled: Engine) -> None:
    """With sizes left free Inductor's int8 convolutions are wrong; here each batch equals the float simulation."""
    simulation = TORCH.open(static(layers(nn.Conv2d), compiled=False), folder)
    for n in (8, 3, 1):
        feeds = {"x": np.random.default_rng(n).normal(size=(n, 1, 8, 8)).astype(np.float32)}
        result = compiled.run(feeds)
        assert result["output"].shape == (n, 10)
        assert sqnr_db(simulation.run(feeds), result) > 30, n


def test_dynamic_ranges_of_weights_are_observed() -> None:
    """Converted without one run, all weights would be one level wide and the outputs noise."""
    example = dense()
    feeds = example.feeds(16, 2)
    spec = EngineSpec("torch", "int8", "dynamic", module_model(example))
    with open_example(TORCH, spec, example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 25
        assert engine.coverage(feeds).pct == 100.0


def test_bf16_is_not_passed_off_as_fp32() -> None:
    """Its products are counted by the type that they multiply, and its outputs come back as float32."""
    example = dense()
    feeds = example.feeds(4, 3)
    with open_example(TORCH, EngineSpec("torch", "bf16", None, module_model(example)), example) as engine:
        result = engine.run(feeds)
        assert result["y"].dtype == np.float32
        assert 20 < sqnr_db(example.compute(feeds), result) < 60
        assert engine.coverage(feeds).pct == 100.0


def test_nothing_is_printed_and_logging_stays_as_it_was(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """torchao, the tracer, the compiler and the profiler all like to talk; pytest captures the compiler's trace too."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.__trace")]
    before = [logger.level for logger in loggers]
    example = conv()
    with open_example(TORCH, static(module_model(example)), example) as engine:
        engine.coverage(example.feeds(2, 0))
        torch.compiler.reset()  # so that the next run compiles, as it does after other engines were compiled
        engine.run(example.feeds(2, 0))
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name == "torch.__trace"] == []
    assert [logger.level for logger in loggers] == before


def test_many_engines_in_one_process(tmp_path: Path) -> None:
    """Each compiles code of its own: a limit of Dynamo's on versions of one function, here of two, is never met."""
    example = dense()
    spec = EngineSpec("torch", "fp32", None, module_model(example))
    TORCH.build(spec, None, tmp_path)
    with torch._dynamo.config.patch(recompile_limit=2):
        for batch_size in (2, 3, 4):
            feeds = example.feeds(batch_size, 0)
            with TORCH.open(spec, tmp_path) as engine:
                assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 100


def test_a_run_in_a_folder_of_temporary_files_that_others_write_to(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others may have compiled is not loaded, and what PyTorch warns of fails no run where warnings are errors.

    PyTorch's own folder is not used where others may write to it, not even for headers: one of ours stands in. It warns
    while it is loaded, compiles and is read back.
    """
    pytester.makepyfile(
        """
        import numpy as np
        import pytest
        import torch

        from pytest_quant import Dataset, Model

        NET = Model.from_torch(
            torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.Softmax(1)), (torch.zeros(2, 16),), name="net"
        )
        ROWS = Dataset.from_arrays(np.random.default_rng(0).normal(size=(40, 16)).astype("f4"), calibration=10)


        @pytest.mark.quant(model=NET, data=ROWS, backend="torch", scheme="weight-only", min_sqnr_db=20)
        def test_int8():
            pass
        """
    )
    temporary = pytester.mkdir("tmp")
    usual = temporary / f"torchinductor_{getpass.getuser()}"
    usual.mkdir()
    usual.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    result = pytester.runpytest_subprocess("-W", "error", "--quant-no-latency", "--quant-no-history")
    result.assert_outcomes(passed=1)
    assert list(usual.iterdir()) == []
    folder = temporary / f"pytest-quant-inductor-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.so"))
