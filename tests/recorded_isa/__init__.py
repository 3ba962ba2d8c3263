"""What runtimes said on machines of several instruction sets, one folder for each, written by `tests.record_isa`.

``*_apart.xml`` is the model of the file before it, compiled without fusing; ``*_unpinned_*.xml`` a float model that may
run in bfloat16. ``*.as_run.json`` is a profile of ONNX Runtime with every optimization that a user's session has,
``*.profile.json`` one of the session that is read back.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from pytest_quant.backends.openvino.coverage import PluginLayer

RECORDED = Path(__file__).parent


def layers_in(file: Path) -> list[PluginLayer]:
    """Return the layers of a runtime model that OpenVINO serialized."""
    result = []
    for layer in ElementTree.parse(file).getroot().iter("layer"):  # noqa: S314 - written by this project
        data = layer.find("data")
        assert data is not None
        reads = layer.findall("./input/port")
        result.append(
            PluginLayer(
                name=layer.attrib["name"],
                kind=layer.attrib["type"],
                kernel=data.attrib["primitiveType"],
                precision=data.attrib["runtimePrecision"],
                origins=tuple(name for name in data.attrib["originalLayersNames"].split(",") if name),
                input_types=tuple(port.attrib["precision"].replace("FP", "f").lower() for port in reads),
            )
        )
    return result
