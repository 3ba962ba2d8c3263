"""The engines that one mark names: every combination once, each with a readable id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.asked import Asked
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
    """Return the engines `asked` for, without doubles.

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
