"""Traps of PyTorch and torchao, each with the real ones."""

from __future__ import annotations

import getpass
import logging
import os
import subprocess
import sys
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
from pytest_quant.testing.conformance.examples import conv, dense, module_model, opened, sqnr_db
from tests.support.example import ROOT, environment

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


COMPILE = """
import sys
from pathlib import Path
import torch
from tests.integration.torch_traps.test_torch import TORCH, EngineSpec, Model, batches, build

model = Model.from_torch(torch.nn.Softmax(3), (torch.zeros(2, 1, 8, 8),))
with build(EngineSpec("torch", "fp32", None, model), Path(sys.argv[1])) as engine:
    engine.run({"input": next(batches())["x"]})
"""


def test_what_others_may_have_compiled_is_not_loaded(tmp_path: Path) -> None:
    """PyTorch's own folder is not used where others may write to it, not even for headers: one of ours stands in."""
    (tmp_path / "engine").mkdir()
    usual = tmp_path / f"torchinductor_{getpass.getuser()}"
    usual.mkdir()
    usual.chmod(0o777)
    variables = {name: value for name, value in environment().items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    command = [sys.executable, "-c", COMPILE, str(tmp_path / "engine")]
    subprocess.run(command, env=variables | {"TMPDIR": str(tmp_path)}, check=True, cwd=ROOT)
    assert list(usual.iterdir()) == []
    folder = tmp_path / f"pytest-quant-inductor-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.so"))


def test_a_subclass_is_not_quantized_and_coverage_shows_it(tmp_path: Path) -> None:
    """The quantizer goes by the class: plain convolutions run in INT8, a subclass of theirs does not."""
    feeds = next(batches())
    result = {}
    for kind in (nn.Conv2d, OwnConv):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        with build(static(layers(kind)), folder) as engine:
            result[kind] = engine.coverage(feeds)
    assert result[nn.Conv2d].pct == 100.0
    convolved, multiplied = 6 * 6 * 8 * 9 + 4 * 4 * 8 * 8 * 9, 128 * 10
    assert result[OwnConv].pct == pytest.approx(100 * multiplied / (convolved + multiplied))
    assert result[OwnConv].float_nodes == ("first", "second")


@pytest.mark.parametrize("scheme", ["static", "dynamic"])
def test_a_program_holds_no_weights_that_nothing_reads(scheme: str, tmp_path: Path) -> None:
    """Float weights that torchao leaves beside the int8 ones: a file of 1 million of them has 1 MB and not 5 MB."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10)).eval()
    spec = EngineSpec("torch", "int8", scheme, Model.from_torch(module, (torch.zeros(2, 1000),)))
    name = TORCH.signature(spec.model).inputs[0].name
    feeds = {name: np.random.default_rng(0).normal(size=(8, 1000)).astype(np.float32)}
    exact = module(torch.from_numpy(feeds[name])).detach().numpy()
    with build(spec, tmp_path, lambda: iter([feeds])) as engine:
        assert 1010_000 < engine.size_bytes < 1.2e6
        (result,) = engine.run(feeds).values()
    assert sqnr_db({"y": exact}, {"y": result}) > 20


def test_what_is_not_compiled_is_a_simulation() -> None:
    """It is labelled, runs no INT8 kernel, agrees with the compiled one, and a limit on its speed is refused."""
    example = conv()
    feeds = example.feeds(8, 1)
    eager = static(module_model(example), compiled=False)
    with opened(TORCH, eager, example) as engine, opened(TORCH, static(module_model(example)), example) as compiled:
        assert engine.simulated
        assert not compiled.simulated
        assert any("not compiled" in note for note in engine.notes)
        assert engine.coverage(feeds).pct == 0.0
        assert sqnr_db(compiled.run(feeds), engine.run(feeds)) > 30
    assert isinstance(TORCH.refuses_speed(eager), UsageError)
    assert TORCH.refuses_speed(static(module_model(example))) is None


def test_without_freezing_no_int8_kernel_runs(tmp_path: Path) -> None:
    """Plain torch.compile of the converted program is given no product in integers; our engine freezes it."""
    from pytest_quant.backends.torch.coverage import Sizes, watching

    seen: Counter[Sizes] = Counter()
    model = layers(nn.Conv2d)
    feeds = next(batches())
    with build(static(model), tmp_path) as engine:
        program = torch.export.load(tmp_path / "engine" / "program.pt2").module()
        with torch.no_grad():
            torch.compile(program, dynamic=False, backend=watching(seen))(torch.from_numpy(feeds["x"]))
        assert seen.total() == 0
        assert engine.coverage(feeds).pct == 100.0


def test_every_batch_size_is_right(tmp_path: Path) -> None:
    """With sizes left free Inductor's int8 convolutions are wrong; here each batch equals the float simulation."""
    model = layers(nn.Conv2d)
    folder = tmp_path / "engine"
    with build(static(model), tmp_path) as engine:
        simulation = TORCH.open(static(model, compiled=False), folder)
        for n in (8, 3, 1):
            feeds = {"x": np.random.default_rng(n).normal(size=(n, 1, 8, 8)).astype(np.float32)}
            result = engine.run(feeds)
            assert result["output"].shape == (n, 10)
            assert sqnr_db(simulation.run(feeds), result) > 30, n


def test_dynamic_ranges_of_weights_are_observed() -> None:
    """Converted without one run, all weights would be one level wide and the outputs noise."""
    example = dense()
    feeds = example.feeds(16, 2)
    spec = EngineSpec("torch", "int8", "dynamic", module_model(example))
    with opened(TORCH, spec, example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 25
        assert engine.coverage(feeds).pct == 100.0


def test_bf16_is_not_passed_off_as_fp32() -> None:
    """Its products are counted by the type that they multiply, and its outputs come back as float32."""
    example = dense()
    feeds = example.feeds(4, 3)
    with opened(TORCH, EngineSpec("torch", "bf16", None, module_model(example)), example) as engine:
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
    with opened(TORCH, static(module_model(example)), example) as engine:
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
        for batch_size in (2, 3, 4, 5):
            feeds = example.feeds(batch_size, 0)
            with TORCH.open(spec, tmp_path) as engine:
                assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 100


def test_warnings_of_torch_are_not_of_the_users_run(pytester: pytest.Pytester) -> None:
    """What PyTorch says while it is loaded, compiles and is read back, fails no run where warnings are errors."""
    pytester.makepyfile(
        """
        import numpy as np
        import pytest
        import torch

        from pytest_quant import Dataset, Model

        NET = Model.from_torch(torch.nn.Linear(16, 4), (torch.zeros(2, 16),), name="net")
        ROWS = Dataset.from_arrays(np.random.default_rng(0).normal(size=(40, 16)).astype("f4"), calibration=10)


        @pytest.mark.quant(model=NET, data=ROWS, backend="torch", scheme="weight-only", min_sqnr_db=20)
        def test_int8():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-W", "error", "--quant-no-latency", "--quant-no-history")
    result.assert_outcomes(passed=1)
