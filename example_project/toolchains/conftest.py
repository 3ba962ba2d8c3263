"""The fixtures of this folder, which need PyTorch; without it nothing here is collected, and the header says so."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = ("torch", "torchao", "onnxscript", "safetensors", "tokenizers", "PIL")
MISSING = [name for name in NEEDED if find_spec(name) is None]

if MISSING:
    collect_ignore_glob = ["test_*.py"]
else:
    from fixtures import (  # noqa: F401 - pytest finds fixtures by their names here
        digits_module,
        digits_qat,
        digits_samples,
        efficientnet,
        images,
        minilm,
        review_samples,
        reviews,
    )


def pytest_report_header() -> str:
    """Say what to install where something is missing."""
    return f"toolchains: not collected, {', '.join(MISSING)} not installed; see README.md" if MISSING else ""
