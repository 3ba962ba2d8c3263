"""``pytest-quant init``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import click

from pytest_quant.cli.common import say, show, split_names
from pytest_quant.host import join_words
from pytest_quant.init.model_search import describe_input
from pytest_quant.init.project import FORGES, RUNNERS, index_pin, is_installable, is_kept_by_git
from pytest_quant.init.render import GITLAB_INCLUDED, InitFacts, find_facts, gives_model, new_files, write_new
from pytest_quant.printable import clean
from pytest_quant.report.text import align


@click.command()
@click.argument("model", required=False)
@click.option("--github", is_flag=True, help="Write the workflow of GitHub Actions, whatever the remote is.")
@click.option("--gitlab", is_flag=True, help="Write the pipeline of GitLab, whatever the remote is.")
@click.option("--gpu", is_flag=True, help="Write a test and a job for a runner of yours with a GPU, too.")
@click.option("--backend", default="", metavar="NAME[,NAME]", help="Backends of the CPU job  [those that can run here]")
@click.option(
    "--gpu-backend", default="", metavar="NAME[,NAME]", help="Backends of a GPU job  [those with int8 kernels]"
)
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default=RUNNERS[0],
    help="GitHub's image of the CPU job; of these ARM Linux is the quietest  [ubuntu-latest]",
)
@click.option("--install", default="", metavar="COMMAND", help="How CI installs your project  [from its files]")
@click.option("--dry-run", is_flag=True, help="Print every file, and write none.")
def init(
    model: str | None,
    github: bool,
    gitlab: bool,
    gpu: bool,
    backend: str,
    gpu_backend: str,
    runner: str,
    install: str,
    dry_run: bool,
) -> None:
    """Write what a repository needs to check a quantized MODEL on each pull request.

    MODEL is an ONNX file, or module:attribute of a torch module with example inputs: a function that returns
    (module, example_inputs), such a pair, or a pytest_quant.Model. Without it the only ONNX file is taken.

    Nothing is asked that can be found out: the inputs of the model, the backends that can run here, the forge, the
    target branch, how the project is installed, and where its tests lie. A file that is there is never overwritten.
    Where nothing shows GitHub or GitLab, no workflow is written. Your labelled samples cannot be found out: until you
    name them, the checks say that they are missing.

    \b
    Examples:
      pytest-quant init models/resnet18.onnx
      pytest-quant init package.nets:example --gpu
      pytest-quant init --dry-run
    """  # noqa: D301 - click reads a backspace
    wanted = {"github": github, "gitlab": gitlab}
    say("looking at the project, the model and the backends that can run here", err=True)
    facts = find_facts(
        Path.cwd(),
        model=model,
        forges=tuple(forge for forge in FORGES if wanted[forge]),
        backends=split_names(backend),
        gpu=gpu,
        gpu_backends=split_names(gpu_backend),
        install=install,
        runner=runner,
    )
    files = new_files(facts)
    written = write_new(facts.project.root, files, dry=dry_run)
    show("\n".join(_describe_facts(facts)))
    for path in files:
        done = "would write" if dry_run else "wrote"
        say(f"{done} {path}" if path in written else f"left {path}, which is there")
    if dry_run:
        for path, text in files.items():
            say(f"\n===== {path}\n{text}")
    else:
        for line in _next_steps(facts, files, written):
            say(line)


def _describe_facts(facts: InitFacts) -> list[str]:
    """Return the facts, for the user to check."""
    signature = facts.model.signature
    ends = (", ".join(map(describe_input, tensors)) for tensors in (signature.inputs, signature.outputs))
    images = {"github": facts.runner, "gitlab": f"python:{facts.python}"}
    forges = " and ".join(f"{forge} on {images[forge]}" for forge in facts.forges)
    ci = f"{forges}, target branch {facts.project.branch}, Python {facts.python}"
    rows = [
        ("model", f"{facts.model.file or facts.model.expression}: {' -> '.join(ends)}"),
        ("backends", ", ".join(facts.cpu)),
        *([("on a GPU", ", ".join(facts.gpu))] if facts.gpu else []),
        ("CI", ci if facts.forges else "no remote and no file shows GitHub or GitLab: no workflow is written"),
        *([("install", "; ".join(facts.installation.lines))] if facts.forges else []),
        ("tests", facts.project.folder),
    ]
    return align([(name, clean(text)) for name, text in rows])


def _next_steps(facts: InitFacts, files: Mapping[str, str], written: Collection[str]) -> Iterator[str]:
    project, model = facts.project, facts.model
    if model.from_sources and project.configured and not project.searched:
        yield (
            f"next: let pytest import {model.module}: set pythonpath = {project.sources} in its configuration, or "
            "install the project here: python -m pip install -e ."
        )
    if project.configured and not project.required:
        yield (
            "next: give the configuration of pytest required_plugins = pytest-quant, and --strict-markers in addopts; "
            "without the plugin every marked test passes"
        )
    if "github" in facts.forges and facts.runner != RUNNERS[0]:
        cpu = " and ".join(facts.cpu)
        yield f"next: see that {cpu}, which can run here, can run on {facts.runner}; --backend names others"
    given = [path for path in facts.fixture_files if gives_model(facts, path)]
    for path in facts.fixture_files:
        if path not in given:
            yield f"next: let {path}, which is yours, test this model; --dry-run prints what init would write"
    step = f"write your labelled samples into quant_data of {' and '.join(given)}, then: " * bool(given)
    yield f"next: {step}python -m pytest {project.folder}"
    # Here, because it loads onnx.
    from pytest_quant.backends.onnx_files import files_of

    needed = map(str, files_of(project.root / model.file) if model.file else ())
    lacking = [os.path.relpath(file, project.root) for file in needed if not is_kept_by_git(project.root, file)]
    if lacking:
        yield f"next: git add {join_words(lacking)}, which CI needs beside what was written here"
    for path in () if is_installable() else written:
        lines = [str(number) for number, line in enumerate(files[path].splitlines(), 1) if index_pin() in line]
        if lines:
            yield (
                "next: this version did not come from an index, so CI may not find it: write "
                f"@ git+URL@COMMIT in place of {index_pin()} in {path}, line {', '.join(lines)}"
            )
    if facts.included and "gitlab" in facts.forges:
        yield f"next: in .gitlab-ci.yml, under include: - local: {GITLAB_INCLUDED}"
    request = "merge request" if facts.forges == ("gitlab",) else "pull request"
    sets = facts.gpu or "gitlab" in facts.forges
    first = "the first lines of the workflow say what to set once; " * bool(sets)
    yield (
        f"next: {first}commit, push, and open a {request}"
        if facts.forges
        else "no workflow was written: add --github or --gitlab for one"
    )
