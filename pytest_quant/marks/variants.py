"""The engines that a test's marks name: every combination once, each with a readable id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pytest

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.keys import LISTABLE, Asked, check_names, check_scores, read
from pytest_quant.marks.marked import NAME
from pytest_quant.spec import QUANTIZED_PRECISIONS

Offer = Mapping[str, tuple[str | None, ...]]
"""Precisions of a backend, each with its schemes; see `pytest_quant.backends.Backend.schemes`."""

DEFAULT_PRECISION = "int8"
DEFAULT_SCHEME = "static"


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine of a mark, and the batch size at which it is timed."""

    backend: str
    precision: str
    scheme: str | None
    batch_size: int
    id: str

    @property
    def is_quantized(self) -> bool:
        """Whether the precision is one that quantizes."""
        return self.scheme is not None


def variants(asked: Asked, default_backend: str, offer: Callable[[str], Offer]) -> tuple[Variant, ...]:
    """Return the combinations of backend, precision, scheme and batch size that a mark asks for, without doubles.

    Parameters
    ----------
    asked : the keys of the mark.
    default_backend : the backend of a mark that names none.
    offer : returns the schemes that a backend has, by precision.

    Raises
    ------
    UsageError : keys contradict each other, or a backend does not offer what is asked.
    """
    _check_quantized(asked)
    found: list[Variant] = []
    for backend in asked.backends or (default_backend,):
        offered = offer(backend)
        for precision in asked.precisions or (DEFAULT_PRECISION,):
            for scheme in _schemes(asked, backend, precision, offered):
                found += _sized(asked, backend, precision, scheme)
    return tuple(found)


def _check_quantized(asked: Asked) -> None:
    """Refuse `quantized` and `scheme` or `precision` that contradict each other."""
    if asked.quantized is None:
        if "qat" in asked.schemes:
            raise UsageError(
                "scheme 'qat' needs the model that is already quantized",
                allowed="quantized= with a path or a fixture",
                fix="write quantized='models/resnet18_qat.onnx'",
            )
        return
    if asked.schemes not in ((), ("qat",)):
        raise UsageError(
            "quantized= is a model that is already quantized, so its scheme is qat",
            value=f"scheme={', '.join(asked.schemes)}",
            fix="leave scheme out",
        )
    if asked.precisions and not set(asked.precisions) & set(QUANTIZED_PRECISIONS):
        raise UsageError(
            "quantized= needs a quantized precision",
            value=", ".join(asked.precisions),
            allowed=", ".join(QUANTIZED_PRECISIONS),
            fix="write precision='int8'",
        )


def _schemes(asked: Asked, backend: str, precision: str, offered: Offer) -> tuple[str | None, ...]:
    """Return the schemes to build; an unwritten one is static where offered, else the backend's first."""
    if precision not in offered:
        raise UsageError(f"backend '{backend}' does not offer '{precision}'", allowed=nearest(precision, offered))
    if precision not in QUANTIZED_PRECISIONS:
        return (None,)
    known = tuple(scheme for scheme in offered[precision] if scheme is not None)
    if asked.quantized is not None:
        wanted: tuple[str, ...] = ("qat",)
    elif asked.schemes:
        wanted = asked.schemes
    else:
        wanted = (DEFAULT_SCHEME,) if DEFAULT_SCHEME in known else known[:1]
    for scheme in wanted:
        if scheme not in known:
            raise UsageError(
                f"backend '{backend}' does not offer {precision} with the scheme '{scheme}'",
                allowed=nearest(scheme, known),
            )
    return wanted


def _sized(asked: Asked, backend: str, precision: str, scheme: str | None) -> Iterator[Variant]:
    engine = "-".join(part for part in (backend, precision, scheme) if part)
    for batch_size in asked.batch_sizes or (1,):
        suffix = f"-b{batch_size}" if "batch_size" in asked.lists else ""
        yield Variant(backend, precision, scheme, batch_size, engine + suffix)


class Written(Protocol):
    """What is read of a pytest mark."""

    @property
    def args(self) -> tuple[object, ...]:
        """Positional arguments."""

    @property
    def kwargs(self) -> Mapping[str, object]:
        """Keys by name."""


def combine(marks: Sequence[Written], parameter_marks: Sequence[Written] = (), *, backends: tuple[str, ...]) -> Asked:
    """Check each mark, then merge them.

    Parameters
    ----------
    marks : of the test function, its class and its module, the closest first.
    parameter_marks : of the ``pytest.param`` of this item; closer than all others, and without lists.
    backends : names that are registered.

    Raises
    ------
    UsageError : a mark is wrong in itself, or a ``pytest.param`` sets what a list parametrizes.
    """
    written = (*parameter_marks, *marks)
    for mark in written:
        check_names(mark.args, mark.kwargs)
        if len(written) > 1:
            # What a closer mark hides is checked too.
            read(mark.kwargs, backends)
    merged = _merge(marks)
    lists = _lists(merged)
    for mark in parameter_marks:
        _check_parameter(mark.kwargs, lists)
    values = _merge((*parameter_marks, *marks))
    asked = read(values, backends, lists)
    check_scores(values, asked.metric)
    return asked


def closest_first(node: pytest.Item | pytest.Collector) -> tuple[list[pytest.Mark], list[pytest.Mark]]:
    """Return the quant marks of `node`: those of its ``pytest.param``, and all others, the closest first.

    pytest lists a parameter's marks after its function's, and a base class's before the derived one's.
    """
    callspec = getattr(node, "callspec", None)
    of_parameter = [mark for mark in getattr(callspec, "marks", ()) if mark.name == NAME]
    known = {id(mark) for mark in of_parameter}
    others: list[pytest.Mark] = []
    for parent in node.iter_parents():
        own = [mark for mark in parent.own_markers if mark.name == NAME and id(mark) not in known]
        others += _derived_first(parent, own) if isinstance(parent, pytest.Class) else own
    return of_parameter, others


def _derived_first(node: pytest.Class, marks: list[pytest.Mark]) -> Iterable[pytest.Mark]:
    classes = list(_pytestmarks(node.obj))

    def distance(mark: pytest.Mark) -> int:
        return next((place for place, written in enumerate(classes) if id(mark) in written), -1)

    return sorted(marks, key=distance)


def _pytestmarks(cls: type) -> Iterator[set[int]]:
    """Yield the identities of the marks written on each class, the derived class first."""
    for base in cls.__mro__:
        written = base.__dict__.get("pytestmark", [])
        listed = written if isinstance(written, list) else [written]
        yield {id(getattr(mark, "mark", mark)) for mark in listed}


def _merge(marks: Sequence[Written]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for mark in reversed(marks):
        merged.update(mark.kwargs)
    return merged


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


def series_nodeid(nodeid: str, variant_id: str | None) -> str:
    """Remove `variant_id` from the brackets of `nodeid`, and the brackets when nothing else is in them.

    ``test_a.py::test_a[cpu-ort-int8-static]`` with ``ort-int8-static`` becomes ``test_a.py::test_a[cpu]``.
    """
    if not variant_id or not nodeid.endswith("]"):
        return nodeid
    if nodeid.endswith(f"[{variant_id}]"):
        return nodeid.removesuffix(f"[{variant_id}]")
    if nodeid.endswith(f"-{variant_id}]"):
        return nodeid.removesuffix(f"-{variant_id}]") + "]"
    head, _, parameters = nodeid.partition("[")
    return f"{head}[{parameters.removeprefix(f'{variant_id}-')}"
