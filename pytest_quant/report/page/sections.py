"""What a check opens to: its verdicts, its figures by kind, and how to see it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pytest_quant.printable import clean
from pytest_quant.record import LatencyFigures, Record, Run
from pytest_quant.report.failure import limit_unit
from pytest_quant.report.meaning import meanings
from pytest_quant.report.page.accuracy import accuracy_section
from pytest_quant.report.page.blocks import around, facts, known, lines, measured, pointer, table, whole
from pytest_quant.report.page.content import (
    Block,
    Command,
    Fact,
    Figure,
    Folded,
    Lines,
    RoundsChart,
    Section,
    TableRow,
    Verdicts,
    VerdictView,
)
from pytest_quant.report.page.intervals import interval_plot
from pytest_quant.report.text import NOT_MEASURED, figure, points
from pytest_quant.result import Coverage, Hint, LaunchFigures, Resources, Verdict
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
    views = [_view(record, verdict, index) for index, verdict in enumerate(record.verdicts or ())]
    if views:
        blocks.append(Verdicts(tuple(views)))
    elif not record.message:
        blocks.append(Lines(("no limit set",)))
    blocks += lines([*meanings(record), *record.notes])
    for index, hint in enumerate(record.hints):
        blocks += _hint(hint, index)
    return Section("Verdicts", "", tuple(blocks))


def _view(record: Record, verdict: Verdict, index: int) -> VerdictView:
    allowed, observed = verdict.allowed, verdict.observed
    return VerdictView(
        field=f"verdicts/{index}",
        limit=verdict.limit,
        status=verdict.status.value,
        allowed=NOT_MEASURED if allowed is None else Figure(written(allowed), allowed, "allowed"),
        observed=NOT_MEASURED if observed is None else Figure(_observed(observed, allowed), observed, "observed"),
        unit=limit_unit(verdict.limit, record),
        reason=verdict.reason,
        plot=interval_plot(record, verdict),
    )


def _observed(observed: float, allowed: float | None) -> str:
    """Return the figure on the side of the limit that it is on: 1.0004 is not within 1.0."""
    return figure(observed) if allowed is None else apart(observed, allowed, 4)


def _hint(hint: Hint, index: int) -> Iterator[Block]:
    if hint.paste:
        yield Command(f"worth trying: {hint.text}", hint.paste)
    else:
        yield Lines((f"worth trying: {hint.text}",))
    if hint.before is not None or hint.after is not None:
        place = f"hints/{index}"
        yield from facts(
            (
                f"{hint.limit} with it",
                (known(hint.before, f"{place}/before"), " -> ", known(hint.after, f"{place}/after")),
            )
        )


def _latency(record: Record, number: int) -> Section:
    found = record.latency
    blocks: list[Block] = []
    if found is None:
        blocks += lines([f"not measured: {record.latency_off}"] if record.latency_off else [])
        return Section("Latency", "latency", tuple(blocks))
    blocks += _times(found)
    if any(found.round_p50_ms.values()):
        about = "medians of each round in milliseconds: reference, a second session of the reference (null), candidate"
        blocks.append(RoundsChart(f"rounds-{number}", about))
    blocks += lines([*(f"timing in doubt: {reason}" for reason in found.reasons), *found.notes])
    blocks += lines([found.widened] if found.widened else [])
    blocks += _launches(found)
    blocks.append(Command("which layers take the time", f"pytest-quant profile {shlex.quote(record.nodeid)}"))
    return Section("Latency", "latency", tuple(blocks))


def _times(found: LatencyFigures) -> Iterator[Block]:
    repeat = found.repeat
    again = NOT_MEASURED if repeat is None else measured(repeat.speedup, "repeat/speedup", "x", repeat.speedup_ci)
    medians = (
        known(found.reference_p50_ms, "reference_p50_ms"),
        " -> ",
        known(found.candidate_p50_ms, "candidate_p50_ms"),
        " ms",
    )
    yield from facts(
        ("median", medians),
        ("p90", measured(found.candidate_p90_ms, "candidate_p90_ms", "ms")),
        ("p99", measured(found.candidate_p99_ms, "candidate_p99_ms", "ms")),
        ("speedup", measured(found.speedup, "speedup", "x", found.speedup_ci)),
        ("null / reference", around(found.null_ratio_ci, "null_ratio_ci")),
        ("detectable effect", measured(found.half_width_pct, "half_width_pct", "%")),
        ("rounds", known(found.rounds, "rounds", whole)),
        ("samples in a run", known(found.batch_size, "batch_size", whole)),
        ("looks at the rounds", known(found.looks, "looks", whole)),
        ("reference", found.compared_with),
        ("clock", f"the {found.clock}'s" if found.clock != "host" else ""),
        ("speedup by the host's clock", known(found.host_speedup, "host_speedup")),
        ("speedup, measured again", again),
    )


def _launches(found: LatencyFigures) -> Iterator[Block]:
    def row(index: int, launch: LaunchFigures) -> TableRow:
        cells = (
            launch.started_at,
            known(launch.speedup, "speedup"),
            known(launch.reference_p50_ms, "reference_p50_ms"),
            known(launch.candidate_p50_ms, "candidate_p50_ms"),
        )
        return TableRow(str(index), cells)

    rows = [row(index, launch) for index, launch in enumerate(found.launches)]
    head = ("started", "speedup", "reference ms", "candidate ms")
    yield from table("Further launches", head, rows, field="launches")


def _coverage(record: Record) -> Section:
    found = record.coverage
    blocks: list[Block] = []
    if found is not None:
        blocks += facts(
            (f"{found.unit} in {record.precision}", measured(found.pct, "pct", "%", form=points)),
            ("with all that cannot be seen into", measured(found.high_pct, "high_pct", "%", form=points)),
            ("of what the scheme can quantize", measured(found.scheme_pct, "scheme_pct", "%", form=points)),
            ("provider", found.provider),
            ("nodes that cannot be seen into", known(found.opaque_nodes or None, "opaque_nodes", whole)),
            ("plan of another product", found.plan_of),
            ("ran in float", ", ".join(found.float_nodes)),
        )
        blocks += table(
            "By operator",
            ("operator", "nodes", "quantized", "MACs", "quantized"),
            list(_operators(found)),
            field="by_op",
        )
        blocks += lines(found.notes)
    return Section("Coverage", "coverage", tuple(blocks))


def _operators(found: Coverage) -> Iterator[TableRow]:
    for op in sorted(found.by_op, key=lambda one: -(one.macs or 0)):
        yield TableRow(
            pointer(op.op_type),
            (
                f"{op.op_type} ({op.stands_for})" if op.stands_for else op.op_type,
                known(op.nodes, "nodes", whole),
                known(op.quantized_nodes, "quantized_nodes", whole),
                known(op.macs, "macs", whole),
                known(op.quantized_macs, "quantized_macs", whole),
            ),
        )


def _resources(record: Record) -> Section:
    found = record.resources or Resources()
    blocks = facts(
        ("engine", measured(found.size_mb, "size_mb", "MB")),
        ("reference", measured(found.reference_size_mb, "reference_size_mb", "MB")),
        ("build", measured(found.build_s, "build_s", "s")),
        ("calibration", measured(found.calibration_s, "calibration_s", "s")),
        ("memory of the build", measured(found.build_memory_mb, "build_memory_mb", "MB")),
        ("memory added by running", measured(found.run_memory_mb, "run_memory_mb", "MB")),
        ("device memory, by the runtime", measured(found.device_memory_mb, "device_memory_mb", "MB")),
        ("device memory, by NVML", measured(found.device_memory_nvml_mb, "device_memory_nvml_mb", "MB")),
        ("energy of a run", measured(found.energy_mj, "energy_mj", "mJ", found.energy_mj_ci)),
        ("device", found.device if record.resources else ""),
    )
    return Section("Size, memory, build", "resources", tuple(blocks))


def _seen_again(record: Record, run: Run) -> Section:
    scheme = f", {record.calibration} calibration" if record.calibration else ""
    cache = ", ".join(f"{what} {word}" for what, word in (record.cache or {}).items())
    blocks = facts(
        ("model", record.model),
        ("candidate", f"{record.engine_id}{scheme}"),
        ("reference", record.reference),
        ("calibration samples", known(record.calibration_samples, "calibration_samples", whole)),
        ("threads", known(record.threads, "threads", whole)),
        ("instruction set", record.isa),
        ("cache", cache),
        ("run", run.id),
        *((f"{name} digest", digest) for name, digest in record.digests.items()),
    )
    return Section(
        "Where it comes from, and how to see it again", "", (*blocks, *_commands(record, run), _machine(run))
    )


def _machine(run: Run) -> Folded:
    """Return the machine and the versions: first what must be equal before latencies are compared, then the rest."""
    identity, context = run.environment.identity, run.environment.context
    known = {**dict(sorted(identity.items())), **dict(sorted(context.items()))}
    return Folded("machine and versions", tuple(Fact(name, (value,)) for name, value in known.items()))


def _commands(record: Record, run: Run) -> Iterator[Block]:
    nodeid = shlex.quote(record.nodeid)
    if run.commit is not None:
        dirty = ", without the changes that were not committed" if run.dirty else ""
        yield Command(f"the code{dirty}", f"git checkout {shlex.quote(clean(run.commit)[:_COMMIT])}")
    yield Command("the check", f"python -m pytest {nodeid}")
    test = shlex.quote(record.nodeid.partition("[")[0])
    yield Command("its history", f"pytest-quant history {test} {shlex.quote(record.engine_id)}")
