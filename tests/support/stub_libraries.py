"""Native libraries that hold names only, compiled for a test: the loader is the real one.

They stand where a machine has none of NVIDIA's: nothing in them is ever called.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

_NVIDIA = re.compile(r"Shared library: \[(lib(?:cu|nv)[^]]*)\]")


def require_compiler() -> None:
    """Skip the test where a compiler or binutils are missing."""
    for name in ("cc", "nm", "readelf"):
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here")


def compile_library(file: Path, *, symbols: Iterable[str] = (), needs: Sequence[Path] = (), version: str = "") -> Path:
    """Compile `file`, whose name is the one it is asked for by.

    Parameters
    ----------
    symbols : functions that it has, which do nothing.
    needs : libraries that it is linked with, without a path to them.
    version : of its symbols, as the linker writes it beside them; empty for none.
    """
    source = file.with_name(f"{file.name}.c")
    source.write_text("\n".join(f"void {name}(void){{}}" for name in sorted(symbols)))
    command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", str(file), f"-Wl,-soname,{file.name}"]
    if version:
        script = file.with_name(f"{file.name}.map")
        script.write_text(f"{version} {{ global: *; }};")
        command.append(f"-Wl,--version-script={script}")
    subprocess.run([*command, str(source), "-Wl,--no-as-needed", *map(str, needs)], check=True, capture_output=True)
    return file


def compile_for(libraries: Iterable[Path], folder: Path) -> list[Path]:
    """Compile a stub of every library of NVIDIA's that `libraries` want, with every symbol that they want of it."""
    wanted: dict[str, set[str]] = {}
    for library in libraries:
        for name in _NVIDIA.findall(_said("readelf", "-d", str(library))):
            wanted.setdefault(name, set())
        for line in _said("nm", "-D", "--undefined-only", str(library)).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            # The driver's and TensorRT's symbols have no version, and neither have those of ONNX Runtime.
            place = version or ("libcuda.so.1" if name.startswith("cu") else "libnvonnxparser.so.10")
            if kind == "U" and place in wanted and not name.startswith("Provider_"):
                wanted[place].add(name)
    versioned = {name for name in wanted if name.startswith("libcu") and name != "libcuda.so.1"}
    return [
        compile_library(folder / name, symbols=symbols, version=name if name in versioned else "")
        for name, symbols in wanted.items()
    ]


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


TENSORRT = """
import ctypes
from pathlib import Path

__version__ = "{version}"
for _library in sorted(Path(__file__).parent.glob("libnv*.so.*[0-9]")):
    ctypes.CDLL(str(_library))
{more}
"""


def write_tensorrt(folder: Path, version: str, more: str = "") -> Path:
    """Write a package ``tensorrt`` that loads the libraries beside it, as NVIDIA's does, and return its folder."""
    package = folder / "tensorrt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TENSORRT.format(version=version, more=more))
    return package
