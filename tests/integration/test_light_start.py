"""A run without a mark loads, prints and writes nothing of ours."""

from __future__ import annotations

import pytest

from pytest_quant.backends import backend_names
from tests.support.example import ROOT
from tests.support.third_party import HIDING

HEAVY = [
    *("numpy", "onnx", "onnxruntime", "sqlalchemy", "scipy", "rich", "click", "torch", "hypothesis", "msgspec"),
    "jinja2",
    *("pytest_quant.spec", "pytest_quant.strategies"),
]
SOURCE = """
import sys

def test_nothing_heavy():
    assert [name for name in {heavy!r} if name in sys.modules] == []

class TestPlain:
    def test_method(self): pass
"""


@pytest.mark.parametrize("ini", ["", "quant_backend = ort\nquant_strict = true\nquant_columns = model\n"])
def test_a_run_without_a_mark_is_as_if_we_were_not_there(pytester: pytest.Pytester, ini: str) -> None:
    """Also in a project that has ini options of ours; hypothesis is left out because it loads numpy by itself."""
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(test_plain=SOURCE.format(heavy=HEAVY))
    args = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    pytester.runpytest_subprocess(*args, "-p", "no:quant").assert_outcomes(passed=2)
    without_us = {path.name for path in pytester.path.iterdir()}
    result = pytester.runpytest_subprocess(*args)
    result.assert_outcomes(passed=2)
    assert "quant" not in "\n".join(line for line in result.outlines if not line.startswith("plugins: "))
    assert {path.name for path in pytester.path.iterdir()} - {"runpytest-1"} == without_us


def test_importing_the_package_loads_nothing(pytester: pytest.Pytester) -> None:
    """Public names are loaded on first use."""
    code = f"import sys, pytest_quant; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = pytester.runpython_c(code)
    result.stdout.fnmatch_lines(["[[][]]"])


ASK_EACH = """
from pytest_quant.backends import backend_names, get_backend
from pytest_quant.testing import conformance
import pytest_quant.testing.conformance.examples
for name in backend_names():
    get_backend(name).availability()
    print(name)
"""
RUNTIMES = ["nncf", "onnxruntime", "openvino", "pycuda", "tensorrt", "tensorrt_rtx", "torch", "torchao"]


def test_every_backend_loads_without_a_runtime(pytester: pytest.Pytester) -> None:
    """It says whether it can run before anything of its runtime is imported; so does the suite for new backends."""
    result = pytester.runpython_c(HIDING.format(hidden=RUNTIMES) + ASK_EACH)
    assert result.outlines == list(backend_names()), result.stderr.str()


def test_backends_are_named_without_their_libraries(pytester: pytest.Pytester) -> None:
    """The other backends of a run are not to pay for one."""
    code = (
        "import sys; from pytest_quant.backends import backend_names, get_backend; "
        "print([get_backend(name) for name in backend_names()], *sys.modules)"
    )
    loaded = pytester.runpython_c(code).stdout.str().split()
    assert [module for module in ["onnx", *RUNTIMES] if module in loaded] == []


def test_a_run_that_compares_nothing_loads_no_comparison(pytester: pytest.Pytester) -> None:
    """Only ``--quant-compare`` needs it."""
    result = pytester.runpython_c("import sys, pytest_quant.plugin.run_end; print(*sys.modules)")
    assert "pytest_quant.history.compare" not in result.stdout.str().split()


def test_without_hypothesis_the_strategies_say_what_to_install(pytester: pytest.Pytester) -> None:
    """Importing them is an ImportError that names the extra."""
    result = pytester.runpython_c("import sys; sys.modules['hypothesis'] = None; import pytest_quant.strategies")
    result.stderr.fnmatch_lines(["ModuleNotFoundError: *run: pip install 'pytest-quant[[]hypothesis[]]'"])


BUILD = """
import sys
from pathlib import Path
from pytest_quant.backends import get_backend
from pytest_quant.spec import EngineSpec, Model
from tests.support.models import select_first

path = select_first(Path("model.onnx"))
get_backend("ort").build(EngineSpec("ort", "int8", "dynamic", Model.from_onnx(path)), None, Path())
print("torch" in sys.modules)
import onnxruntime.tools.symbolic_shape_infer as whole
from onnxruntime.tools import infer_input_info
print(callable(infer_input_info), "torch" in sys.modules, whole.SymbolicShapeInference.__name__)
"""


def test_a_build_for_onnx_runtime_loads_no_pytorch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's tools would load it; imported afterwards by the user, they are whole."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = pytester.runpython_c(BUILD)
    assert result.outlines == ["False", "True True SymbolicShapeInference"]
