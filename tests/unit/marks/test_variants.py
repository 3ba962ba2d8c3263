"""Lists name engines: each once, with a readable id."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import UsageError
from pytest_quant.marks.variants import Offer, combine, variants

OFFERS: dict[str, Offer] = {
    "ort": {"fp32": (None,), "int8": ("static", "dynamic", "qat"), "int4": ("weight-only",)},
    "trt": {"fp32": (None,), "fp16": (None,), "int8": ("static", "qat"), "fp8": ("static",)},
}


def _ids(**keys: object) -> list[str]:
    asked = combine([pytest.mark.quant(**keys).mark], backends=tuple(OFFERS))
    return [variant.id for variant in variants(asked, "ort", OFFERS.__getitem__)]


def test_combinations_that_name_one_engine_collapse() -> None:
    """A scheme says nothing about fp32, so the ladder has three steps."""
    ids = _ids(precision=["fp32", "int8"], scheme=["static", "dynamic"])
    assert ids == ["ort-fp32", "ort-int8-static", "ort-int8-dynamic"]


def test_batch_sizes_are_in_the_id_only_when_they_are_listed() -> None:
    """``b8`` tells variants apart; a single batch size tells nothing apart."""
    assert _ids(batch_size=8) == ["ort-int8-static"]
    assert _ids(batch_size=[1, 8]) == ["ort-int8-static-b1", "ort-int8-static-b8"]


def test_without_keys_it_is_the_default_backend_at_int8_static() -> None:
    """The defaults are ort, int8 and static."""
    assert _ids() == ["ort-int8-static"]


def test_an_unwritten_scheme_is_the_one_the_backend_offers() -> None:
    """Int4 has no static scheme there, so nobody needs to write weight-only."""
    assert _ids(precision=["int8", "int4"]) == ["ort-int8-static", "ort-int4-weight-only"]


def test_quantized_makes_the_scheme_qat() -> None:
    """A model that is already quantized is not quantized again; fp32 stays what it is."""
    assert _ids(quantized="q.onnx", precision=["fp32", "int8"]) == ["ort-fp32", "ort-int8-qat"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scheme": "weight-only"}, "does not offer int8 with the scheme 'weight-only'"),
        ({"precision": "int4", "scheme": "static"}, "does not offer int4 with the scheme 'static'"),
        ({"backend": ["ort", "trt"], "scheme": "dynamic"}, "'trt' does not offer int8 with the scheme 'dynamic'"),
        ({"precision": "bf16"}, "'ort' does not offer 'bf16'"),
        ({"scheme": "qat"}, "needs the model that is already quantized"),
        ({"quantized": "q.onnx", "scheme": "static"}, "its scheme is qat"),
        ({"quantized": "q.onnx", "precision": "fp32"}, "needs a quantized precision"),
    ],
)
def test_what_cannot_be_built_is_refused(keys: dict[str, object], message: str) -> None:
    """Contradictions and what a backend does not offer are usage errors."""
    with pytest.raises(UsageError, match=message):
        _ids(**keys)


@given(
    st.lists(st.sampled_from(["fp32", "int8"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["static", "dynamic"]), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_every_engine_comes_once(precisions: list[str], schemes: list[str], sizes: list[int]) -> None:
    """The ids are the set of all combinations, with the scheme left out where it says nothing."""
    ids = _ids(precision=precisions, scheme=schemes, batch_size=sizes)
    engines = {f"ort-{p}" if p == "fp32" else f"ort-{p}-{s}" for p, s in product(precisions, schemes)}
    assert len(ids) == len(set(ids))
    assert set(ids) == {f"{engine}-b{size}" for engine, size in product(engines, sizes)}
