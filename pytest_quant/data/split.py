"""Which samples calibrate: evenly spaced ones, and none that is evaluated."""

from __future__ import annotations

from array import array

from pytest_quant.errors import DataError

_MAX_OVERLAP = 0.1


def evenly_spaced(n: int, k: int) -> list[int]:
    """`k` indices below `n`: ``round(i * (n - 1) / (k - 1))``, and the first alone for ``k == 1``.

    For ``k <= n`` they are `k` different ones: neighbours lie at least 1 apart before rounding.
    """
    return [0] if k == 1 else [round(i * (n - 1) / (k - 1)) for i in range(k)]


def calibration_count(asked: float, n: int, what: str) -> int:
    """Turn a count or a share of `n` samples into a count; a share gives ``max(1, round(share * n))``.

    Raises
    ------
    DataError : nothing would be left to evaluate.
    """
    k = asked if isinstance(asked, int) else max(1, round(asked * n))
    if k >= n:
        raise DataError(
            f"{what}: no sample is left to evaluate",
            value=f"calibration={asked!r} takes {k} of {n} samples",
            allowed=f"fewer than {n}",
            fix="take fewer, or give calibration samples of their own: calibration=inputs",
        )
    return k


def count_overlap(calibration: array[int], evaluation: array[int]) -> int:
    """How many calibration samples have the contents of an evaluation sample, by their input hashes."""
    wanted = set(calibration)
    found = {value for value in evaluation if value in wanted}
    return sum(value in found for value in calibration)


def overlap_note(overlap: int, n_calibration: int, what: str) -> tuple[str, ...]:
    """Say how many calibration samples are evaluated too. Raises `DataError` above 10 % of them."""
    if not overlap:
        return ()
    text = (
        f"{overlap} of {n_calibration} calibration samples have the contents of evaluation samples "
        f"({100 * overlap / n_calibration:.1f} %)"
    )
    if overlap > _MAX_OVERLAP * n_calibration:
        raise DataError(
            f"{what}: {text}: the accuracy would be measured on what was calibrated with",
            allowed="at most 10 % of the calibration samples",
            fix="split by sample, calibration=100 does, and remove duplicates",
        )
    return (f"{what}: {text}",)
