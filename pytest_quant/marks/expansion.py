"""From the marks of a test to its checks: several marks as one, lists as several engines, references and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_quant.backends import TF32, get_backend, set_tf32
from pytest_quant.errors import UsageError
from pytest_quant.marks import NAME
from pytest_quant.marks.keys import LISTABLE, MarkKeys, ModelSource, check_alone, check_names, check_scores, read
from pytest_quant.spec import (
    ARRIVING,
    QUANTIZED_PRECISIONS,
    REFERENCE_PRECISIONS,
    Check,
    Dataset,
    EngineSpec,
    LatencyPlan,
    Limits,
    Model,
    Scores,
    limits_on,
)

SCORES_BACKEND = "scores"
"""What stands for the backend of engines that nobody here ran."""

_UNKNOWN = ""
_DEFAULT_SCHEME = "static"


def combine(marks: Sequence[pytest.Mark], parameter_marks: Sequence[pytest.Mark] = ()) -> MarkKeys:
    """Check each mark, then merge them.

    Parameters
    ----------
    marks : of the test function, its class and its module, the closest first.
    parameter_marks : of the ``pytest.param`` of this item; closer than all others, and without lists.

    Raises
    ------
    UsageError : a mark is wrong in itself, or a ``pytest.param`` sets what a list parametrizes.
    """
    written = (*parameter_marks, *marks)
    for mark in written:
        check_names(mark.args, mark.kwargs)
        if len(written) > 1:
            # What a closer mark hides is checked too.
            read(mark.kwargs)
    lists = _lists(_merge(marks))
    for mark in parameter_marks:
        _check_parameter(mark.kwargs, lists)
    values = _merge((*parameter_marks, *marks))
    check_alone(values)
    keys = read(values, lists)
    check_scores(values, keys.metric)
    return keys


def sort_closest_first(node: pytest.Item | pytest.Collector) -> tuple[list[pytest.Mark], list[pytest.Mark]]:
    """Return the quant marks of `node`: those of its ``pytest.param``, and all others, the closest first.

    pytest lists a parameter's marks after its function's, and a base class's before the derived one's.
    """
    callspec = getattr(node, "callspec", None)
    of_parameter = [mark for mark in getattr(callspec, "marks", ()) if mark.name == NAME]
    seen = {id(mark) for mark in of_parameter}
    others: list[pytest.Mark] = []
    for parent in node.iter_parents():
        own = [mark for mark in parent.own_markers if mark.name == NAME and id(mark) not in seen]
        others += _sort_derived_first(parent.obj, own) if isinstance(parent, pytest.Class) else own
    return of_parameter, others


def _sort_derived_first(cls: type, marks: list[pytest.Mark]) -> list[pytest.Mark]:
    """Return the marks of a class: those that a plugin added, those written on it, then those on its bases."""
    written = [vars(base).get("pytestmark", []) for base in cls.__mro__]
    listed = (mark for marks in written for mark in (marks if isinstance(marks, list) else [marks]))
    order = [id(getattr(mark, "mark", mark)) for mark in listed]
    return sorted(marks, key=lambda mark: order.index(id(mark)) if id(mark) in order else -1)


def _merge(marks: Sequence[pytest.Mark]) -> dict[str, object]:
    return {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}


def _lists(values: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in LISTABLE if isinstance(values.get(name), (list, tuple)))


def _check_parameter(values: Mapping[str, object], lists: tuple[str, ...]) -> None:
    for name in _lists(values):
        raise UsageError(
            f"{name} is a list in the mark of a pytest.param, which cannot parametrize again",
            value=repr(values[name]),
            fix=f"write one {name} in each pytest.param, or the list in the mark of the test",
        )
    if not lists:
        return
    for name in (*LISTABLE, "quantized"):
        if name in values:
            raise UsageError(
                f"a pytest.param sets {name}, and the mark of the test already parametrizes {', '.join(lists)}",
                value=f"{name}={values[name]!r}",
                fix="write the lists or the pytest.param marks, not both",
            )


def series_nodeid(nodeid: str, *added: str) -> str:
    """Remove what the author did not write, regular expressions, from the brackets of `nodeid`, and empty brackets.

    ``test_a.py::test_a[cpu-ort-int8-static]`` with ``ort-int8-static`` becomes ``test_a.py::test_a[cpu]``.
    """
    for each in added:
        at_end = re.sub(rf"\[(?:{each})\]$|-(?:{each})(?=\]$)", "", nodeid)
        nodeid = at_end if at_end != nodeid else re.sub(rf"(?<=\[)(?:{each})-", "", nodeid, count=1)
    return nodeid


def checks_of(keys: MarkKeys, default_backend: str) -> tuple[Check, ...]:
    """Return a check for each combination of backend, precision, scheme and batch size of a mark, without doubles.

    Its models have nothing but names, it has neither data nor node ids, and its backends have not seen it yet, which
    may not offer such an engine: see `fill_in` and `check_backends`.

    Parameters
    ----------
    keys : of the mark.
    default_backend : the backend of a mark that names none.

    Raises
    ------
    UsageError : keys contradict each other, or latency is to be compared with what the backend does not offer.
    """
    if keys.scores is not None:
        return (_plan_scores(keys),)
    backends = keys.backend or (default_backend,)
    _check_quantized(keys, backends)
    return tuple(
        _check(keys, _candidate(keys, backend, precision, scheme), batch_size)
        for backend in backends
        for precision in keys.precision or (_UNKNOWN if _is_opaque(backend) else "int8",)
        for scheme in _schemes(keys, backend, precision)
        for batch_size in keys.batch_size
    )


def _plan_scores(keys: MarkKeys) -> Check:
    """Return a check that has neither engines nor data; the scores themselves come with the fixture."""
    spec = EngineSpec(SCORES_BACKEND, "", None, Model(keys.scores if isinstance(keys.scores, str) else SCORES_BACKEND))
    dataset = Dataset("arrays", None)
    placeholder = Scores("arrays", (), (None,))
    return Check("", "", spec, spec, dataset, limits=keys.limits, latency=None, scores=placeholder)


def check_id(check: Check, keys: MarkKeys) -> str:
    """Return what distinguishes a check from the others of its mark, for the id of its test."""
    return f"{check.candidate.id}-b{check.batch_size}" if "batch_size" in keys.lists else check.candidate.id


def _is_opaque(backend: str) -> bool:
    return get_backend(backend).offer.is_opaque


def _check_quantized(keys: MarkKeys, backends: Sequence[str]) -> None:
    """Refuse `quantized` with a `scheme` or a `precision` that contradicts it."""
    if keys.quantized is None:
        return
    if not set(keys.scheme) <= set(ARRIVING):
        raise UsageError(
            "quantized= is a model that is already quantized, so its scheme is given",
            value=f"scheme={', '.join(keys.scheme)}",
            allowed="given, which is the default, or qat, which says that it was trained so",
            fix="leave scheme out",
        )
    pairs = [(backend, precision) for backend in backends for precision in keys.precision]
    if pairs and not any(map(_is_opaque, backends)) and not any(any(_schemes(keys, *pair)) for pair in pairs):
        raise UsageError(
            "quantized= needs a quantized precision",
            value=", ".join(keys.precision),
            allowed=f"{', '.join(QUANTIZED_PRECISIONS)}; fp16 for a file of halves in backend='ort'",
            fix="write precision='int8'",
        )


def _schemes(keys: MarkKeys, backend: str, precision: str) -> tuple[str | None, ...]:
    """Return the schemes to build; without a scheme in the mark, static if offered, else the backend's first."""
    offered = get_backend(backend).offer.precisions.get(precision, ())
    if precision not in QUANTIZED_PRECISIONS and (keys.quantized is None or ARRIVING[0] not in offered):
        return (None,)
    if keys.quantized is not None:
        return keys.scheme or ARRIVING[:1]
    return keys.scheme or (_DEFAULT_SCHEME if _DEFAULT_SCHEME in offered or not offered else offered[0],)


