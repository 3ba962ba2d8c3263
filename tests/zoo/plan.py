"""Which checks each model gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.zoo.entry import Entry
from tests.zoo.project import Combination

GPU = {"compute_capability": "SM89"}
UNCOMPILED = {"compiled": False}
"""PyTorch's engine as a float simulation: what Inductor compiles is compared with in the conformance tests."""

EVERY = (
    ("ort", "int8", "static", None),
    ("ort", "int8", "dynamic", None),
    ("ort", "int4", "weight-only", None),
    ("openvino", "int8", "static", None),
    ("trt-rtx", "int8", "static", GPU),
)
MODULE_CHECKS = (
    ("ort", "int8", "static", None),
    ("ort", "int8", "dynamic", None),
    ("openvino", "int8", "static", None),
    ("torch", "int8", "static", UNCOMPILED),
)
FEW = {
    "orientation": ("openvino static",),
    "orientation_external": ("ort static",),
    "captcha": ("ort dynamic",),
    "faces": ("ort static",),
    "faces_free": ("ort static",),
    "nudity": ("trt-rtx static",),
    "table_structure": ("openvino static",),
    "voice": ("ort static",),
    "voice_memory": ("ort static",),
    "echo": ("ort static",),
    "lossy_call": ("ort static", "openvino static"),
    "notes": ("ort static",),
    "pitch": ("ort static",),
    "morphemes": ("ort dynamic", "openvino static"),
    "validity": ("ort static", "openvino static"),
}
"""What the test command runs: the cheapest checks that still show every kind of model."""


def all_checks(entries: Iterable[Entry]) -> list[Combination]:
    """Every backend and scheme for every model."""
    return [Combination(entry.name, *what) for entry in entries for what in EVERY]


def few_checks(entries: Iterable[Entry]) -> list[Combination]:
    """The checks of the test command."""
    return [
        Combination(entry.name, *what)
        for entry in entries
        for what in EVERY
        if f"{what[0]} {what[2]}" in FEW.get(entry.name, ())
    ]


def module_checks(names: Sequence[str]) -> list[Combination]:
    """Every runtime that takes a module."""
    return [Combination(name, *what) for name in names for what in MODULE_CHECKS]
