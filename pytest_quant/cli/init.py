"""``pytest-quant init``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_quant.cli.echo import say, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_quant.init.checkout import Checkout
    from pytest_quant.init.drafts import Put
    from pytest_quant.init.facts import Facts

_KEPT = {
    "same": "is there, just as it would be written",
    "ours": "is there, as init wrote it for something else; --force writes it anew",
    "changed": "is there, and was changed since init wrote it",
    "theirs": "is there, and is not of init",
}
"""What is said of a file that stays, by what is at its place."""


@click.command(short_help="Write a first test of a model, its fixtures, and the workflow of CI.")
@click.argument("model", required=False)
@click.option("--github", is_flag=True, help="Write the workflow of GitHub Actions, whatever the remote is.")
@click.option("--gitlab", is_flag=True, help="Write the pipeline of GitLab, whatever the remote is.")
@click.option("--gpu", is_flag=True, help="Write a test and a job for a runner of yours with a GPU, too.")
@click.option("--backend", default="", metavar="NAME[,NAME]", help="Backends of the CPU job  [those that can run here]")
@click.option(
    "--gpu-backend", default="", metavar="NAME[,NAME]", help="Backends of a GPU job  [those with int8 kernels]"
)
@click.option("--python", default="", metavar="VERSION", help="Python of CI  [.python-version, else requires-python]")
@click.option("--install", default="", metavar="COMMAND", help="How CI installs your project  [from its files]")
@click.option("--dry-run", is_flag=True, help="Print every file, and write none.")
@click.option("--force", is_flag=True, help="Overwrite files that init wrote and nobody changed since.")
def init(
    model: str | None,
    github: bool,
    gitlab: bool,
    gpu: bool,
    backend: str,
    gpu_backend: str,
    python: str,
    install: str,
    dry_run: bool,
    force: bool,
) -> None:
    """Write what a repository needs to check a quantized MODEL on each pull request.

    MODEL is an ONNX file, or module:attribute of a torch module with example inputs: a function that returns
    (module, example_inputs), such a pair, or a pytest_quant.Model. Without it the only ONNX file is taken.

    Nothing is asked that can be found out: the inputs of the model, the backends that can run here, the forge, the
    target branch, how the project is installed, and where its tests lie. A file that is there is never overwritten.
    Your labelled samples cannot be found out: until you name them, the checks say that they are missing.

    \b
    Examples:
      pytest-quant init models/resnet18.onnx
      pytest-quant init package.nets:example --gpu
      pytest-quant init --dry-run
    """  # noqa: D301 - click reads a backspace
    # Here, because help should come at once.
    from pytest_quant.init.checkout import FORGES, find_checkout
    from pytest_quant.init.drafts import put
    from pytest_quant.init.facts import Asked, find_facts
    from pytest_quant.init.render import all_drafts

    wanted = {"github": github, "gitlab": gitlab}
    asked = Asked(
        model=model,
        forges=tuple(forge for forge in FORGES if wanted[forge]),
        backends=_names(backend),
        gpu=gpu,
        gpu_backends=_names(gpu_backend),
        python=python,
        install=install,
    )
    checkout = find_checkout(Path.cwd())
    facts = find_facts(checkout, Path.cwd(), asked)
    done = put(checkout.root, all_drafts(facts), force=force, dry=dry_run)
    show("\n".join(_found(facts)))
    for line in _outcome(done, dry=dry_run):
        say(line)
    if dry_run:
        for one in done:
            say(f"\n===== {one.draft.path}\n{one.draft.text}")
    else:
        for line in _next_steps(checkout, facts, done):
            say(line)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _found(facts: Facts) -> list[str]:
    """Return what was found out, for the user to check."""
    from pytest_quant.init.samples import described
    from pytest_quant.printable import clean
    from pytest_quant.report.text import aligned

    signature = facts.subject.signature
    ends = (", ".join(map(described, tensors)) for tensors in (signature.inputs, signature.outputs))
    rows = [
        ("model", f"{facts.subject.file or facts.subject.expression}: {' -> '.join(ends)}"),
        ("backends", ", ".join(facts.cpu.names)),
        *([("on a GPU", ", ".join(facts.gpu.names))] if facts.gpu else []),
        ("CI", f"{' and '.join(facts.forges)}, target branch {facts.branch}, Python {facts.python}"),
        ("install", "; ".join(facts.installing.lines)),
        ("tests", facts.place.folder),
    ]
    return aligned([(name, clean(told)) for name, told in rows])


def _outcome(done: Sequence[Put], *, dry: bool) -> Iterator[str]:
    for one in done:
        if one.written:
            yield f"wrote {one.draft.path}"
        elif dry and one.state == "new":
            yield f"would write {one.draft.path}"
        else:
            yield f"left {one.draft.path}: it {_KEPT[one.state]}"


def _next_steps(checkout: Checkout, facts: Facts, done: Sequence[Put]) -> Iterator[str]:
    from pytest_quant.init.checkout import is_kept_by_git
    from pytest_quant.init.render import GITLAB_INCLUDED

    folder, sources = facts.place.folder, facts.place.sources
    if facts.subject.from_sources and facts.place.configured and not facts.place.searched:
        yield (
            f"next: let pytest import {facts.subject.module}: set pythonpath = {sources} in its configuration, or "
            "install the project here: python -m pip install -e ."
        )
    yield f"next: {_first_step(checkout, done)}, then: python -m pytest {folder}"
    if facts.subject.file and not is_kept_by_git(checkout.root, facts.subject.file):
        yield f"next: git add {facts.subject.file}, which CI needs"
    if facts.included and "gitlab" in facts.forges:
        yield f"next: in .gitlab-ci.yml, under include: - local: {GITLAB_INCLUDED}"
    yield "next: the first lines of the workflow say what to set once; commit, push, and open a pull request"


def _first_step(checkout: Checkout, done: Sequence[Put]) -> str:
    """Return what the conftest still needs: labelled samples, or in one of the user's own the fixtures, too."""
    (conftest,) = (one for one in done if one.draft.path.endswith("conftest.py"))
    path = conftest.draft.path
    if conftest.state == "theirs" and b"quant_data" not in (checkout.root / path).read_bytes():
        return f"add quant_model and quant_data to {path}, which is yours; --dry-run prints what init would write"
    return f"write your labelled samples into quant_data of {path}"
