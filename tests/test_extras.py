"""What a text tells to install brings what it says: its packages and extras exist, and can be together.

What a text names is looked up in ``pyproject.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pytest_quant.backends import GROUP, get_backend
from pytest_quant.doctor.examine import ORT_WHEELS
from tests.support.documents import UNKNOWN, all_texts
from tests.support.example import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

NOT_OURS = {
    "pip": "a newer one, where a project has its dependencies in groups",
    "poetry": "the manager of a project that init writes a workflow for",
    "uv": "the manager of a project that init writes a workflow for",
}
"""Packages that a line may install although no extra asks for them, and why none does."""

_EXTRA = re.compile(r"\bextras?\s+(?:`{1,2}|')([\w-]+)(?:`{1,2}|')")
_OURS = re.compile(r"pytest-quant\[([\w, -]+)\]")
_WORD = re.compile(r"""(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|\S+""")


def installs(words: str) -> Iterator[str]:
    """Yield each requirement of each ``pip install`` in a text, read up to the word that ends command or sentence."""
    for start in re.finditer(r"\bpip install(?= )", words):
        before = ""
        for word in _WORD.finditer(words[start.end() :].partition("\n")[0]):
            bare = word["quoted"] if word["quoted"] is not None else word[0].rstrip("`,;:.)")
            if not bare or bare.startswith(("&", "|", "(")):
                break
            if not bare.startswith("-") and before != "-r":
                yield bare.removeprefix(".")
            before = bare
            if word["quoted"] is None and bare != word[0]:
                break


def declared() -> dict[str, list[Requirement]]:
    """Return what the project asks for, by name: with and without extras."""
    result: dict[str, list[Requirement]] = {}
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in map(Requirement, (line for lines in lists for line in lines)):
        result.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return result


def installed_by(extras: set[str]) -> set[str]:
    """Return the names of the packages that these extras bring, those of extras in them included."""
    result: set[str] = set()
    for requirement in (Requirement(line) for extra in extras for line in PROJECT["optional-dependencies"][extra]):
        result |= installed_by(requirement.extras) if requirement.name == PROJECT["name"] else {requirement.name}
    return result


def wrong_with(requirement: str) -> str:
    """Tell what is wrong with a requirement that a text tells to install; empty when it is one of ours."""
    if requirement == UNKNOWN:
        return ""
    if UNKNOWN in requirement:
        requirement = re.split("[<>=!~]", requirement)[0]
    if requirement.startswith("["):
        requirement = PROJECT["name"] + requirement
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return "this is no requirement; quotes or a comma tell where the command ends"
    name = canonicalize_name(parsed.name)
    if name == PROJECT["name"]:
        unknown = parsed.extras - PROJECT["optional-dependencies"].keys()
        return f"there is no extra {', '.join(sorted(unknown))}" if unknown else ""
    if name in NOT_OURS:
        return ""
    ours = declared().get(name)
    if ours is None:
        return f"no extra asks for {name}"
    if not any(parsed.extras <= requirement.extras for requirement in ours):
        return f"{name} is declared without [{','.join(sorted(parsed.extras))}]"
    return ""


def test_every_pip_line_installs_what_the_project_asks_for() -> None:
    """A package and its extras are those of an extra of ours."""
    wrong = [
        f"{text.place}: pip install {requirement}: {why}"
        for text in all_texts()
        for requirement in installs(text.words)
        if (why := wrong_with(requirement))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(PROJECT["entry-points"][GROUP]))
def test_the_extras_of_a_backend_bring_its_runtime(name: str) -> None:
    """Each is declared, and they bring one wheel of ONNX Runtime at most; functions of the user's need none."""
    offer = get_backend(name).offer
    extras = offer.extras
    assert bool(extras) is not offer.is_opaque
    assert len(installed_by(set(extras)) & set(ORT_WHEELS)) <= 1


def test_every_extra_exists() -> None:
    """Both ways to write one: the word extra before its name, and in brackets."""
    wrong = [
        f"{text.place}: {name}"
        for text in all_texts()
        for name in (
            *_EXTRA.findall(text.words),
            *(part.strip() for names in _OURS.findall(text.words) for part in names.split(",")),
        )
        if name not in PROJECT["optional-dependencies"]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_extras_that_are_installed_together_overwrite_each_other() -> None:
    """The wheels of ONNX Runtime write one folder; neither an extra nor a line that names several brings two."""
    written = [
        {part.strip() for part in names.split(",")} for text in all_texts() for names in _OURS.findall(text.words)
    ]
    together = [*({extra} for extra in PROJECT["optional-dependencies"]), *written]
    assert [extras for extras in together if len(installed_by(extras) & set(ORT_WHEELS)) > 1] == []


@pytest.mark.parametrize("wheel", ["ort", "gpu"])
def test_the_extras_for_a_gpu_go_with_either_wheel(wheel: str) -> None:
    """Who has one of the two wheels of ONNX Runtime can add any of them, and keeps the wheel."""
    brought = installed_by({wheel, "cuda", "pycuda", "torch-cuda", "trt", "trt10", "trt-cu12"}) & set(ORT_WHEELS)
    assert brought == installed_by({wheel}) & set(ORT_WHEELS)
    assert len(brought) == 1


def test_the_guide_names_every_extra_that_cannot_be_beside_gpu() -> None:
    """Those that bring the CPU wheel, but for the developers'."""
    guide = (ROOT / "pytest_quant" / "guides" / "backends.md").read_text("utf-8")
    sentence = re.search(r"`gpu` installs(.*?)\n\n", guide, re.DOTALL)
    assert sentence is not None
    brings = {extra for extra in PROJECT["optional-dependencies"] if "onnxruntime" in installed_by({extra})}
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) & PROJECT["optional-dependencies"].keys() == brings - {"dev"}
