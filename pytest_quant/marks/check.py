"""From a mark to a check: the engines, the limits with their defaults, and the plan of the timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_quant.backends import Backend, EarlyBackend, Tf32Backend, get_backend
from pytest_quant.errors import UsageError
from pytest_quant.marks.keys import Asked, ModelSource
from pytest_quant.marks.variants import Variant
from pytest_quant.spec import (
    REFERENCE_PRECISIONS,
    UNMEASURED,
    Check,
    Dataset,
    EngineSpec,
    LatencyPlan,
    Limits,
    Model,
    Pages,
    Spread,
)

_MIN_COVERAGE_PCT = 50


@dataclass(frozen=True, slots=True)
class Measuring:
    """What the run says about measuring; see `pytest_quant.plugin.settings.Settings` and `LatencyPlan.sessions`."""

    confidence: float | None = None
    latency_off: str = ""
    max_time_s: float | None = None
    sessions: Spread = UNMEASURED
    pages: Pages = "huge"


def engine_specs(
    asked: Asked, variant: Variant, model: Model, quantized: Model | None
) -> tuple[EngineSpec, EngineSpec]:
    """Return the specs of the reference, at exact FP32, and the candidate; options are of the candidate's backend.

    Parameters
    ----------
    asked : the keys of the mark; a reference in another backend gets no options.
    variant : one combination of backend, precision, scheme and batch size.
    model : the FP32 model.
    quantized : the model that is quantized already; used with the scheme ``qat`` only.
    """
    candidate = EngineSpec(
        backend=variant.backend,
        precision=variant.precision,
        scheme=variant.scheme,
        model=model,
        quantized=quantized if variant.scheme == "qat" else None,
        calibration=asked.calibration,
        exclude=asked.exclude,
        options=asked.options,
    )
    backend = asked.reference or variant.backend
    options = asked.options if backend == variant.backend else ()
    reference = EngineSpec(backend, "fp32", None, model, options=options)
    maker = get_backend(backend)
    return maker.with_tf32(reference, allowed=False) if isinstance(maker, Tf32Backend) else reference, candidate


def timed_reference(reference: EngineSpec, precision: str, get: Callable[[str], Backend]) -> EngineSpec | None:
    """Return the engine that latency is compared with, ``None`` where that is `reference`.

    Parameters
    ----------
    reference : the engine at exact FP32.
    precision : one of `REFERENCE_PRECISIONS`.
    get : returns the backend of a name.

    Raises
    ------
    UsageError : the backend of the reference does not offer it; the message says what it offers.
    """
    if precision == reference.precision:
        return None
    backend = get(reference.backend)
    has_tf32 = isinstance(backend, Tf32Backend)
    if precision == "tf32" and isinstance(backend, Tf32Backend):
        return backend.with_tf32(reference, allowed=True)
    offered = [one for one in REFERENCE_PRECISIONS if one in backend.schemes or (one == "tf32" and has_tf32)]
    if precision not in offered:
        raise UsageError(
            f"backend '{reference.backend}' has no {precision} to compare latency with",
            value=f"reference_precision='{precision}'",
            allowed=", ".join(offered),
            fix="leave reference_precision out",
        )
    return replace(reference, precision=precision)


def build_check(
    asked: Asked,
    variant: Variant,
    *,
    model: Model,
    quantized: Model | None,
    dataset: Dataset,
    nodeid: str,
    series_nodeid: str,
    measuring: Measuring,
) -> Check:
    """Return the check of one test.

    Parameters
    ----------
    asked : the keys of the mark.
    variant : one combination of backend, precision, scheme and batch size.
    model, quantized : as in `engine_specs`.
    dataset : calibration and evaluation samples.
    nodeid : of the test.
    series_nodeid : `nodeid` without what the mark's own lists add to it.
    measuring : options of the run.
    """
    reference, candidate = engine_specs(asked, variant, model, quantized)
    timed = timed_reference(reference, asked.reference_precision, get_backend)
    return Check(
        nodeid=nodeid,
        series_nodeid=series_nodeid,
        candidate=candidate,
        reference=reference,
        dataset=dataset,
        limits=_limits(asked.limits, variant),
        metric=asked.metric,
        output=asked.output,
        channels=asked.channels,
        latency=_plan(variant, measuring),
        latency_off=measuring.latency_off,
        confidence=measuring.confidence,
        batch_size=variant.batch_size,
        reference_precision=asked.reference_precision,
        timed_reference=timed,
    )


def _limits(limits: Limits, variant: Variant) -> Limits:
    """Add the coverage that a quantized engine must prove; of fp32 there is nothing to prove."""
    if variant.precision == "fp32":
        return replace(limits, min_coverage=None)
    if limits.min_coverage is not None or variant.scheme is None:
        return limits
    return replace(limits, default_min_coverage=_MIN_COVERAGE_PCT)


def _plan(variant: Variant, measuring: Measuring) -> LatencyPlan | None:
    if measuring.latency_off:
        return None
    plan = LatencyPlan(batch_size=variant.batch_size, sessions=measuring.sessions, pages=measuring.pages)
    return plan if measuring.max_time_s is None else replace(plan, max_s=measuring.max_time_s)


def set_up_process(asked: Asked, variant: Variant, get: Callable[[str], Backend]) -> None:
    """Let the backends of a check that will run set what their runtimes read of the process, before any is loaded.

    Parameters
    ----------
    asked : the keys of the mark.
    variant : one combination of backend, precision, scheme and batch size.
    get : returns the backend of a name.
    """
    for spec in engine_specs(asked, variant, named_only(asked.model, "quant_model"), None):
        backend = get(spec.backend)
        if isinstance(backend, EarlyBackend):
            backend.before_loading(spec)


def named_only(source: ModelSource | None, default: str) -> Model:
    """Return a model that has nothing but the name the mark gives it."""
    return source if isinstance(source, Model) else Model(name=str(source or default))


def check_backend(asked: Asked, variant: Variant, get: Callable[[str], Backend]) -> None:
    """Let each backend refuse options, calibration, precision or a limit on speed; loads no runtime.

    Parameters
    ----------
    asked : the keys of the mark.
    variant : one combination of backend, precision, scheme and batch size.
    get : returns the backend of a name.

    Raises
    ------
    UsageError : a backend refuses; the message names the key and what is allowed.
    """
    model = named_only(asked.model, "quant_model")
    quantized = None if asked.quantized is None else named_only(asked.quantized, "quantized")
    reference, candidate = engine_specs(asked, variant, model, quantized)
    timed = timed_reference(reference, asked.reference_precision, get)
    for spec in (reference, candidate, *([timed] if timed is not None else [])):
        get(spec.backend).check(spec)
    refusal = get(candidate.backend).refuses_speed(candidate) if asked.limits.on_latency else None
    if refusal is not None:
        raise refusal
