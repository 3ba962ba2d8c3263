"""The network under test, before any backend has touched it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Model:
    """A network to quantize or one that already is: an ONNX file, or a torch module.

    Attributes
    ----------
    name : what tables and histories call it; never a digest.
    path : the ONNX file, external data beside it; ``None`` for a torch module.
    module, example_inputs : a ``torch.nn.Module`` and one tuple of inputs for it.
    dynamic : which axes of a module's inputs are free: ``True`` the leading one of each, ``False`` none, or
        a tuple of axes by the input's name, ``(("ids", (0, 1)), ...)``.
    """

    name: str
    path: Path | None = None
    module: object | None = field(default=None, compare=False, repr=False)
    example_inputs: object | None = field(default=None, compare=False, repr=False)
    dynamic: bool | tuple[tuple[str, tuple[int, ...]], ...] = True

    @classmethod
    def from_onnx(cls, path: str | os.PathLike[str], *, name: str | None = None) -> Model:
        """Name an ONNX file; it is read when an engine is built, not now."""
        file = Path(path)
        return cls(name=name or file.stem, path=file)

    @classmethod
    def from_torch(
        cls,
        module: object,
        example_inputs: object,
        *,
        dynamic: bool | Mapping[str, Sequence[int]] = True,
        name: str | None = None,
    ) -> Model:
        """Name a ``torch.nn.Module`` together with one tuple of inputs that it accepts.

        Parameters
        ----------
        dynamic : which axes of the inputs are free: the leading one of each (``True``), none (``False``), or
            those named, ``{"ids": (0, 1)}``; an input that is not named has none.
        """
        free = dynamic if isinstance(dynamic, bool) else tuple((key, tuple(axes)) for key, axes in dynamic.items())
        return cls(name=name or type(module).__name__, module=module, example_inputs=example_inputs, dynamic=free)
