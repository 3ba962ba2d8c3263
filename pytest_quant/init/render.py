"""What the files of a first check depend on, its backends among them, and their text, from the templates here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from jinja2 import Environment, PackageLoader, StrictUndefined

from pytest_quant.backends import TARGET, Backend, backend_names, get_backend, get_exporter
from pytest_quant.doctor.probe import OK, probe_all
from pytest_quant.environment.revision import ask_git
from pytest_quant.errors import BackendUnavailable, UsageError
from pytest_quant.files import file_errors, write_whole
from pytest_quant.history.git_branch import BRANCH
from pytest_quant.init.model_search import CALIBRATION, ModelToTest, describe_input, find_model, input_line, is_scores
from pytest_quant.init.project import (
    GITLAB_FILE,
    RUNNERS,
    Forge,
    Installation,
    Project,
    content,
    find_forge,
    find_installation,
    find_project,
    find_python,
    requirement,
)
from pytest_quant.printable import clean
from pytest_quant.spec import EngineSpec, Model

GITLAB_INCLUDED = ".gitlab/quant.yml"
"""The pipeline where ``.gitlab-ci.yml`` is the user's own, which includes it."""

MARKER = "# written by pytest-quant init\n"
"""The first line; every format that is written here has comments with a hash sign."""

_PRECISION, _SCHEME = "int8", "static"


def select_named(names: Sequence[str], model: ModelToTest) -> tuple[str, ...]:
    """Return the backends that the user names. Raises `UsageError` for one that is unknown, or has no static int8."""
    for name in names:
        get_backend(name)
        if name not in _find_offering(model):
            raise UsageError(
                f"backend '{name}' has no static int8 for this model", allowed=", ".join(_find_offering(model))
            )
    return tuple(names)


def select_cpu(model: ModelToTest) -> tuple[str, ...]:
    """Return the backends on the CPU that can run here, as the doctor finds them.

    Raises
    ------
    BackendUnavailable : there is none.
    """
    # One that builds for another machine runs nothing here.
    fitting = [
        name
        for name, backend in _find_offering(model).items()
        if not _is_for_gpu(backend) and TARGET not in backend.offer.options
    ]
    states = probe_all(fitting)
    working = tuple(state.name for state in states if state.state == OK)
    if not working:
        raise BackendUnavailable(
            "no backend that quantizes this model can run here: "
            + "; ".join(f"{state.name}: {state.reason}" for state in states),
            fix="\n".join(sorted({state.fix for state in states if state.fix})) or "pytest-quant doctor",
        )
    return working


def select_gpu(model: ModelToTest) -> tuple[str, ...]:
    """Return the backends with int8 kernels on a GPU that can run here; if no backend can, all."""
    fitting = [
        name
        for name, backend in _find_offering(model).items()
        if _is_for_gpu(backend) and backend.refuses_speed(EngineSpec(name, _PRECISION, _SCHEME, Model("any"))) is None
    ]
    return tuple(state.name for state in probe_all(fitting) if state.state == OK) or tuple(fitting)


def extras_of(names: Sequence[str], model: ModelToTest) -> tuple[str, ...]:
    """Return the extras of this package that bring these backends, and an exporter if all of them read files."""
    backends = [get_backend(name) for name in names]
    if model.reads == get_exporter().offer.reads and not any(
        model.reads == backend.offer.reads for backend in backends
    ):
        # The reader of modules that is for the same device.
        wanted = any(map(_is_for_gpu, backends))
        others = map(get_backend, backend_names())
        backends += [other for other in others if other.offer.reads == model.reads and _is_for_gpu(other) == wanted]
    return tuple(dict.fromkeys(extra for backend in backends for extra in backend.offer.extras))


def _find_offering(model: ModelToTest) -> dict[str, Backend]:
    """Return those that quantize this model: a module can be exported to a file, and no file becomes a module."""
    backends = {name: get_backend(name) for name in backend_names()}
    return {
        name: backend
        for name, backend in backends.items()
        if backend.offer.reads in ("onnx", model.reads) and _SCHEME in backend.offer.precisions.get(_PRECISION, ())
    }


def _is_for_gpu(backend: Backend) -> bool:
    return backend.device.startswith("cuda")


