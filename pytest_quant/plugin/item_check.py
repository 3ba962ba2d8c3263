"""One marked test: measured and judged in set-up, failed after its body, its record attached to pytest's report."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, cast

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.cache import LOCKS, Cache
from pytest_quant.check_runner import CheckRunner
from pytest_quant.clocks import now
from pytest_quant.environment.machine import fingerprint
from pytest_quant.errors import BackendUnavailable, HistoryError, InconclusiveWarning, QuantError, UsageError
from pytest_quant.history import is_there, missing_libraries, open_store
from pytest_quant.history.rows import StoredCheck, way_of_timing
from pytest_quant.marks import ENCODED, RECORD_ATTRIBUTE, SAMPLES_ATTRIBUTE, SERIES_ATTRIBUTE
from pytest_quant.marks.expansion import fill_in
from pytest_quant.measure.build import Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.plugin import collect
from pytest_quant.plugin.console import open_steps, width_of
from pytest_quant.plugin.crashes import note_begun
from pytest_quant.plugin.devices import refuse_without_gpu
from pytest_quant.plugin.mark_sources import find_data, find_models, find_scores
from pytest_quant.plugin.run_files import end_of
from pytest_quant.plugin.settings import keeps_benchmarks, settings_of
from pytest_quant.printable import clean
from pytest_quant.record import EncodedRecord, encode_record
from pytest_quant.record.figures import junit_properties
from pytest_quant.result import Baseline, Measured, Status
from pytest_quant.spec import UNMEASURED, Check, SeriesKey, Spread

if TYPE_CHECKING:
    from pytest_quant.cache.remote import Remote
    from pytest_quant.history.baselines.baseline_search import Baselines

SESSION = pytest.StashKey[CheckRunner]()
_BASELINES: pytest.StashKey[Baselines] = pytest.StashKey()


def session_of(config: pytest.Config) -> CheckRunner:
    """Return the session of this process, created once."""
    if SESSION not in config.stash:
        settings = settings_of(config)
        steps = open_steps(config, settings.step_timeout_s)
        cache = Cache(settings.cache, notify=steps.notify, remote=_open_remote(config))
        locks = DeviceLocks(steps.notify, settings.lock_timeout_s)
        config.stash[SESSION] = CheckRunner(
            Tools(cache, steps, locks, settings.workers),
            baseline=lambda measurement: _baseline(config, measurement),
            times=not settings.latency_off,
            diagnose_s=settings.diagnose_s,
            launches=settings.launches,
        )
    return config.stash[SESSION]


def _open_remote(config: pytest.Config) -> Remote | None:
    """Return the shared cache, which ends with the session; ``None`` if no cache is named."""
    settings = settings_of(config)
    if settings.cache_remote is None:
        return None
    # Here, because few runs have one.
    from pytest_quant.cache.remote import Remote

    # The workers of one run tell each other of a store that fails.
    run = getattr(config, "workerinput", {}).get("testrunuid")
    remote = Remote(settings.cache_remote, settings.cache / LOCKS / f"{run}.remote-off" if run else None)
    config.pluginmanager.register(_SharedCache(config, remote))
    return remote


class _SharedCache:
    """Hooks of a process that has opened the shared cache."""

    def __init__(self, config: pytest.Config, remote: Remote) -> None:
        self._config = config
        self._remote = remote

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the uploads; a worker of xdist leaves the figures of its traffic for its controller."""
        figures = astuple(self._remote.finish())
        output = getattr(self._config, "workeroutput", None)
        if output is None:
            end_of(self._config).add_traffic(figures)
        else:
            output["quant_traffic"] = figures


def _baseline(config: pytest.Config, measurement: Measured) -> Baseline | str | None:
    """Return the baseline of a measurement, or why there is none; ``None`` if no limit needs it."""
    check = measurement.check
    if check.engines and not check.limits.judges_history:
        return None
    # Here, because other checks need no baselines.
    from pytest_quant.history.baselines.baseline_search import Baselines

    if _BASELINES not in config.stash:
        place = settings_of(config).history
        opening = None if place is None else lambda: open_store(place, config.rootpath)
        config.stash[_BASELINES] = Baselines(config.rootpath, opening, fingerprint().identity)
    baseline = config.stash[_BASELINES].find(
        SeriesKey.from_check(check, measurement.accuracy.metric).text,
        measurement.digests.get("data"),
        way=way_of_timing(measurement.latency),
        started_at=now().isoformat(),
        on_latency=check.limits.judges_earlier_latency,
        answers=not check.engines,
    )
    if isinstance(baseline, Baseline):
        return replace(baseline, is_paired=settings_of(config).against is not None)
    return baseline


