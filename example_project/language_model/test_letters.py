"""A model that is a function: perplexity with 4-bit weights, and the time to the first token and per token."""

from __future__ import annotations

import pytest
from letters import Letters, lines_of_test, prompts, train

from pytest_quant import Dataset, Model


@pytest.fixture(scope="module")
def trained() -> Letters:
    return train()


@pytest.fixture(scope="module")
def letters(trained: Letters) -> Model:
    return trained.as_function()


@pytest.fixture(scope="module")
def letters_int4(trained: Letters) -> Model:
    return trained.rounded(4).as_function()


@pytest.fixture(scope="module")
def letters_int2(trained: Letters) -> Model:
    return trained.rounded(2).as_function()


@pytest.fixture(scope="module")
def text() -> Dataset:
    return lines_of_test()


@pytest.fixture(scope="module")
def stream(trained: Letters) -> Model:
    return trained.as_function(streams=True)


@pytest.fixture(scope="module")
def stream_int4(trained: Letters) -> Model:
    return trained.rounded(4).as_function(streams=True)


@pytest.fixture(scope="module")
def questions() -> Dataset:
    return prompts()


@pytest.mark.quant(
    backend="callable", model="letters", quantized="letters_int4", data="text", metric="perplexity", min_ratio=0.95
)
def test_int4_perplexity() -> None:
    """A lower perplexity is better, so that a ratio of 0.95 allows a twentieth more."""


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception, reason="2 bits are too few: the perplexity is far higher")
@pytest.mark.quant(
    backend="callable", model="letters", quantized="letters_int2", data="text", metric="perplexity", min_ratio=0.95
)
def test_int2_perplexity() -> None:
    """Must be caught."""


@pytest.mark.quant(
    backend="callable", model="stream", quantized="stream_int4", data="questions", max_ttft_ms=50, max_tpot_ms=5
)
def test_int4_answers_in_time() -> None:
    """The time to the first token, and that of each after it, which a reader waits for."""
