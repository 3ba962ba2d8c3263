"""How far one check goes through the package: ``python -m tests.straight_line``.

One check of one test runs in this process, with the backend in numpy of the tests and latency off, while every call of
a function of the package is counted. It fails where there are more of them than `MOST` says.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import pytest_quant
from tests.support.models import select_first
from tests.support.third_party import register_backend

PACKAGE = Path(pytest_quant.__file__).parent
PROJECT = """
import numpy as np
import pytest

from pytest_quant import Dataset


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data():
    inputs = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    return Dataset.from_arrays(inputs, inputs[:, :4].argmax(axis=1), calibration=16)


@pytest.mark.quant(backend="numpy", max_drop=50.0)
def test_it():
    pass
"""
COUNTED = {
    "the mark is read": ("marks/keys.py", "read"),
    "a backend is asked whether it is available": ("", "availability"),
    "a record is encoded": ("record/record.py", "to_json"),
    "a record is decoded": ("record/record.py", "from_json"),
}
"""What is asked of the straight line: a file of the package, or any, and the function in it."""


MOST = {"calls of own functions": 6759, "functions": 1082, "modules": 104}
"""What only falls: who makes it shorter writes the new figures here, and nobody larger ones."""


class Crossings:
    """The calls of the package's own functions: their number, where they lead, and how deep."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.changes = 0
        self._before = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note one call; see `sys.setprofile`."""
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            module = Path(file).relative_to(PACKAGE).as_posix()
            self.calls[module, frame.f_code.co_qualname] += 1
            self.changes += module != self._before
            self._before = module

    def of(self, file: str, function: str) -> int:
        """Return how often a function was called; an empty `file` is any."""
        result = self.calls.items()
        return sum(n for (module, name), n in result if name.rpartition(".")[2] == function and file in ("", module))


def run_one(folder: Path) -> Crossings:
    """Run the project of one check in `folder`. Raises `RuntimeError` when its test does not pass."""
    (folder / "test_it.py").write_text(PROJECT, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    select_first(folder / "model.onnx")
    register_backend(folder, "numpy")
    sys.path.insert(0, str(folder))
    result = Crossings()
    threading.setprofile(result)
    sys.setprofile(result)
    try:
        code = pytest.main(["-q", f"--rootdir={folder}", "--quant-no-latency", "-p", "no:cacheprovider", str(folder)])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if code:
        raise RuntimeError(f"the check ended with {code!r}")
    return result


def main() -> None:
    """Print the figures, a line each, and fail where one of them has grown."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_one(Path(folder))
    lines = {
        "calls of own functions": sum(result.calls.values()),
        "functions": len(result.calls),
        "modules": len({module for module, _ in result.calls}),
        "changes of module": result.changes,
        **{text: result.of(*where) for text, where in COUNTED.items()},
    }
    for text, number in lines.items():
        sys.stdout.write(f"{number:6d}  {text}\n")
    grown = {text: most for text, most in MOST.items() if lines[text] > most}
    if grown:
        sys.exit(f"a check goes further than {grown}")


if __name__ == "__main__":
    main()
