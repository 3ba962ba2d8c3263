"""The network under test, before any backend has touched it."""

from __future__ import annotations

import os
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
    """

    name: str
    path: Path | None = None
    module: object | None = field(default=None, compare=False, repr=False)
    example_inputs: object | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_onnx(cls, path: str | os.PathLike[str], *, name: str | None = None) -> Model:
        """Name an ONNX file; it is read when an engine is built, not now."""
        file = Path(path)
        return cls(name=name or file.stem, path=file)

    @classmethod
    def from_torch(cls, module: object, example_inputs: object, *, name: str | None = None) -> Model:
        """Name a ``torch.nn.Module`` together with one tuple of inputs that it accepts."""
        return cls(name=name or type(module).__name__, module=module, example_inputs=example_inputs)
