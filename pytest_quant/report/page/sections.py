"""What a check opens to: its verdicts, its figures by kind, and how to see it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, Record, Run
from pytest_quant.report.failure import limit_unit
from pytest_quant.report.meaning import meanings
from pytest_quant.report.page.accuracy import accuracy_section
from pytest_quant.report.page.blocks import around, before_after, cell, facts, lines, measured, table, whole
from pytest_quant.report.page.content import (
    Block,
    Command,
    Facts,
    Lines,
    RoundsChart,
    Section,
    TableCell,
    Verdicts,
    VerdictView,
)
from pytest_quant.report.page.intervals import interval_plot
from pytest_quant.report.text import NOT_MEASURED, figure, points
from pytest_quant.result import Coverage, Hint, Resources, Verdict
from pytest_quant.verdict.rules import apart, written

_COMMIT = 12


def sections(record: Record, run: Run, number: int) -> tuple[Section, ...]:
    """Return the parts that the check `number` of the page opens to; those without anything to say are left out."""
    found = (
        _verdicts(record),
        accuracy_section(record),
        _latency(record, number),
        _coverage(record),
        _resources(record),
        _seen_again(record, run),
    )
    return tuple(one for one in found if one.blocks)


def _verdicts(record: Record) -> Section:
    blocks: list[Block] = []
    if record.message:
        blocks += lines(line.strip() for line in record.message.splitlines())
    if views := tuple(_view(record, verdict) for verdict in record.verdicts or ()):
        blocks.append(Verdicts(views))
    elif not record.message:
        blocks.append(Lines(("no limit set",)))
    blocks += lines([*meanings(record), *record.notes])
    for hint in record.hints:
        blocks += _hint(hint)
    return Section("Verdicts", tuple(blocks))


def _view(record: Record, verdict: Verdict) -> VerdictView:
    allowed, observed = verdict.allowed, verdict.observed
    return VerdictView(
        limit=verdict.limit,
        status=verdict.status.value,
        allowed=NOT_MEASURED if allowed is None else written(allowed),
        observed=NOT_MEASURED if observed is None else _observed(observed, allowed),
        unit=limit_unit(verdict.limit, record),
        reason=verdict.reason,
        plot=interval_plot(record, verdict),
    )


def _observed(observed: float, allowed: float | None) -> str:
    """Return the figure on the side of the limit that it is on: 1.0004 is not within 1.0."""
    return figure(observed) if allowed is None else apart(observed, allowed, 4)


def _hint(hint: Hint) -> Iterator[Block]:
    if hint.paste:
        yield Command(f"worth trying: {hint.text}", hint.paste)
    else:
        yield Lines((f"worth trying: {hint.text}",))
    yield from facts((f"{hint.limit} with it", before_after(hint.before, hint.after)))


def _latency(record: Record, number: int) -> Section:
    latency = record.latency
    if latency is None:
        return Section("Latency", tuple(lines([f"not measured: {record.latency_off}"] if record.latency_off else [])))
    blocks = list(_times(latency))
    if any(latency.round_p50_ms.values()):
        about = "medians of each round in milliseconds: reference, a second session of the reference (null), candidate"
        blocks.append(RoundsChart(f"rounds-{number}", about))
    blocks += lines([*(f"timing in doubt: {reason}" for reason in latency.reasons), *latency.notes])
    blocks += lines([latency.widened] if latency.widened else [])
    blocks += _launches(latency)
    blocks.append(Command("which layers take the time", f"pytest-quant profile {shlex.quote(record.nodeid)}"))
    return Section("Latency", tuple(blocks))


def _times(latency: LatencyFigures) -> Iterator[Block]:
    repeat = latency.repeat
    yield from facts(
        ("median", before_after(latency.reference_p50_ms, latency.candidate_p50_ms, "ms")),
        ("p90", measured(latency.candidate_p90_ms, "ms")),
        ("p99", measured(latency.candidate_p99_ms, "ms")),
        ("speedup", measured(latency.speedup, "x", latency.speedup_ci)),
        ("null / reference", around(latency.null_ratio_ci)),
        ("detectable effect", measured(latency.half_width_pct, "%")),
        ("rounds", whole(latency.rounds)),
        ("samples in a run", whole(latency.batch_size)),
        ("looks at the rounds", whole(latency.looks)),
        ("reference", latency.compared_with),
        ("clock", f"the {latency.clock}'s" if latency.clock != "host" else ""),
        ("speedup, measured again", "" if repeat is None else measured(repeat.speedup, "x", repeat.speedup_ci)),
    )


def _launches(latency: LatencyFigures) -> Iterator[Block]:
    rows = [
        (
            TableCell(launch.started_at),
            cell(launch.speedup),
            cell(launch.reference_p50_ms),
            cell(launch.candidate_p50_ms),
        )
        for launch in latency.launches
    ]
    yield from table("Further launches", ("started", "speedup", "reference ms", "candidate ms"), rows)


def _coverage(record: Record) -> Section:
    coverage = record.coverage
    if coverage is None:
        return Section("Coverage", ())
    blocks = [
        *facts(
            (f"{coverage.unit} in {record.precision}", measured(coverage.pct, "%", form=points)),
            ("with all that cannot be seen into", measured(coverage.high_pct, "%", form=points)),
            ("of what the scheme can quantize", measured(coverage.scheme_pct, "%", form=points)),
            ("provider", coverage.provider),
            ("nodes that cannot be seen into", whole(coverage.opaque_nodes or None)),
            ("plan of another product", coverage.plan_of),
            ("ran in float", ", ".join(coverage.float_nodes)),
        ),
        *table("By operator", ("operator", "nodes", "quantized", "MACs", "quantized"), list(_operators(coverage))),
        *lines(coverage.notes),
    ]
    return Section("Coverage", tuple(blocks))


def _operators(coverage: Coverage) -> Iterator[tuple[TableCell, ...]]:
    for op in sorted(coverage.by_op, key=lambda op: -(op.macs or 0)):
        yield (
            TableCell(f"{op.op_type} ({op.stands_for})" if op.stands_for else op.op_type),
            cell(op.nodes, whole),
            cell(op.quantized_nodes, whole),
            cell(op.macs, whole),
            cell(op.quantized_macs, whole),
        )


def _resources(record: Record) -> Section:
    resources = record.resources or Resources()
    blocks = facts(
        ("engine", measured(resources.size_mb, "MB")),
        ("reference", measured(resources.reference_size_mb, "MB")),
        ("build", measured(resources.build_s, "s")),
        ("calibration", measured(resources.calibration_s, "s")),
        ("memory of the build", measured(resources.build_memory_mb, "MB")),
        ("memory added by running", measured(resources.run_memory_mb, "MB")),
        ("device memory, by the runtime", measured(resources.device_memory_mb, "MB")),
        ("device memory, by NVML", measured(resources.device_memory_nvml_mb, "MB")),
        ("energy of a run", measured(resources.energy_mj, "mJ", resources.energy_mj_ci)),
        ("device", resources.device if record.resources else ""),
    )
    return Section("Size, memory, build", tuple(blocks))


def _seen_again(record: Record, run: Run) -> Section:
    scheme = f", {record.calibration} calibration" if record.calibration else ""
    cache = ", ".join(f"{what} {word}" for what, word in (record.cache or {}).items())
    blocks = facts(
        ("model", record.model),
        ("candidate", f"{record.engine_id}{scheme}"),
        ("reference", record.reference),
        ("calibration samples", whole(record.calibration_samples)),
        ("threads", whole(record.threads)),
        ("instruction set", record.isa),
        ("cache", cache),
        ("run", run.id),
        *((f"{name} digest", digest) for name, digest in record.digests.items()),
    )
    return Section("Where it comes from, and how to see it again", (*blocks, *_commands(record, run), _machine(run)))


def _machine(run: Run) -> Facts:
    """Return the machine and the versions: first what must be equal before latencies are compared, then the rest."""
    identity, context = run.environment.identity, run.environment.context
    all_facts = {**dict(sorted(identity.items())), **dict(sorted(context.items()))}
    return Facts(tuple(all_facts.items()), title="machine and versions")


def _commands(record: Record, run: Run) -> Iterator[Block]:
    nodeid = shlex.quote(record.nodeid)
    if run.commit is not None:
        dirty = ", without the changes that were not committed" if run.dirty else ""
        yield Command(f"the code{dirty}", f"git checkout {shlex.quote(clean(run.commit)[:_COMMIT])}")
    yield Command("the check", f"python -m pytest {nodeid}")
    test = shlex.quote(record.nodeid.partition("[")[0])
    yield Command("its history", f"pytest-quant history {test} {shlex.quote(record.engine_id)}")
