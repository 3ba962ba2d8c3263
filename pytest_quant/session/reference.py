"""The reference is FP32, proven by what it runs."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends import Feeds
from pytest_quant.errors import ModelError
from pytest_quant.session.sides import Side, Tools

_ALL_PCT = 100.0


def prove_float(side: Side, feeds: Feeds, tools: Tools) -> None:
    """Raise `ModelError` when the reference runs kernels that are not float; asked once for each engine.

    `feeds` is one batch under the engine's names.
    """
    spec = side.spec

    def read_back(_: Path) -> dict[str, str]:
        with tools.step(f"reading back what {spec.id} of {spec.model.name} runs"):
            found = side.engine.coverage(feeds)
        if found.pct is not None and found.pct < _ALL_PCT:
            raise ModelError(
                f"the reference {spec.id} of {spec.model.name} does not compute in FP32: its file is quantized or half",
                value=f"{found.pct:.4g} % of {found.unit} ran in float32, not {', '.join(found.float_nodes) or 'all'}",
                allowed="a float32 model as the reference",
                fix="give the float32 model as the model; the quantized one goes to quantized='model_int8.onnx'",
            )
        return {"provider": found.provider}

    tools.cache.obtain(
        "proof", f"float kernels of {spec.id} of {spec.model.name}", side.backend.ingredients(spec), read_back
    )
