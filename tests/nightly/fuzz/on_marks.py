"""Arguments of the mark: read key by key, and collected by pytest from a test file."""

from __future__ import annotations

import contextlib
import io
import os
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from pytest_quant import Metric
from pytest_quant.marks.check import check_backends, checks_of, combine
from pytest_quant.marks.keys import KEYS
from pytest_quant.spec import Calibration, Dataset, Model
from tests.nightly.fuzz import odd
from tests.nightly.fuzz.target import Target, check_message, meet_apart

_WORDS = (
    *("ort", "openvino", "torch", "trt", "fp32", "fp16", "int8", "int4", "fp8", "static", "dynamic", "weight-only"),
    *("qat", "minmax", "entropy", "percentile", "top1", "top5", "mae", "f1", "cosine", "model.onnx", "quant_model"),
)
_OPTIONS = ("threads", "op_types", "per_channel", "extra", "block_size", "preset", "shapes", "accuracy_level", "method")

literals = st.one_of(
    st.none(),
    st.booleans(),
    odd.numbers,
    odd.texts,
    st.sampled_from(_WORDS),
    st.binary(max_size=4),
    st.complex_numbers(max_magnitude=2),
)
"""What a test file can spell without a name."""


def _inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.one_of(odd.texts, st.sampled_from((*_OPTIONS, *_WORDS, "samples", "axis", "output0", 50, 99.9)))
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(names, inner, max_size=3),
        st.frozensets(st.one_of(st.booleans(), odd.texts, st.integers(-2, 2)), max_size=3),
    )


written = st.recursive(literals, _inside, max_leaves=5)

objects = st.one_of(
    written,
    st.sampled_from(
        (
            np.float32(1.5),
            np.bool_(True),
            np.arange(3),
            np.array(["ort", "trt"]),
            np.datetime64("NaT"),
            Decimal("sNaN"),
            Decimal("1e999999"),
            Fraction(10**400),
            print,
            object(),
            Path("\x1b[31m.onnx"),
            Model("m"),
            Dataset.from_arrays(np.zeros((2, 2))),
            Calibration(method="\x1b", percentile=float("nan"), samples=-1),
            Metric(np.dot, better="higher"),
        )
    ),
)
"""What a test file can compute too."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of one test, the closest first, and those of its ``pytest.param``."""

    own: tuple[Any, ...]
    of_parameter: tuple[Any, ...]


def _marks(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(
        st.sampled_from([*KEYS]), st.sampled_from([*KEYS]), st.sampled_from(("bakend", "max_dorp", "x\x1b[m"))
    )
    named = st.dictionaries(keys, st.one_of(values, st.sampled_from(_WORDS), st.floats(0, 100)), max_size=4)
    positional = st.one_of(st.just(()), st.just(()), st.lists(values, max_size=1).map(tuple))
    return st.builds(lambda args, kwargs: pytest.Mark("quant", args, kwargs, _ispytest=True), positional, named)


def read(case: Marks) -> None:
    """Read the marks as collection does, and make the check that they ask for."""
    keys = combine(case.own, case.of_parameter)
    for check in checks_of(keys, "ort"):
        check_backends(check)


def collect(case: Any, folder: Path) -> None:
    """Let pytest collect a test with this mark; an error is told without a traceback and without control characters."""
    arguments = [*map(ascii, case.args), f"**{dict(case.kwargs)!a}"]
    (folder / "test_fuzz.py").write_text(_TEST.format(arguments=", ".join(arguments)), "utf-8")
    printed = io.StringIO()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = pytest.main([*_OPTIONS_OF_PYTEST, "--rootdir", str(folder), str(folder)])
    text = printed.getvalue()
    if code not in (0, 2) or _FRAME.search(text):
        raise AssertionError(f"pytest ended with {code}:\n{text}")
    check_message(text)


_OPTIONS_OF_PYTEST = ("--collect-only", "-q", "-p", "pytest_benchmark.plugin", "-p", "pytest_quant.plugin")

_FRAME = re.compile(r"^\S+\.py:\d+: (in \w+)?$|^INTERNALERROR>|^Traceback", re.MULTILINE)
"""How pytest shows where an exception came from."""

_TEST = """
import pytest
nan, inf = float("nan"), float("inf")

@pytest.mark.quant({arguments})
def test_fuzz(quant): ...
"""


READ = Target(
    st.builds(
        Marks,
        st.lists(_marks(objects), min_size=1, max_size=2).map(tuple),
        st.one_of(st.just(()), st.lists(_marks(objects), max_size=1).map(tuple)),
    ),
    read,
    examples=1500,
)
COLLECT = Target(_marks(written), lambda case: meet_apart(collect, case), examples=60)
