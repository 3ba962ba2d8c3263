"""What OpenVINO says when it refuses, as an error that names the operator, the cause and the next step."""

from __future__ import annotations

import re

from pytest_quant.backends.failure import failed
from pytest_quant.errors import QuantError

_NOISE = re.compile(r"^(Exception from|Check '.*' failed at|\[.*\] Exception from).*$", re.MULTILINE)
_OPERATORS = re.compile(r"No conversion rule found for operations: (?P<names>[^\n]+)")
_OPSET = re.compile(r"-\d+(?=,|$)")
_FIX = "check that the float model runs in OpenVINO alone: openvino.Core().compile_model(path, 'CPU')"


def refused(doing: str, error: Exception, fix: str = _FIX) -> QuantError:
    """Return the error for what OpenVINO or NNCF raised while `doing` something; ours pass through."""
    if isinstance(error, QuantError):
        return error
    text = str(error)
    unknown = _OPERATORS.search(text)
    if unknown is not None:
        names = _OPSET.sub("", unknown["names"].strip())
        return failed(
            f"OpenVINO refused {doing}: it has no operator {names}",
            error,
            value=unknown[0].strip(),
            fix="export the model with standard operators, or use a runtime that knows this one",
        )
    lines = [line.strip() for line in _NOISE.sub("", text).splitlines() if line.strip()]
    cause = " ".join(lines) or text.strip() or type(error).__name__
    return failed(f"OpenVINO refused {doing}", error, value=f"{type(error).__name__}: {cause}", fix=fix)
