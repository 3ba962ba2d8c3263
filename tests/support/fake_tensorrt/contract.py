"""What a fake may have: nothing that the real module lacks, and no other parameters or values.

The real module is read in a process that can load it, ``python -m tests.support.fake_tensorrt.contract MODULE``, by the
signatures that pybind11 and Cython put into the documentation of what they compile.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from typing import Any

Api = dict[str, Any]
"""Of a function its overloads, each a list of ``[name, has a default]``; of an enumeration values by name; of another
class its members; of anything else an empty string."""


def differences(fake: object, real: Api, names: Mapping[str, object]) -> list[str]:
    """Return what of `fake` the real module does not have, a line each.

    Parameters
    ----------
    fake : a module, with its functions and enumerations.
    real : what `read` tells of the real one.
    names : of the classes that are compared member by member, with an instance of each.
    """
    found = []
    for name, ours in _public(fake):
        if name not in real:
            found.append(f"{name} does not exist")
        elif name in names:
            found += [f"{name}.{line}" for line in _members(names[name], real[name])]
        else:
            found += _compared(name, ours, real[name])
    return found


def _members(instance: object, real: Api) -> list[str]:
    found = []
    for name, ours in _public(instance):
        found += _compared(name, ours, real[name]) if name in real else [f"{name} does not exist"]
    return found


def _compared(name: str, ours: object, real: Any) -> list[str]:
    if isinstance(ours, type) and issubclass(ours, Enum):
        known = {member.name: member.value for member in ours}
        return [
            f"{name}.{key} is {real.get(key)}, not {value}" for key, value in known.items() if real.get(key) != value
        ]
    if not callable(ours):
        return [] if real == "" else [f"{name} is no attribute"]
    wanted = list(inspect.signature(ours).parameters)
    if not isinstance(real, list) or not any(_takes(overload, wanted) for overload in real):
        return [f"{name}({', '.join(wanted)}) is {real}"]
    return []


def _takes(overload: list[tuple[str, bool]], wanted: list[str]) -> bool:
    names = [name for name, _ in overload]
    return names[: len(wanted)] == wanted and all(default for _, default in overload[len(wanted) :])


def _public(found: object) -> list[tuple[str, Any]]:
    return [(name, getattr(found, name)) for name in dir(found) if not name.startswith("_") and hasattr(found, name)]


def read_real(module: str, environment: Mapping[str, str]) -> Api:
    """Return the API of `module` as a process with these variables sees it."""
    command = (sys.executable, "-m", __name__, module)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(environment))
    assert ended.returncode == 0, ended.stderr
    found: Api = json.loads(ended.stdout)
    return found


def read(found: object) -> Api:
    """Return the API of a compiled module."""
    return {name: _described(name, one) for name, one in _public(found)}


def _described(name: str, found: Any) -> Any:
    members = getattr(found, "__members__", None)
    if members is not None:
        return {key: int(getattr(member, "value", member)) for key, member in members.items()}
    if inspect.isclass(found):
        return {key: _described(key, getattr(found, key)) for key in dir(found) if not key.startswith("_")}
    if isinstance(found, property) or not callable(found):
        return ""
    signatures = re.findall(rf"^(?:\d+\. )?{name}\((.*)\)(?: -> .*)?$", found.__doc__ or "", re.MULTILINE)
    return [_parameters(text) for text in signatures]


def _parameters(text: str) -> list[tuple[str, bool]]:
    """Return names and whether there is a default of ``self: T, name: dict[str, int] = {}`` or ``size_t size``."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(<{") - (character in "])>}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    found = [(part.partition("=")[0].partition(":")[0].split()[-1], "=" in part) for part in parts if part.strip()]
    return [one for one in found if one[0] != "self"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(import_module(sys.argv[1]))))
