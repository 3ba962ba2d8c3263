"""All that the files of a first check depend on: what the user says, and what can be found out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_quant.errors import UsageError
from pytest_quant.init.checkout import GITLAB_FILE, Checkout, Forge, find_forge, is_in_lfs
from pytest_quant.init.drafts import is_ours
from pytest_quant.init.installing import Installing, as_asked, find_installing, find_python
from pytest_quant.init.place import Place, find_place
from pytest_quant.init.runtimes import Runtimes, named, on_cpu, on_gpu
from pytest_quant.init.subject import Subject, find_subject

_PYTHON = re.compile(r"3\.\d{1,2}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says; an empty value is found out.

    Attributes
    ----------
    model : a path, or ``module:attribute``.
    forges : whose workflows are written.
    backends, gpu_backends : of the jobs.
    gpu : a job on a GPU runner is written.
    python : version for CI, ``3.12``.
    install : commands of bash that install the project, a line each.
    """

    model: str | None = None
    forges: tuple[Forge, ...] = ()
    backends: tuple[str, ...] = ()
    gpu: bool = False
    gpu_backends: tuple[str, ...] = ()
    python: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the files depend on.

    Attributes
    ----------
    branch : the target branch.
    cpu, gpu : backends of the jobs; ``None`` without a job on a GPU runner.
    installing, gpu_installing : how these jobs install the project.
    python : version for CI, ``3.12``.
    lfs : Git LFS keeps the model.
    included : the pipeline of GitLab is a file that the user's own one includes.
    """

    subject: Subject
    place: Place
    forges: tuple[Forge, ...]
    branch: str
    cpu: Runtimes
    installing: Installing
    python: str
    gpu: Runtimes | None = None
    gpu_installing: Installing | None = None
    lfs: bool = False
    included: bool = False

    @property
    def gpu_folder(self) -> str:
        """Where the tests for GPU runners lie."""
        return str(PurePosixPath(self.place.folder) / "gpu")


def find_facts(checkout: Checkout, here: Path, asked: Asked) -> Facts:
    """Find out what the user does not say.

    Parameters
    ----------
    checkout : the repository.
    here : the folder that paths count from.
    asked : what the user says.

    Raises
    ------
    QuantError : there is no such model or backend, none can run here, or nothing tells the forge.
    """
    root = checkout.root
    if asked.python and not _PYTHON.fullmatch(asked.python):
        raise UsageError("that is no version of Python", value=asked.python, fix="write --python 3.12")
    forges = asked.forges or (find_forge(checkout),)
    place = find_place(root)
    subject = find_subject(root, here, asked.model, place.sources)
    cpu = named(asked.backends, subject) if asked.backends else on_cpu(subject)
    gpu = None
    if asked.gpu_backends:
        gpu = named(asked.gpu_backends, subject)
    elif asked.gpu:
        gpu = on_gpu(subject)
    return Facts(
        subject=subject,
        place=place,
        forges=forges,
        branch=checkout.branch,
        cpu=cpu,
        installing=_installing(root, cpu, asked.install, beside=False),
        python=asked.python or find_python(root),
        gpu=gpu,
        gpu_installing=None if gpu is None else _installing(root, gpu, asked.install, beside=True),
        lfs=bool(subject.file) and is_in_lfs(root, subject.file),
        included=(root / GITLAB_FILE).exists() and not is_ours(root / GITLAB_FILE),
    )


def _installing(root: Path, runtimes: Runtimes, asked: str, *, beside: bool) -> Installing:
    """Return the user's commands with what a GPU needs beside them, else those that are found."""
    if asked:
        return as_asked(asked, runtimes.extras, beside=beside)
    return find_installing(root, runtimes.extras, beside=beside)