def _candidate(keys: MarkKeys, backend: str, precision: str, scheme: str | None) -> EngineSpec:
    return EngineSpec(
        backend=backend,
        precision=precision,
        scheme=scheme,
        model=_name_model(keys.model or "quant_model"),
        quantized=_name_model(keys.quantized)
        if keys.quantized and (scheme in ARRIVING or _is_opaque(backend))
        else None,
        calibration=keys.calibration,
        exclude=keys.exclude,
        options=keys.options,
        cpus=keys.cpus,
    )


def _name_model(source: ModelSource) -> Model:
    return source if isinstance(source, Model) else Model(name=str(source))


def _check(keys: MarkKeys, candidate: EngineSpec, batch_size: int) -> Check:
    reference = _reference(keys, candidate)
    return Check(
        nodeid="",
        series_nodeid="",
        candidate=candidate,
        reference=reference,
        dataset=Dataset("arrays", None),
        limits=_limits(keys.limits, candidate),
        metric=keys.metric,
        output=keys.output,
        channels=keys.channels,
        latency=LatencyPlan(batch_size=batch_size),
        batch_size=batch_size,
        eval_batch_size=keys.eval_batch_size,
        latency_sample=keys.latency_sample,
        reference_precision=keys.reference_precision,
        timed_reference=timed_reference(reference, keys.reference_precision),
    )


