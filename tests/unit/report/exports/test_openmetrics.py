"""The text for Prometheus, read by the parsers of its own client for both formats, and by promtool where it is here."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from pytest_quant.printable import clean
from pytest_quant.record import Record, Run
from pytest_quant.report.exports.openmetrics import PREFIX, openmetrics
from pytest_quant.result import Status
from tests.unit.record.examples import NODEID, RUN, a_pass, a_record, unavailable
from tests.unit.record.strategies import runs
from tests.unit.report.exports.kept import suites

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

OF_CHECK = {"test": NODEID, "model": "digits", "backend": "ort", "precision": "int8", "scheme": "static"}
BASE_UNITS = ("seconds", "bytes", "ratio", "decibels", "joules")


def samples_of(text: str) -> Samples:
    """Return each value by its name and labels, as the parser of OpenMetrics reads the text; none is there twice."""
    found: Samples = {}
    for family in read_openmetrics(text):
        assert family.type == "gauge"
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    """Return the one value of a gauge whose labels contain these."""
    (one,) = [
        figure for (known, own), figure in found.items() if known == PREFIX + name and own >= frozenset(labels.items())
    ]
    return one


def test_figures_are_in_base_units() -> None:
    """Seconds, bytes, joules and ratios, as the names end; scores stay in the unit of their metric."""
    found = samples_of(openmetrics(RUN, [a_record()]))
    assert value(found, "candidate_latency_seconds", percentile="50") == pytest.approx(0.2345e-3, rel=1e-12)
    assert value(found, "candidate_latency_lower_seconds", percentile="50") == pytest.approx(0.2301e-3, rel=1e-12)
    assert value(found, "candidate_latency_upper_seconds", percentile="50") == pytest.approx(0.2389e-3, rel=1e-12)
    assert value(found, "reference_latency_seconds") == pytest.approx(0.4567e-3, rel=1e-12)
    assert value(found, "speedup_ratio") == 1.9475
    assert (value(found, "speedup_lower_ratio"), value(found, "speedup_upper_ratio")) == (1.9012, 1.9888)
    assert value(found, "candidate_score", metric="top1", unit="%") == 93.55
    assert value(found, "drop") == 4.23
    assert value(found, "agreement_ratio") == pytest.approx(0.9483, rel=1e-12)
    assert value(found, "coverage_ratio") == 0.875
    assert value(found, "candidate_size_bytes") == pytest.approx(45_600, rel=1e-12)
    assert value(found, "peak_memory_bytes") == 12_500_000
    assert value(found, "build_seconds") == 1.25
    assert value(found, "samples") == 1797
    assert value(found, "run_timestamp_seconds") == datetime.fromisoformat(RUN.started_at).timestamp()


def test_a_check_is_told_by_its_labels() -> None:
    """Test, model, backend, precision and scheme; of its six statuses one is 1."""
    found = samples_of(openmetrics(RUN, [a_record()]))
    told = {status: value(found, "check_status", status=status.value, **OF_CHECK) for status in Status}
    assert told == {status: float(status is Status.FAIL) for status in Status}


def test_what_was_not_measured_has_no_line() -> None:
    """A check that never came to be has its status only, and a run without checks its time."""
    found = samples_of(openmetrics(RUN, [unavailable()]))
    assert {name for name, _ in found} == {f"{PREFIX}check_status", f"{PREFIX}run_timestamp_seconds"}
    assert {name for name, _ in samples_of(openmetrics(RUN, []))} == {f"{PREFIX}run_timestamp_seconds"}


def test_a_time_that_is_none_is_left_out() -> None:
    """A history may hold the run of another program; its checks are told all the same."""
    found = samples_of(openmetrics(replace(RUN, started_at="yesterday"), [a_record()]))
    assert f"{PREFIX}run_timestamp_seconds" not in {name for name, _ in found}
    assert value(found, "drop") == 4.23


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\\nb", "{a=b}", "a,b", "ends in \\", "ü", "# EOF"])
def test_a_label_is_read_back_as_it_was(text: str) -> None:
    """Whatever is printable in it."""
    found = samples_of(openmetrics(RUN, [replace(a_record(), nodeid=text)]))
    assert {dict(labels)["test"] for name, labels in found if name != f"{PREFIX}run_timestamp_seconds"} == {text}


def test_lines_and_escapes_in_a_label_are_shown() -> None:
    """A name of two lines cannot add a gauge of its own, or end the file."""
    nasty = 'x"} 1\n# EOF\npytest_quant_check_status{test="\x1b[31m'
    found = samples_of(openmetrics(RUN, [replace(a_record(), nodeid=nasty)]))
    assert {dict(labels)["test"] for name, labels in found if name == f"{PREFIX}drop"} == {clean(nasty)}


def test_no_series_is_there_twice() -> None:
    """Of records with the same labels the last one counts; another batch size is another series."""
    found = samples_of(openmetrics(RUN, [a_record(), a_pass(), replace(a_record(), batch_size=8)]))
    assert value(found, "drop", batch_size="1") == 0.28
    assert value(found, "drop", batch_size="8") == 4.23


def rules_broken(text: str) -> Iterator[str]:
    """Yield what ``promtool check metrics`` would complain about, and what node_exporter refuses."""
    lines = text.splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    if helped != typed or len(set(typed)) != len(typed):
        yield "each gauge has its help and its type once, one after the other"
    for line in (line for line in lines if line.startswith("# UNIT")):
        _, _, name, unit = line.split()
        if not name.endswith(f"_{unit}") or unit not in BASE_UNITS:
            yield f"{name} does not end in a base unit"
    for name in typed:
        if not re.fullmatch(r"pytest_quant_[a-z0-9]+(_[a-z0-9]+)*", name):
            yield f"{name} is no snake case with our prefix"
        if re.search(r"_(total|count|sum|bucket|info|created|gauge|ms|mb|pct|percent|s)$", name):
            yield f"{name} ends in what another type or no base unit ends in"
    for line in (line for line in lines if not line.startswith("#")):
        if "quantile=" in line or re.search(r"} \S+ \S", line):
            yield f"a label of summaries, or a timestamp: {line}"
    if lines[-1] != "# EOF" or not text.endswith("\n"):
        yield "the last line is # EOF"


def test_names_follow_the_rules() -> None:
    """For a check with every figure, one with none, and none at all."""
    for suite in ([a_record(), unavailable()], [unavailable()], []):
        assert list(rules_broken(openmetrics(RUN, suite))) == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed; apt-get install prometheus")
def test_promtool_finds_nothing() -> None:
    """Neither an error nor a piece of advice."""
    text = openmetrics(RUN, [a_record(), unavailable()])
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@settings(max_examples=30)
@given(runs, suites)
def test_any_run_is_read_by_both_parsers(run: Run, suite: list[Record]) -> None:
    """The same series and values, and the figures of the records in the units that the names end in."""
    text = openmetrics(run, suite)
    found = samples_of(text)
    older: Samples = {}
    for family in read_prometheus(text):
        assert family.type == "gauge"
        older |= {(one.name, frozenset(one.labels.items())): one.value for one in family.samples}
    assert older == found
    assert list(rules_broken(text)) == []
    for record in suite:
        own = {
            name: clean(getattr(record, name)) for name in ("model", "backend", "precision") if getattr(record, name)
        }
        own |= {"batch_size": str(record.batch_size)} | ({"test": clean(record.nodeid)} if record.nodeid else {})
        if record.latency is not None and record.latency.speedup is not None:
            assert record.latency.speedup in _values(found, "speedup_ratio", own)
        if record.accuracy is not None and record.accuracy.drop is not None:
            assert record.accuracy.drop in _values(found, "drop", own)
        if record.latency is not None and record.latency.candidate_p50_ms is not None:
            assert record.latency.candidate_p50_ms / 1000 in _values(found, "candidate_latency_seconds", own)


def _values(found: Samples, name: str, labels: dict[str, str]) -> list[float]:
    return [one for (known, own), one in found.items() if known == PREFIX + name and own >= frozenset(labels.items())]