def check_test(request: pytest.FixtureRequest) -> Measured | None:
    """Measure and judge the check of the requesting test, and keep its record.

    Returns
    -------
    ``None`` when a required backend cannot run here.

    Raises
    ------
    UsageError : the test is not marked.
    QuantError : the check cannot be measured; its record is made when pytest reports the error.
    """
    item: pytest.Item = request.node
    state = item.stash.get(collect.STATE, None)
    if state is None:
        what = "the fixture 'quant' is the check of a marked test, and this test is not marked"
        fix = "write @pytest.mark.quant(max_drop=1.0) above it, or use build_engine, which needs no mark"
        raise UsageError(what, value=item.nodeid, fix=fix)
    check = state.check = _add_inputs(request, state)
    note_begun(item, check)
    session = session_of(item.config)
    try:
        measurement = session.measure(check)
    except BackendUnavailable as error:
        _set_record(item, state, session.failed(check, error))
        if not {check.candidate.backend, check.reference.backend} & set(settings_of(item.config).require):
            pytest.skip("; ".join(part for part in (error.what, error.fix) if part))
        state.absent = error
        return None
    try:
        _set_record(item, state, _add_changes(item.config, session.judge(measurement)))
    except BaseException:
        measurement.close()
        raise
    if measurement.latency is not None and keeps_benchmarks(item.config):
        # Here, because few runs keep benchmarks.
        from pytest_quant.plugin.benchmark_bridge import samples_of

        state.samples_ns = samples_of(measurement.latency)
    return measurement


def _add_changes(config: pytest.Config, judged: EncodedRecord) -> EncodedRecord:
    """Return the record of a check that does not pass with what changed since its series last did."""
    record, place = judged.record, settings_of(config).history
    if record.status is Status.PASS or place is None or missing_libraries() or not is_there(place):
        return judged
    # Here, because a check that passes needs none of it.
    from pytest_quant.history.compare.facts import explains, find_differences
    from pytest_quant.history.compare.pairing import Pair
    from pytest_quant.report.comparison_text import describe_differences

    # What keeps the history from being read is told at the end of the run, which cannot write it either.
    with suppress(HistoryError):
        if passed := open_store(place, config.rootpath).last_pass(record.series):
            now = StoredCheck(replace(passed.run, environment=fingerprint()), record)
            if differs := find_differences(Pair(record.series, (passed,), (now,))):
                # Another engine is what other differences lead to; alone, it comes from what these records do not have.
                causes = [each for each in differs if each.digest_of not in ("engine", "reference engine")]
                words = describe_differences(causes) or (
                    "the engine alone: compare calibration, exclude, options and cpus of the mark, and files they name"
                )
                when = f"{passed.run.commit or 'no commit':.12}, {passed.run.started_at:.10}"
                changed, cause = f"since the last {passed.record.status.value} ({when}): {words}", record.cause
                through = [each for each in causes if cause and explains(each, cause.stage, record.asked or ())]
                if cause and through:
                    text = f"{describe_differences(through)}; by way of {cause.stage}: {cause.text}"
                    cause = replace(cause, stage="changed", text=text)
                return encode_record(replace(record, changed=changed, cause=cause))
    return judged


def measurement_or_error(item: pytest.Item, measurement: Measured | None) -> Measurement:
    """Return the measurement; raise the error of a required backend that cannot run here, or of scores."""
    if measurement is None:
        raise cast("BackendUnavailable", item.stash[collect.STATE].absent)
    if not measurement.check.engines:
        raise UsageError("a check of scores has no engines", fix="ask for the fixture quant: quant.accuracy has scores")
    return cast("Measurement", measurement)


def refuse_unchecked_body(item: pytest.Item) -> None:
    """Refuse to run the body of a marked test whose check did not run.

    Raises
    ------
    BackendUnavailable : a required backend cannot run here.
    UsageError : another fixture has replaced the plugin's fixture ``quant``.
    """
    state = item.stash.get(collect.STATE, None)
    if state is not None and state.absent is not None:
        raise state.absent
    if state is None or state.record is None:
        fix = "name no fixture of your own 'quant'; it takes the place of the plugin's"
        raise UsageError("this marked test would run without its check", value=item.nodeid, fix=fix)


def apply_verdict(item: pytest.Item) -> None:
    """Fail, warn about or pass a test whose body has run, according to its record."""
    state = item.stash[collect.STATE]
    record = cast("EncodedRecord", state.record).record
    unsure = record.status in (Status.INCONCLUSIVE, Status.NO_BASELINE)
    settings, dataset = settings_of(item.config), state.check.dataset
    # Where a backend is required, as in CI, numbers that only stand in for samples must not look like a green check.
    fails = record.status is Status.FAIL or (unsure and (settings.strict or (settings.require and dataset.stands_in)))
    if record.status is Status.INCONCLUSIVE and not fails:
        not_judged = (verdict for verdict in record.verdicts or () if verdict.status is Status.INCONCLUSIVE)
        reasons = clean("; ".join(f"{verdict.limit}: {verdict.reason}" for verdict in not_judged))
        try:
            item.warn(InconclusiveWarning(reasons))
        except InconclusiveWarning:  # a filter makes it an error
            fails = True
    if fails:
        # Here, because a check that passes needs no words.
        from pytest_quant.report.failure import failure

        state.failure = failure(record, width_of(item.config), item.config.get_verbosity())
        pytest.fail(state.failure, pytrace=False)


