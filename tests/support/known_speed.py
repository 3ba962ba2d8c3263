"""A plugin for runs in which time passes by the runs of ONNX Runtime's engines alone, each of them a millisecond.

What reads the latencies that such runs leave finds the factors that were planted in them, however busy the machine is.
Nothing is run while it is timed, so that timing takes no time either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.measure import engine_trio
from tests.unit.measure.simulated import SimulatedTime

PLUGIN = "tests.support.known_speed"
RUN_MS, NOISE = 1.0, 0.01
_SEEDS = count()


@pytest.fixture(scope="session", autouse=True)
def known_speed() -> Iterator[None]:
    """Replace the stopwatch, and what it times, until the run ends; two runs have different noise."""
    time = SimulatedTime(next(_SEEDS), noise=NOISE)
    prepare = OrtEngine.prepare

    def prepared(engine: OrtEngine, feeds: Feeds) -> Callable[[], object]:
        prepare(engine, feeds)
        return time.engine(RUN_MS)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrtEngine, "prepare", prepared)
        patch.setattr(engine_trio, "measure", time.measure_calls)
        yield
