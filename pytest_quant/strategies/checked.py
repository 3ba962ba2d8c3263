"""Properties over many drawn inputs, in one call and with settings that fit engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import hypothesis
from hypothesis import HealthCheck
from hypothesis import strategies as st

from pytest_quant.backends import Engine, Feeds
from pytest_quant.strategies.inputs import inputs
from pytest_quant.strategies.properties import batch_invariant, deterministic, finite

settings = hypothesis.settings(
    deadline=None,
    suppress_health_check=(
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ),
)
"""For tests of engines with ``@given``: the first run of an engine is slow, so that there is no deadline; the fixtures
`quant_engine` and `quant_reference` hold no state that one example could leave to the next; inputs are large."""


class Property(Protocol):
    """What must hold for one batch, such as `finite`."""

    def __call__(self, engine: Engine, reference: Engine, feeds: Feeds) -> None:
        """Raise `AssertionError` where it does not hold."""


def check(
    engine: Engine,
    reference: Engine,
    data: object | None = None,
    *,
    properties: Sequence[Property] = (finite, deterministic, batch_invariant),
    max_examples: int = 50,
) -> None:
    """Look for a batch on which one of `properties` does not hold, and shrink it.

    The same batches are drawn each time, so that a test that passed fails only when something changed.

    Parameters
    ----------
    data : what to draw around, see `inputs`; or a strategy such as ``inputs(engine, data, scale=2)``; or
        ``None`` for inputs out of the signature alone.
    max_examples : batches to draw.

    Raises
    ------
    AssertionError : the property's message for the smallest such batch that was found.
    """
    feeds = data if isinstance(data, st.SearchStrategy) else inputs(reference, data)

    @hypothesis.settings(settings, max_examples=max_examples, derandomize=True, report_multiple_bugs=False)
    @hypothesis.given(feeds)
    def every_batch(drawn: Feeds) -> None:
        for holds in properties:
            holds(engine, reference, drawn)

    every_batch()