def set_up(item: pytest.Item) -> None:
    """Plan the check of a marked item before its fixtures are set up, and drop the results of an earlier run of it."""
    collect.prepare(item)
    state = item.stash[collect.STATE]
    refuse_without_gpu(item.config, (spec.backend for spec in state.check.engines))
    state.check = collect.simulate_check(state.check, settings_of(item.config).simulate)
    note_begun(item, state.check)


def _add_inputs(request: pytest.FixtureRequest, state: collect.ItemState) -> Check:
    """Return the check with its scores, or with its model, its data and, if timed, the noise of its runner."""
    if state.keys.scores is not None:
        return replace(state.check, scores=find_scores(request, state.keys.scores))
    model, quantized = find_models(request, state.keys)
    dataset = find_data(request, state.keys.data or "quant_data")
    check = fill_in(state.check, model, quantized, dataset)
    if check.latency is None:
        return check
    sessions = _noise_of_runner(request.config, get_backend(check.candidate.backend).device)
    return replace(check, latency=replace(check.latency, sessions=sessions))


_NOISE = pytest.StashKey[dict[str, Spread]]()


def _noise_of_runner(config: pytest.Config, device: str) -> Spread:
    """Return the noise between sessions on `device`, ``cpu`` or ``cuda:0``, read once.

    It is the default where nothing is known, or the history is off. A history that cannot be read is shown to the user,
    and changes nothing else.
    """
    # Here, because a check without latency does not need it.
    from pytest_quant.history.selftests import session_noise

    by_device = config.stash.setdefault(_NOISE, {})
    place = settings_of(config).history
    # Without libraries there is no history, which the end of the run says.
    if place is None or missing_libraries():
        return UNMEASURED
    if device not in by_device:
        by_device[device] = UNMEASURED
        try:
            by_device[device] = session_noise(place, fingerprint().identity, device)
        except HistoryError as error:
            why = f"{error.what}: {error.value}" if error.value else error.what
            note = f"the noise of this runner is taken to be the default of a runner that nobody measured: {why}"
            open_steps(config).notify(note)
    return by_device[device]


def _set_record(item: pytest.Item, state: collect.ItemState, record: EncodedRecord) -> None:
    """Keep the record and its JUnit properties; a rerun replaces the record and properties of the run before."""
    state.record = record
    properties = junit_properties(record.record)
    own = {name for name, _ in properties}
    others = [(name, value) for name, value in item.user_properties if name not in own]
    item.user_properties[:] = [*others, *properties]


def attach(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Attach the record of a marked item to its report, with which xdist sends it to the controller.

    A check that was skipped or not measured is attached to the report of the set-up, any other to that of the call.

    Parameters
    ----------
    item : the test.
    call : the phase that has ended, with its exception.
    report : pytest's report of that phase, which is changed.
    """
    error = None if call.excinfo is None else call.excinfo.value
    skipped = isinstance(error, pytest.skip.Exception)
    state = item.stash.get(collect.STATE, None)
    ends_setup = report.when == "setup" and error is not None
    if ends_setup and not skipped and state is not None:
        ours = error if isinstance(error, QuantError) else QuantError(f"{type(error).__name__}: {error}")
        _set_record(item, state, session_of(item.config).failed(state.check, ours))
    if isinstance(error, QuantError) and report.failed:
        _show_text_only(item, call, report, error)
    if state is None:
        return
    if state.record is None:
        if ends_setup and skipped:
            vars(report)[SERIES_ATTRIBUTE] = SeriesKey.from_check(state.check, None).planned
        return
    if state.failure and state.failure == getattr(error, "msg", ""):
        # Here, because a check that passes needs no words.
        from pytest_quant.report.failure import headline

        if (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
            # The short summary and JUnit name the broken limit with both figures, if it has both.
            crash.message = headline(state.record.record) or crash.message
    if ends_setup or report.when == "call":
        vars(report)[RECORD_ATTRIBUTE] = state.record.json
        item.config.stash.setdefault(ENCODED, {})[id(state.record.json)] = state.record
        vars(report)[SAMPLES_ATTRIBUTE] = state.samples_ns
        if ends_setup and skipped and isinstance(report.longrepr, tuple):
            # The line of the test, in place of the plugin's own.
            path, line = item.reportinfo()[:2]
            report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])


def _show_text_only(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: QuantError
) -> None:
    """Replace the traceback of one of our errors by its message, unless the test's own body raised it."""
    if call.excinfo is None or item.config.getoption("fulltrace", False):
        return
    if report.when == "call" and any(entry.path == item.path for entry in call.excinfo.traceback):
        return
    text = call.excinfo.getrepr(style="value", chain=False)
    if text.reprcrash is not None:
        text.reprcrash.message = str(error)
    report.longrepr = text
