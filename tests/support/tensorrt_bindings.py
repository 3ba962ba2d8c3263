"""Libraries in the place of NVIDIA's: stubs that hold names only, and the real bindings of TensorRT on empty ones.

The loader is the real one, and nothing in a stub is ever called. Bindings of TensorRT 10 and 11 come from a registry;
the libraries behind them do not. They are asked for by name and called only when an object is made, so that empty ones
let the bindings load: every class, enum, method and signature is then the real one, and nothing can be built or run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

MAJORS = (10, 11)
_LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser")
_FUNCTIONS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "getPluginRegistry",
    "initLibNvInferPlugins",
)
"""What the bindings import from the libraries; ``nm -D --undefined-only tensorrt.so`` lists them."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """Installed bindings.

    Attributes
    ----------
    packages : folder to import ``tensorrt`` from.
    libraries : folder of the empty libraries, for ``LD_LIBRARY_PATH``; without it ``import tensorrt`` fails as it does
        where the wheels of the libraries are missing.
    """

    packages: Path
    libraries: Path

    def environment(self) -> dict[str, str]:
        """Return variables for a process that imports ``tensorrt``."""
        paths = os.pathsep.join(filter(None, (str(self.packages), os.environ.get("PYTHONPATH"))))
        return {**os.environ, "PYTHONPATH": paths, "LD_LIBRARY_PATH": str(self.libraries)}


def install(folder: Path, major: int) -> Bindings:
    """Install the newest bindings of version `major` into `folder`, and compile the libraries that they ask for.

    The test is skipped where there is no C compiler or where the wheel cannot be had.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the libraries that TensorRT's bindings ask for")
    packages, libraries = folder / "packages", folder / "libraries"
    wheel = f"tensorrt-cu13-bindings>={major},<{major + 1}"
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), wheel)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        pytest.skip(f"{wheel} could not be installed: {ended.stderr.strip()[-200:]}")
    package = packages / "tensorrt"
    package.mkdir()
    package.joinpath("__init__.py").write_text(
        "from tensorrt_bindings import *\nfrom tensorrt_bindings import __version__\n"
    )
    libraries.mkdir()
    source = folder / "empty.c"
    source.write_text("\n".join(f"void *{name}(void) {{ return 0; }}" for name in _FUNCTIONS))
    for name in _LIBRARIES:
        target = libraries / f"lib{name}.so.{major}"
        subprocess.run((compiler, "-shared", "-fPIC", "-o", target, source), check=True)
    return Bindings(packages, libraries)


def write_stubs(bindings: Bindings, folder: Path) -> None:
    """Write the stubs of ``tensorrt`` into `folder`: generated from the bindings, put right where they are no Python.

    Skips the test where pybind11-stubgen is not installed.
    """
    pytest.importorskip("pybind11_stubgen")
    subprocess.run(
        (
            sys.executable, "-m", "pybind11_stubgen", "tensorrt_bindings.tensorrt", "--ignore-all-errors",
            "--output-dir", str(folder / "generated"),
        ),
        env=bindings.environment(), capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    text = (folder / "generated" / "tensorrt_bindings" / "tensorrt.pyi").read_text(encoding="utf-8")
    text = re.sub(r"\bin: ", "in_: ", text)  # a keyword as a parameter
    text = re.sub(r"channel_axis: ([\w.]+)\)", r"channel_axis: \1 = ...)", text)  # behind one with a default
    text = re.sub(r"(: |-> |\[|, )bool\b", r"\1builtins.bool", text)  # the module has a constant of that name
    text = text.replace("import collections.abc", "import builtins\nimport collections.abc", 1)
    # Neither the version nor the buffer protocol shows in what pybind11 tells of itself.
    text = text.replace(
        "class IHostMemory:", "class IHostMemory:\n    def __buffer__(self, flags: int, /) -> memoryview: ...", 1
    )
    package = folder / "tensorrt"
    package.mkdir()
    package.joinpath("__init__.pyi").write_text(f"{text}\n__version__: str\n", encoding="utf-8")


def require_compiler() -> None:
    """Skip the test where there is no compiler."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler here")


def compile_library(file: Path, *, needs: Sequence[Path] = ()) -> Path:
    """Compile an empty library, linked with those that it `needs` without a path to them."""
    source = file.with_name(f"{file.name}.c")
    source.write_text("")
    command = ["cc", "-shared", "-fPIC", "-w", "-o", str(file), f"-Wl,-soname,{file.name}"]
    subprocess.run([*command, str(source), "-Wl,--no-as-needed", *map(str, needs)], check=True, capture_output=True)
    return file


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
