"""Several marks on one test: the closest wins, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.marked import NAME
from pytest_quant.marks.asked import Asked, read
from pytest_quant.marks.keys import LISTABLE, check_names
from pytest_quant.marks.metric import check_accuracy


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
    for mark in (*parameter_marks, *marks):
        check_names(mark.args, mark.kwargs)
        read(mark.kwargs, backends)
    merged = _merge(marks)
    lists = _lists(merged)
    for mark in parameter_marks:
        _check_parameter(mark.kwargs, lists)
    values = _merge((*parameter_marks, *marks))
    asked = read(values, backends, lists)
    check_accuracy(values.get("min_accuracy"), asked.metric)
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
