"""Reading one value of a mark: its type, its range, its nearest valid choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real

from pytest_quant.errors import UsageError, nearest

Values = Mapping[str, object]
"""Keys of a mark; a key that is absent or ``None`` is not set."""


def number(values: Values, key: str) -> float | None:
    """Read a finite number that is at least 0."""
    value = values.get(key)
    return None if value is None else plain_number(key, value)


def plain_number(key: str, value: object) -> float:
    """Return `value`, a whole number as it is and any other as a float; refuse what is not finite and at least 0.

    Messages write a limit as its mark does: ``1`` stays ``1``, and ``1.0`` stays ``1.0``.
    """
    if isinstance(value, list):
        raise UsageError(
            f"{key} takes one number, not a list",
            value=repr(value),
            allowed="lists of backend, precision, scheme and batch_size parametrize; limits hold for each of them",
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{key} must be a number", value=repr(value), fix=f"write {key}=1.0")
    found = float(value)
    if not math.isfinite(found) or found < 0.0:
        raise UsageError(f"{key} must be finite and at least 0", value=repr(value), fix=f"write {key}=1.0")
    return int(value) if isinstance(value, Integral) else found


def percent_minimum(values: Values, key: str) -> float | None:
    """Read a minimum in percent; a share between 0 and 1 is a mistake that would let nearly anything pass."""
    value = values.get(key)
    found = number(values, key)
    if found is not None:
        refuse_share(key, value, found)
    return found


def refuse_share(key: str, value: object, found: float) -> None:
    """Refuse a percentage written as a share, or above 100; the float 1.0 is a share, the int 1 is one percent."""
    if 0.0 < found < 1.0 or (found == 1.0 and isinstance(value, float)):
        raise UsageError(f"{key} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {100 * found:g}")
    if found > 100.0:
        raise UsageError(f"{key} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {key}=100")


def choice(key: str, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is one of the `known` names."""
    names = tuple(known)
    if not isinstance(value, str):
        raise UsageError(f"{key} must be a name", value=repr(value), allowed=", ".join(sorted(names)))
    if value not in names:
        raise UsageError(f"unknown {key} '{value}'", allowed=nearest(value, names))
    return value


def choices(values: Values, key: str, known: Iterable[str]) -> tuple[str, ...]:
    """Read a name or a list of names; an unset key gives none."""
    names = tuple(known)
    return tuple(dict.fromkeys(choice(key, value, names) for value in _listed(values, key)))


def counts(values: Values, key: str) -> tuple[int, ...]:
    """Read a count of at least 1 or a list of them; an unset key gives none."""
    return tuple(dict.fromkeys(count(key, value) for value in _listed(values, key)))


def count(key: str, value: object) -> int:
    """Return `value` if it is an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{key} must be a whole number of at least 1", value=repr(value), fix=f"write {key}=1")
    return int(value)


def text(values: Values, key: str) -> str | None:
    """Read a text that is not empty."""
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{key} must be a name", value=repr(value), fix=f"write {key}='name'")
    return value


def _listed(values: Values, key: str) -> list[object] | tuple[object, ...]:
    value = values.get(key)
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        if not value:
            raise UsageError(f"{key} is an empty list", allowed="one value or several", fix=f"leave {key} out")
        return value
    return (value,)
