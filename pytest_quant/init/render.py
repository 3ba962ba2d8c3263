"""What the files of a first check depend on, and their text, from the templates beside this module."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jinja2 import Environment, PackageLoader, StrictUndefined

from pytest_quant.errors import UsageError
from pytest_quant.history.git_branch import BRANCH
from pytest_quant.init.backends import JobBackends, named, on_cpu, on_gpu
from pytest_quant.init.model import ModelToTest, find_model
from pytest_quant.init.new_files import MARKER, NewFile, content
from pytest_quant.init.project import (
    GITLAB_FILE,
    Forge,
    Installation,
    Project,
    find_forge,
    find_installation,
    find_project,
    find_python,
    is_in_lfs,
)
from pytest_quant.init.sample_inputs import CALIBRATION, described, input_line, is_scores
from pytest_quant.printable import clean

GITLAB_INCLUDED = ".gitlab/quant.yml"
"""The pipeline where ``.gitlab-ci.yml`` is the user's own, which includes it."""

_PYTHON = re.compile(r"3\.\d{1,2}")


@dataclass(frozen=True, slots=True)
class InitFacts:
    """All that the files depend on.

    Attributes
    ----------
    forges : whose workflows are written.
    cpu, gpu : backends of the jobs; ``None`` without a job on a GPU runner.
    installation, gpu_installation : how these jobs install the project.
    python : version for CI, ``3.12``.
    lfs : Git LFS keeps the model.
    included : the pipeline of GitLab is a file that the user's own one includes.
    """

    model: ModelToTest
    project: Project
    forges: tuple[Forge, ...]
    cpu: JobBackends
    installation: Installation
    python: str
    gpu: JobBackends | None = None
    gpu_installation: Installation | None = None
    lfs: bool = False
    included: bool = False

    @property
    def gpu_folder(self) -> str:
        """Where the tests for GPU runners lie."""
        return str(PurePosixPath(self.project.folder) / "gpu")


def find_facts(
    here: Path,
    *,
    model: str | None,
    forges: tuple[Forge, ...],
    backends: Sequence[str],
    gpu: bool,
    gpu_backends: Sequence[str],
    python: str,
    install: str,
) -> InitFacts:
    """Find out what the user does not say.

    Parameters
    ----------
    here : a folder of the project, from which paths count.
    model : a path, or ``module:attribute``; ``None`` for the only ONNX file.
    forges : whose workflows are written; empty for the one that the project shows.
    backends, gpu_backends : of the jobs; empty for those that fit.
    gpu : a job on a GPU runner is written.
    python : version for CI, ``3.12``; empty for that of the project.
    install : commands of bash that install the project, a line each; empty for those that its files show.

    Raises
    ------
    QuantError : there is no such model or backend, none can run here, or nothing shows the forge.
    """
    project = find_project(here)
    if python and not _PYTHON.fullmatch(python):
        raise UsageError("that is no version of Python", value=python, fix="write --python 3.12")
    forges = forges or (find_forge(project),)
    chosen = find_model(project.root, here, model, project.sources)
    cpu = named(backends, chosen) if backends else on_cpu(chosen)
    on_runner = None
    if gpu_backends:
        on_runner = named(gpu_backends, chosen)
    elif gpu:
        on_runner = on_gpu(chosen)
    root, pipeline = project.root, project.root / GITLAB_FILE
    return InitFacts(
        model=chosen,
        project=project,
        forges=forges,
        cpu=cpu,
        installation=find_installation(root, cpu.extras, install),
        python=python or find_python(root),
        gpu=on_runner,
        gpu_installation=None if on_runner is None else find_installation(root, on_runner.extras, install, gpu=True),
        lfs=bool(chosen.file) and is_in_lfs(root, chosen.file),
        included=pipeline.exists() and not content(pipeline).startswith(MARKER.encode()),
    )


def new_files(facts: InitFacts) -> tuple[NewFile, ...]:
    """Return every file: fixtures, tests, a configuration of pytest where there is none, and the workflows."""
    return tuple(NewFile(path, MARKER + text) for path, text in _texts(facts))


def _texts(facts: InitFacts) -> Iterator[tuple[str, str]]:
    folder, name = PurePosixPath(facts.project.folder), facts.model.name
    yield str(folder / "conftest.py"), _rendered("conftest.py.j2", facts)
    yield str(folder / f"test_{name}.py"), _rendered("test_model.py.j2", facts, backends=_listed(facts.cpu))
    if facts.gpu is not None:
        gpu = _rendered("test_model.py.j2", facts, backends=_listed(facts.gpu), where="_on_gpu")
        yield str(folder / "gpu" / f"test_{name}_on_gpu.py"), gpu
    if not facts.project.configured:
        yield "pytest.ini", _rendered("pytest.ini.j2", facts)
    if "github" in facts.forges:
        yield ".github/workflows/quant.yml", _rendered("github.yml.j2", facts)
    if "gitlab" in facts.forges:
        yield GITLAB_INCLUDED if facts.included else GITLAB_FILE, _rendered("gitlab.yml.j2", facts)


def _listed(backends: JobBackends) -> str:
    """Return the backends as the mark has them: a text, or a list where there are several."""
    return json.dumps(backends.names[0] if len(backends.names) == 1 else list(backends.names))


def _rendered(template: str, facts: InitFacts, *, backends: str = "", where: str = "") -> str:
    folder = PurePosixPath(facts.project.folder)
    inputs, outputs = facts.model.signature.inputs, facts.model.signature.outputs
    return (
        _environment()
        .get_template(template)
        .render(
            facts=facts,
            model=facts.model,
            inputs=[(tensor.name, input_line(tensor, dict(facts.model.rows))) for tensor in inputs],
            shapeless=[tensor.name for tensor in inputs if tensor.shape is None],
            described_inputs=[described(tensor) for tensor in inputs],
            described_outputs=[described(tensor) for tensor in outputs],
            scores=bool(outputs) and is_scores(outputs[0]),
            calibration=CALIBRATION,
            above=len(folder.parts),
            tests=str(folder) if facts.gpu is None else f"{folder} --ignore={facts.gpu_folder}",
            history_branch=BRANCH,
            backends=backends,
            where=where,
        )
    )


def _quoted(text: str) -> str:
    """Return a text in quotes, as Python and YAML read it."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def _environment() -> Environment:
    environment = Environment(  # nosec B701 # noqa: S701 - Python and YAML, in which nothing is a tag
        loader=PackageLoader("pytest_quant.init"),
        undefined=StrictUndefined,
        # Braces are those of the forges' own expressions.
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
        comment_start_string="[#",
        comment_end_string="#]",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = _quoted
    environment.filters["comment"] = clean
    return environment
