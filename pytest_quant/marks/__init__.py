"""From ``@pytest.mark.quant(...)`` to a check: keys, their values, several marks as one, lists, defaults."""

from pytest_quant.marks.asked import Asked, ModelSource, read
from pytest_quant.marks.check import Measuring, build_check, engine_specs
from pytest_quant.marks.combine import closest_first, combine
from pytest_quant.marks.names import series_nodeid
from pytest_quant.marks.variants import Offer, Variant, variants

__all__ = [
    "Asked",
    "Measuring",
    "ModelSource",
    "Offer",
    "Variant",
    "build_check",
    "closest_first",
    "combine",
    "engine_specs",
    "read",
    "series_nodeid",
    "variants",
]