def _reference(keys: MarkKeys, candidate: EngineSpec) -> EngineSpec:
    """Return the reference at exact FP32, or a function at what it has; another backend gets no options."""
    backend = keys.reference or candidate.backend
    options = keys.options if backend == candidate.backend else ()
    precision = _UNKNOWN if _is_opaque(backend) else "fp32"
    reference = EngineSpec(backend, precision, None, candidate.model, options=options)
    return set_tf32(reference, allowed=False)


def timed_reference(reference: EngineSpec, precision: str) -> EngineSpec | None:
    """Return the engine that latency is compared with, ``None`` if that is `reference`.

    Parameters
    ----------
    reference : the engine at exact FP32.
    precision : one of `REFERENCE_PRECISIONS`.

    Raises
    ------
    UsageError : the backend of the reference does not offer it; the message says what it offers.
    """
    if precision == (reference.precision or "fp32"):
        return None
    offer = get_backend(reference.backend).offer
    floats = {name for name, schemes in offer.precisions.items() if None in schemes}
    names = set() if offer.is_opaque else floats | ({TF32} & offer.options.keys())
    offered = [name for name in REFERENCE_PRECISIONS if name in names]
    if precision not in offered:
        raise UsageError(
            f"backend '{reference.backend}' has no {precision} to compare latency with",
            value=f"reference_precision='{precision}'",
            allowed=", ".join(offered) or None,
            fix="leave reference_precision out",
        )
    return set_tf32(reference, allowed=True) if precision == TF32 else replace(reference, precision=precision)


def _limits(limits: Limits, candidate: EngineSpec) -> Limits:
    """Add the coverage that a quantized engine must prove; of fp32 there is nothing to prove.

    Nor of an engine that its backend offers for accuracy only, because it has no such kernels; its notes say so.

    Raises
    ------
    UsageError : a limit is set on what cannot be read back of a function.
    """
    if _is_opaque(candidate.backend):
        for name in limits_on("coverage", "resources"):
            if getattr(limits, name) is not None:
                raise UsageError(
                    f"{name} limits what cannot be read back of a callable",
                    value=f"{name}={getattr(limits, name):g}",
                    allowed="limits on scores, outputs and latency",
                    fix=f"leave {name} out",
                )
        return limits
    if candidate.precision == "fp32":
        return replace(limits, min_coverage=None)
    is_set = limits.min_coverage is not None or candidate.precision not in QUANTIZED_PRECISIONS
    if is_set or get_backend(candidate.backend).refuses_speed(candidate) is not None:
        return limits
    return replace(limits, default_min_coverage=50)


def fill_in(check: Check, model: Model, quantized: Model | None, dataset: Dataset) -> Check:
    """Return `check` with its model and its data; `quantized` is for a candidate whose mark names one."""
    filled = replace(check.map_engines(lambda spec: replace(spec, model=model)), dataset=dataset)
    if check.candidate.quantized is None:
        return filled
    return replace(filled, candidate=replace(filled.candidate, quantized=quantized))


def check_backends(check: Check) -> None:
    """Let each backend refuse options, calibration, precision or a limit on speed; loads no runtime.

    Raises
    ------
    UsageError : a backend refuses, the message names the key and what is allowed; or a function is alone.
    """
    if not check.engines:
        return
    if _is_opaque(check.candidate.backend) and check.candidate.quantized is None:
        raise UsageError(
            "a callable is compared with another model, and the mark names one only",
            allowed="model= for the reference, quantized= for the candidate",
            fix="write quantized='my_engine', a fixture that returns Model.from_callable(fn, version='...')",
        )
    for spec in check.engines:
        get_backend(spec.backend).check(spec)
    refusal = get_backend(check.candidate.backend).refuses_speed(check.candidate)
    if refusal is not None and check.limits.judges_latency:
        raise refusal
