"""Several marks of one test as one: which is closest, what each key says, and which lists parametrize."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.marks.keys import LISTABLE, MarkKeys, check_names, check_scores, read
from pytest_quant.marks.marked import NAME


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
    merged = _merge(marks)
    lists = _lists(merged)
    for mark in parameter_marks:
        _check_parameter(mark.kwargs, lists)
    values = _merge((*parameter_marks, *marks))
    keys = read(values, lists)
    check_scores(values, keys.metric)
    return keys


def closest_first(node: pytest.Item | pytest.Collector) -> tuple[list[pytest.Mark], list[pytest.Mark]]:
    """Return the quant marks of `node`: those of its ``pytest.param``, and all others, the closest first.

    pytest lists a parameter's marks after its function's, and a base class's before the derived one's.
    """
    callspec = getattr(node, "callspec", None)
    of_parameter = [mark for mark in getattr(callspec, "marks", ()) if mark.name == NAME]
    seen = {id(mark) for mark in of_parameter}
    others: list[pytest.Mark] = []
    for parent in node.iter_parents():
        own = [mark for mark in parent.own_markers if mark.name == NAME and id(mark) not in seen]
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


def _merge(marks: Sequence[pytest.Mark]) -> dict[str, object]:
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


def series_nodeid(nodeid: str, listed: str | None) -> str:
    """Remove what the lists of a mark add, `listed`, from the brackets of `nodeid`, and brackets that are then empty.

    ``test_a.py::test_a[cpu-ort-int8-static]`` with ``ort-int8-static`` becomes ``test_a.py::test_a[cpu]``.
    """
    if not listed or not nodeid.endswith("]"):
        return nodeid
    if nodeid.endswith(f"[{listed}]"):
        return nodeid.removesuffix(f"[{listed}]")
    if nodeid.endswith(f"-{listed}]"):
        return nodeid.removesuffix(f"-{listed}]") + "]"
    head, _, parameters = nodeid.partition("[")
    return f"{head}[{parameters.removeprefix(f'{listed}-')}"
