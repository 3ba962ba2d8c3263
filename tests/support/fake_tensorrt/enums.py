"""The enumerations of a fake TensorRT, those of version 10 and of version 11 where they differ."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

DataType = Enum("DataType", {"FLOAT": 0, "INT64": 8})
TensorIOMode = Enum("TensorIOMode", {"INPUT": 1, "OUTPUT": 2})
TensorLocation = Enum("TensorLocation", {"DEVICE": 0, "HOST": 1})
LayerInformationFormat = Enum("LayerInformationFormat", {"ONELINE": 0, "JSON": 1})
ProfilingVerbosity = Enum("ProfilingVerbosity", {"LAYER_NAMES_ONLY": 0, "NONE": 1, "DETAILED": 2})
EngineStat = Enum("EngineStat", {"TOTAL_WEIGHTS_SIZE": 0})
MemoryPoolType = Enum("MemoryPoolType", {"WORKSPACE": 0})


def builder_flag(major: int) -> Any:
    """Return the flags of a build: version 11 has none for types."""
    old = {"INT8": 1, "FP16": 0, "BF16": 17} if major < 11 else {}
    return IntEnum("BuilderFlag", {**old, "TF32": 6})


def network_flag(major: int) -> Any:
    """Return the flags of a network, whose bits moved with version 11."""
    members = {"EXPLICIT_BATCH": 0, "STRONGLY_TYPED": 1} if major < 11 else {"STRONGLY_TYPED": 0}
    return IntEnum("NetworkDefinitionCreationFlag", members)
