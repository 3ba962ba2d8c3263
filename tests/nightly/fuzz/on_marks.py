"""Arguments of the mark, read key by key."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from pytest_quant import Metric
from pytest_quant.marks.expansion import check_backends, checks_of, combine
from pytest_quant.marks.keys import KEYS
from pytest_quant.spec import Calibration, Dataset, Model
from tests.nightly.fuzz import odd
from tests.nightly.fuzz.target import Target

_WORDS = (
    *("ort", "openvino", "torch", "trt", "fp32", "fp16", "int8", "int4", "fp8", "static", "dynamic", "weight-only"),
    *(
        "given",
        "qat",
        "minmax",
        "entropy",
        "percentile",
        "top1",
        "top5",
        "mae",
        "f1",
        "cosine",
        "model.onnx",
        "quant_model",
    ),
)
_OPTIONS = ("threads", "op_types", "per_channel", "extra", "block_size", "preset", "shapes", "accuracy_level", "method")

literals = st.one_of(
    st.none(), odd.numbers, odd.texts, st.sampled_from(_WORDS), st.binary(max_size=4), st.complex_numbers()
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


objects = st.one_of(
    st.recursive(literals, _inside, max_leaves=5),
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


_keys = st.sampled_from([*KEYS, *KEYS, "bakend", "max_dorp", "x\x1b[m"])
_marks = st.builds(
    lambda args, kwargs: pytest.Mark("quant", args, kwargs, _ispytest=True),
    st.one_of(st.just(()), st.just(()), st.lists(objects, max_size=1).map(tuple)),
    st.dictionaries(_keys, st.one_of(objects, st.sampled_from(_WORDS), st.floats(0, 100)), max_size=4),
)


def read(case: tuple[list[Any], list[Any]]) -> None:
    """Read the marks of a test, the closest first, and that of its ``pytest.param``; make the checks they ask for."""
    for check in checks_of(combine(*case), "ort"):
        check_backends(check)


READ = Target(st.tuples(st.lists(_marks, min_size=1, max_size=2), st.lists(_marks, max_size=1)), read, examples=1500)
