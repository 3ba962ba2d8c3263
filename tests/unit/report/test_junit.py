"""The figures of a check as properties of its test case."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.junit import junit_properties
from tests.unit.record.examples import ACCURACY, a_pass, a_record, unavailable
from tests.unit.record.strategies import records


def test_properties_are_the_figures_of_the_record() -> None:
    """Full precision, named `quant.*`; what was not measured is left out."""
    properties = dict(junit_properties(a_record(accuracy=replace(ACCURACY, simulated=True))))
    assert properties["quant.status"] == "FAIL"
    assert properties["quant.drop"] == 4.23
    assert (properties["quant.speedup_ci_low"], properties["quant.speedup_ci_high"]) == (1.9012, 1.9888)
    assert properties["quant.cache_engine"] == "built"
    assert properties["quant.simulated"] == "true"
    assert "quant.candidate_p99_ms" not in properties
    assert "quant.simulated" not in dict(junit_properties(a_pass()))


def test_a_check_that_never_came_to_be_has_no_figures() -> None:
    """Its status and what it is."""
    names = {name for name, _ in junit_properties(unavailable())}
    assert names == {f"quant.{name}" for name in ("status", "model", "backend", "precision", "scheme", "batch_size")}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(records.map(lambda record: from_json(to_json(record))))
def test_properties_have_plain_types(record: Record) -> None:
    """They travel with xdist and end up in XML."""
    properties = junit_properties(record)
    assert all(name.startswith("quant.") and type(value) in (str, int, float) for name, value in properties)
    assert len({name for name, _ in properties}) == len(properties) or record.cache is not None
