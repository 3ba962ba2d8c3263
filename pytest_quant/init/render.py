"""The files of a first check as text, from the templates beside this module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from jinja2 import Environment, PackageLoader, StrictUndefined

from pytest_quant.history.git_branch import BRANCH
from pytest_quant.init.checkout import GITLAB_FILE, Forge
from pytest_quant.init.drafts import Draft, marked
from pytest_quant.init.facts import Facts
from pytest_quant.init.runtimes import Runtimes
from pytest_quant.init.samples import CALIBRATION, described, input_line, is_scores
from pytest_quant.printable import clean

_GITHUB: Forge = "github"
_GITLAB: Forge = "gitlab"

GITLAB_INCLUDED = ".gitlab/quant.yml"
"""The pipeline where ``.gitlab-ci.yml`` is the user's own, which includes it."""


def all_drafts(facts: Facts) -> tuple[Draft, ...]:
    """Return every file: fixtures, tests, a configuration of pytest where there is none, and the workflows."""
    return tuple(marked(path, text) for path, text in _files(facts))


def _files(facts: Facts) -> Iterator[tuple[str, str]]:
    folder, name = PurePosixPath(facts.place.folder), facts.subject.name
    yield str(folder / "conftest.py"), _rendered("conftest.py.j2", facts)
    yield str(folder / f"test_{name}.py"), _rendered("test_model.py.j2", facts, backends=_listed(facts.cpu))
    if facts.gpu is not None:
        gpu = _rendered("test_model.py.j2", facts, backends=_listed(facts.gpu), where="_on_gpu")
        yield str(folder / "gpu" / f"test_{name}_on_gpu.py"), gpu
    if not facts.place.configured:
        yield "pytest.ini", _rendered("pytest.ini.j2", facts)
    if _GITHUB in facts.forges:
        yield ".github/workflows/quant.yml", _rendered("github.yml.j2", facts)
    if _GITLAB in facts.forges:
        yield GITLAB_INCLUDED if facts.included else GITLAB_FILE, _rendered("gitlab.yml.j2", facts)


def _listed(runtimes: Runtimes) -> str:
    """Return the backends as the mark has them: a text, or a list where there are several."""
    return json.dumps(runtimes.names[0] if len(runtimes.names) == 1 else list(runtimes.names))


def _rendered(template: str, facts: Facts, *, backends: str = "", where: str = "") -> str:
    folder = PurePosixPath(facts.place.folder)
    subject = facts.subject
    tests = str(folder) if facts.gpu is None else f"{folder} --ignore={facts.gpu_folder}"
    return (
        _environment()
        .get_template(template)
        .render(
            facts=facts,
            subject=subject,
            inputs=[(tensor.name, input_line(tensor, dict(subject.rows))) for tensor in subject.signature.inputs],
            shapeless=[tensor.name for tensor in subject.signature.inputs if tensor.shape is None],
            told_inputs=[described(tensor) for tensor in subject.signature.inputs],
            told_outputs=[described(tensor) for tensor in subject.signature.outputs],
            scores=bool(subject.signature.outputs) and is_scores(subject.signature.outputs[0]),
            calibration=CALIBRATION,
            above=len(folder.parts),
            tests=tests,
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
