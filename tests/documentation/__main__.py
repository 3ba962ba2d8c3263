"""Build the guides and the API reference as pages: ``python -m tests.documentation [FOLDER]``.

Sources are the guides as they are, and one page for each part of the API, whose text is that of the docstrings. The
pages lie in ``build/pages`` unless a folder is named; nothing of them is committed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.documents import GUIDES, INDEX
from tests.support.example import ROOT

API: Mapping[str, tuple[str, Sequence[str]]] = {
    "api-tests": (
        "API: what tests use",
        (
            *(
                f"autoclass:: pytest_quant.{name}"
                for name in ("Dataset", "Model", "Calibration", "Metric", "Measurement")
            ),
            "automodule:: pytest_quant.errors",
            "automodule:: pytest_quant.strategies.properties",
            "automodule:: pytest_quant.strategies.inputs",
        ),
    ),
    "api-results": (
        "API: what a check found",
        (
            "automodule:: pytest_quant.plugin.hooks",
            "automodule:: pytest_quant.record.record",
            "autoclass:: pytest_quant.record.Run",
            *(
                f"automodule:: pytest_quant.result.{name}"
                for name in ("accuracy", "latency", "proof", "verdict", "kinds", "selftest")
            ),
        ),
    ),
    "api-backends": (
        "API: for authors of backends",
        (
            "automodule:: pytest_quant.spec.check",
            "autoclass:: pytest_quant.spec.limits.Limits",
            "automodule:: pytest_quant.spec.model",
            "automodule:: pytest_quant.backends.offer",
            "automodule:: pytest_quant.backends.base",
            "automodule:: pytest_quant.backends.readback",
            "autoclass:: pytest_quant.testing.NumpyBackend",
            "autoclass:: pytest_quant.testing.BackendConformance",
            "autoclass:: pytest_quant.testing.ModuleBackendConformance",
        ),
    ),
    "api-statistics": (
        "API: the statistics, with their sources",
        tuple(
            f"automodule:: pytest_quant.stats.{file.stem}"
            for file in sorted((ROOT / "pytest_quant" / "stats").glob("*.py"))
            if file.stem != "__init__"
        ),
    ),
}
"""For each page of the API its title, and what autodoc documents on it."""


def write_sources(folder: Path) -> None:
    """Copy the guides, the index among them, and write the pages of the API."""
    shutil.copytree(GUIDES, folder, dirs_exist_ok=True)
    (folder / INDEX.file.name).unlink()
    guides = [name.removesuffix(".md") for name in INDEX.links()]
    toc = "\n".join(("```{toctree}", ":hidden:", "", *guides, *API, "```"))
    (folder / "index.md").write_text(f"{INDEX.text}\n{toc}\n", "utf-8")
    for name, (title, directives) in API.items():
        blocks = (f"```{{eval-rst}}\n.. {directive}\n   :members:\n```" for directive in directives)
        (folder / f"{name}.md").write_text("\n\n".join((f"# {title}", *blocks)) + "\n", "utf-8")


def build(pages: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages anew; a warning is an error."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        write_sources(sources)
        settings = str(Path(__file__).parent)
        words = ("-W", "--keep-going", "-q", "-E", "-b", "html", "-d", f"{folder}/doctrees", "-c", settings)
        command = [sys.executable, "-m", "sphinx", *words, str(sources), str(pages)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def main() -> None:
    """Build them, print what Sphinx says, and exit as it does."""
    pages = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "pages"
    done = build(pages)
    sys.stderr.write(done.stdout + done.stderr)
    if done.returncode == 0:
        sys.stdout.write(f"{pages / 'index.html'}\n")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