@dataclass(frozen=True, slots=True)
class InitFacts:
    """All that the files depend on.

    Attributes
    ----------
    forges : whose workflows are written; none where neither the user nor the project names one.
    cpu, gpu : backends of the jobs; none without a job on a GPU runner.
    installation, gpu_installation : how these jobs install the project.
    python : version for CI, ``3.12``.
    runner : GitHub's image of the job on a CPU.
    lfs : Git LFS keeps the model.
    included : the pipeline of GitLab is a file that the user's own one includes.
    own_fixtures : the tests give their model and samples, because the ``conftest.py`` that is there gives other ones.
    """

    model: ModelToTest
    project: Project
    forges: tuple[Forge, ...]
    cpu: tuple[str, ...]
    installation: Installation
    python: str
    gpu: tuple[str, ...] = ()
    gpu_installation: Installation | None = None
    runner: str = RUNNERS[0]
    lfs: bool = False
    included: bool = False
    own_fixtures: bool = False

    @property
    def conftest(self) -> str:
        """The file of fixtures."""
        return str(PurePosixPath(self.project.folder) / "conftest.py")

    @property
    def tests(self) -> tuple[str, ...]:
        """The test for the CPU, and the test for a GPU if there is a job for it."""
        test = str(PurePosixPath(self.project.folder) / f"test_{self.model.name}.py")
        return (test, f"{self.gpu_folder}/test_{self.model.name}_on_gpu.py") if self.gpu else (test,)

    @property
    def fixture_files(self) -> tuple[str, ...]:
        """The files that give the model and its samples."""
        return self.tests if self.own_fixtures else (self.conftest,)

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
    install: str,
    runner: str = RUNNERS[0],
) -> InitFacts:
    """Find out what the user does not say.

    Parameters
    ----------
    here : a folder of the project, from which paths count.
    model : a path, or ``module:attribute``; ``None`` for the only ONNX file.
    forges : whose workflows are written; empty for the one that the project shows.
    backends, gpu_backends : of the jobs; empty for those that fit.
    gpu : a job on a GPU runner is written.
    install : commands of bash that install the project, a line each; empty for those that its files show.
    runner : one of `RUNNERS`.

    Raises
    ------
    QuantError : there is no such model or backend, or none can run here.
    """
    project = find_project(here)
    forges = forges or tuple(filter(None, [find_forge(project)]))
    chosen = find_model(project.root, here, model, project.sources)
    cpu = select_named(backends, chosen) if backends else select_cpu(chosen)
    on_runner = select_named(gpu_backends, chosen) if gpu_backends else select_gpu(chosen) if gpu else ()
    root, pipeline = project.root, project.root / GITLAB_FILE
    for_gpu = find_installation(root, extras_of(on_runner, chosen), install, gpu=True) if on_runner else None
    facts = InitFacts(
        model=chosen,
        project=project,
        forges=forges,
        cpu=cpu,
        installation=find_installation(root, extras_of(cpu, chosen), install),
        python=find_python(root),
        gpu=on_runner,
        gpu_installation=for_gpu,
        runner=runner,
        lfs=bool(chosen.file) and ask_git(root, "check-attr", "filter", "--", chosen.file).text.endswith(": lfs"),
        included=pipeline.exists() and not content(pipeline).startswith(MARKER.encode()),
    )
    is_there = os.path.lexists(root / facts.conftest)
    return replace(facts, own_fixtures=is_there and not gives_model(facts, facts.conftest))


def gives_model(facts: InitFacts, path: str) -> bool:
    """Whether the file `path`, relative to the root, has the fixture of this model as it is written here."""
    fixture = templates().get_template("model.py.j2").render(model=facts.model, above=_folders_above(path))
    return fixture.encode() in content(facts.project.root / path)


def new_files(facts: InitFacts) -> dict[str, str]:
    """Return every file by its path below the root: fixtures, tests, a configuration of pytest, and the workflows."""
    files = {facts.conftest: _render("conftest.py.j2", facts, above=_folders_above(facts.conftest))}
    for path, backends, where in zip(facts.tests, (facts.cpu, facts.gpu), ("", "_on_gpu"), strict=False):
        # As the mark has them: a text, or a list of several.
        mark = json.dumps(backends[0] if len(backends) == 1 else list(backends))
        above = _folders_above(path)
        files[path] = _render("test_model.py.j2", facts, above=above, backends=mark, where=where)
    if not facts.project.configured:
        files["pytest.ini"] = _render("pytest.ini.j2", facts)
    if "github" in facts.forges:
        files[".github/workflows/quant.yml"] = _render("github.yml.j2", facts)
    if "gitlab" in facts.forges:
        files[GITLAB_INCLUDED if facts.included else GITLAB_FILE] = _render("gitlab.yml.j2", facts)
    return files


def write_new(root: Path, files: Mapping[str, str], *, dry: bool = False) -> tuple[str, ...]:
    """Write the files whose place is free, and return their paths. A link that leads nowhere is not free.

    Parameters
    ----------
    root : of the repository.
    files : texts by path, relative to the root with slashes.
    dry : write nothing, and return what would be written.

    Raises
    ------
    UsageError : a place cannot be written, or a link leads out of the repository on the way to it.
    """
    free = [path for path in files if not os.path.lexists(root / path)]
    for path in free:
        if not Path(os.path.realpath(root / path)).is_relative_to(root.resolve()):
            fix = "a folder on the way to it is a link that leads elsewhere: make it a folder of the repository"
            raise UsageError(f"{path} would lie outside of the repository", fix=fix)
    fix = "look at what is in its way, and at your right to write there, and run it again"
    for path in () if dry else free:
        with file_errors(UsageError, f"{path} cannot be written", fix):
            write_whole(root / path, files[path].encode())
    return tuple(free)


def _folders_above(path: str) -> int:
    """Return how many folders lie between a file and the root."""
    return len(PurePosixPath(path).parent.parts)


def _render(template: str, facts: InitFacts, *, above: int = 0, backends: str = "", where: str = "") -> str:
    folder = PurePosixPath(facts.project.folder)
    inputs, outputs = facts.model.signature.inputs, facts.model.signature.outputs
    return MARKER + templates().get_template(template).render(
        facts=facts,
        model=facts.model,
        inputs=[(tensor.name, input_line(tensor, dict(facts.model.rows))) for tensor in inputs],
        shapeless=[tensor.name for tensor in inputs if tensor.shape is None],
        described_inputs=[describe_input(tensor) for tensor in inputs],
        described_outputs=[describe_input(tensor) for tensor in outputs],
        scores=bool(outputs) and is_scores(outputs[0]),
        calibration=CALIBRATION,
        above=above,
        tests=str(folder) if not facts.gpu else f"{folder} --ignore={facts.gpu_folder}",
        history_branch=BRANCH,
        requirement=requirement,
        backends=backends,
        where=where,
    )


def _quote(text: str) -> str:
    """Return a text in quotes, as Python and YAML read it."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else ascii(text)


def templates() -> Environment:
    """Return what reads the templates of this folder."""
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
    environment.filters["quoted"] = _quote
    environment.filters["comment"] = clean
    return environment
