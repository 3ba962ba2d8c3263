"""One marked test: its check is measured and judged in set-up, and its verdict is pronounced after its body."""

from __future__ import annotations

import pytest

from pytest_quant.benchmark_bridge import is_active, samples_of
from pytest_quant.collection import PLANNED, Planned, prepare
from pytest_quant.console import width_of
from pytest_quant.errors import BackendUnavailable, QuantError, UsageError
from pytest_quant.lookup import find_data, find_model, model_of
from pytest_quant.marks import Measuring, build_check
from pytest_quant.marks.preview import named_only
from pytest_quant.record import Json, Record, to_json
from pytest_quant.report import failure, headline, junit_properties
from pytest_quant.result import Status
from pytest_quant.running import session_of
from pytest_quant.session import Measurement
from pytest_quant.settings import settings_of
from pytest_quant.simulating import simulate_check
from pytest_quant.spec import Check, Dataset, Model
from pytest_quant.warning import InconclusiveWarning

CHECK = pytest.StashKey[Check]()
RECORD = pytest.StashKey[Record]()
SAMPLES = pytest.StashKey[dict[str, list[int]]]()
"""Nanoseconds of every timed run by engine, for pytest-benchmark."""
FAILURE = pytest.StashKey[str]()
"""The text that the test failed with because of its verdict."""
ABSENT = pytest.StashKey[BackendUnavailable]()
"""The error of a required backend that is not here; the test fails with it in place of its body."""


def short_message(item: pytest.Item, error: BaseException | None) -> str:
    """Return the broken limit with both figures, for a line of pytest's short summary.

    Empty where `error` is not the verdict's, and where no limit can be told so.
    """
    if not isinstance(error, pytest.fail.Exception) or error.msg != item.stash.get(FAILURE, None):
        return ""
    return headline(item.stash[RECORD])


def check_test(request: pytest.FixtureRequest) -> Measurement | None:
    """Measure and judge the check of the requesting test, and keep its record.

    Raises
    ------
    UsageError : the test is not marked.
    QuantError : the check cannot be; the record of that is made when pytest reports the error.
    """
    item: pytest.Item = request.node
    planned = item.stash.get(PLANNED, None)
    if planned is None:
        raise UsageError(
            "the fixture 'quant' is the check of a marked test, and this test is not marked",
            value=item.nodeid,
            fix="write @pytest.mark.quant(max_drop=1.0) above it, or use build_engine, which needs no mark",
        )
    check = _resolve(request, planned)
    item.stash[CHECK] = check
    session = session_of(item.config)
    try:
        measurement = session.measure(check)
    except BackendUnavailable as error:
        _keep(item, session.failed(check, error))
        if not {check.candidate.backend, check.reference.backend} & set(settings_of(item.config).require):
            pytest.skip(one_line(error))
        item.stash[ABSENT] = error
        return None
    try:
        _keep(item, session.judge(measurement))
    except BaseException:
        measurement.close()
        raise
    if measurement.latency is not None and is_active(item.config):
        item.stash[SAMPLES] = samples_of(measurement.latency)
    return measurement


def present(item: pytest.Item, measurement: Measurement | None) -> Measurement:
    """Return the measurement; a required backend that is not here raises its error."""
    if measurement is None:
        raise item.stash[ABSENT]
    return measurement


def before_body(item: pytest.Item) -> None:
    """Refuse to run the body of a marked test whose check did not run.

    Raises
    ------
    BackendUnavailable : a required backend is not here.
    UsageError : something stands in the way of the fixture ``quant``.
    """
    if ABSENT in item.stash:
        raise item.stash[ABSENT]
    if RECORD not in item.stash:
        raise UsageError(
            "this marked test would run without its check",
            value=item.nodeid,
            fix="name no fixture of your own 'quant'; it takes the place of the plugin's",
        )


def pronounce(item: pytest.Item) -> None:
    """Fail, warn about or pass the test whose body has run, as its record says."""
    record = item.stash[RECORD]
    strict = settings_of(item.config).strict
    unsure = record.status in (Status.INCONCLUSIVE, Status.NO_BASELINE)
    if record.status is Status.FAIL or (unsure and strict):
        item.stash[FAILURE] = failure(record, width_of(item.config))
        pytest.fail(item.stash[FAILURE], pytrace=False)
    if record.status is Status.INCONCLUSIVE:
        item.warn(InconclusiveWarning(_unjudged(record)))


def set_up(item: pytest.Item) -> None:
    """Settle what a marked item will check, before its fixtures are made; what an earlier run of it left goes."""
    if CHECK in item.stash:
        del item.stash[CHECK]
    if SAMPLES in item.stash:
        del item.stash[SAMPLES]
    if RECORD in item.stash:
        del item.stash[RECORD]
    if ABSENT in item.stash:
        del item.stash[ABSENT]
    prepare(item)


def keep_error(item: pytest.Item, error: BaseException) -> None:
    """Keep the record of a check that could not be because its set-up failed."""
    planned = item.stash.get(PLANNED, None)
    if planned is None:
        return
    check = item.stash.get(CHECK, None) or _nameless(item, planned)
    known = error if isinstance(error, QuantError) else QuantError(f"{type(error).__name__}: {error}")
    _keep(item, session_of(item.config).failed(check, known))


def record_json(item: pytest.Item) -> dict[str, Json] | None:
    """Return the item's record in plain JSON types, ``None`` when it has none."""
    record = item.stash.get(RECORD, None)
    return None if record is None else to_json(record)


def one_line(error: QuantError) -> str:
    """Return what is wrong and the next step on one line, for reasons of skips."""
    return "; ".join(part for part in (error.what, error.fix) if part)


def _unjudged(record: Record) -> str:
    open_limits = [verdict for verdict in record.verdicts or () if verdict.status is Status.INCONCLUSIVE]
    return "; ".join(f"{verdict.limit}: {verdict.reason}" for verdict in open_limits)


def _resolve(request: pytest.FixtureRequest, planned: Planned) -> Check:
    asked = planned.asked
    if asked.model is None:
        model = model_of(request, request.getfixturevalue("quant_model"), "quant_model")
    else:
        model = find_model(request, asked.model, "model")
    quantized = None if asked.quantized is None else find_model(request, asked.quantized, "quantized")
    dataset = find_data(request, "quant_data" if asked.data is None else asked.data)
    return _check(request.config, planned, model, quantized, dataset)


def _nameless(item: pytest.Item, planned: Planned) -> Check:
    """Return the check of a test whose model or data never came to be."""
    model = named_only(planned.asked.model, "quant_model")
    return _check(item.config, planned, model, None, Dataset("arrays", None))


def _check(config: pytest.Config, planned: Planned, model: Model, quantized: Model | None, dataset: Dataset) -> Check:
    settings = settings_of(config)
    check = build_check(
        planned.asked,
        planned.variant,
        model=model,
        quantized=quantized,
        dataset=dataset,
        nodeid=planned.nodeid,
        series_nodeid=planned.series_nodeid,
        measuring=Measuring(settings.confidence, settings.latency_off, settings.max_time_s),
    )
    return simulate_check(check, settings.simulate)


def _keep(item: pytest.Item, record: Record) -> None:
    """Keep the record and its JUnit properties; a rerun replaces those of the run before."""
    item.stash[RECORD] = record
    own = {name for name, _ in junit_properties(record)}
    others = [(name, value) for name, value in item.user_properties if name not in own]
    item.user_properties[:] = [*others, *junit_properties(record)]
