"""What we print or document as a way out exists: each package, extra, option and command that a text names.

Texts are the guides and every string literal of the package and of the example, docstrings included. What they name is
looked up where it is declared: in ``pyproject.toml``, in the help of pytest, pip and git, and in our commands.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pytest_quant.backends import PackagedBackend, get_backend
from pytest_quant.backends.registry import GROUP
from pytest_quant.cli import commands
from pytest_quant.doctor.examine import ORT_WHEELS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GUIDES = (
    "README.md",
    *sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "pytest_quant" / "guides").glob("*.md")),
    "CHANGELOG.md",
    "example_project/README.md",
    "example_project/.github/workflows/quant.yml",
    "example_project/.gitlab-ci.yml",
    "tests/gpu/README.md",
)

UNKNOWN = "{}"
"""Stands for what a message fills in when it is raised; the test of that message looks at it."""

NOT_OURS = {
    "pip": "a newer one, where a project has its dependencies in groups",
    "poetry": "the manager of a project that init writes a workflow for",
    "triton": "the compiler that torch for CUDA brings on Linux, and that its other builds lack",
    "uv": "the manager of a project that init writes a workflow for",
}
"""Packages that a line may install although no extra asks for them, and why none does."""

PROSE = ("itself", "keeps", "wrote")
"""Words that follow the name of the project in a sentence, and are no command."""

HELPS = {
    "pytest": (sys.executable, "-m", "pytest", "--help"),
    "pip": (sys.executable, "-m", "pip", "install", "--help"),
    "venv": (sys.executable, "-m", "venv", "--help"),
    "git config": ("git", "config", "-h"),
    "git fetch": ("git", "fetch", "-h"),
    "git ls-remote": ("git", "ls-remote", "-h"),
    "git status": ("git", "status", "-h"),
}
"""Who reads an option, by the words before it, and how it is asked for those that it takes."""

TOLD = {
    "uv sync": {"--locked", "--all-groups", "--extra"},
    "poetry install": {"--no-interaction", "--extras"},
}
"""Options of programs that are not here to be asked: those of their documentation that texts of ours name."""

_OPTION = re.compile(r"(?<![\w<=/.-])(?>--[a-z][a-z0-9]*+(?:-[a-z0-9]+)*+)(?![-*\w])")
_SPEAKER = re.compile(
    r"\bpytest-quant (?P<command>[a-z]+)|-m (?P<module>venv|pip|pytest)\b|"
    r"\b(?P<name>pytest|pip|git config|git fetch|git ls-remote|git status|uv sync|poetry install)(?= )"
)
_SENTENCE_ENDS = re.compile(r"[`;|]|&&|[,.:] |\(|  ")
_COMMAND = re.compile(r"(?<![\w/.-])pytest-quant ([a-z][a-z-]*)")
_EXTRA = re.compile(r"\bextras?\s+(?:`{1,2}|')([\w-]+)(?:`{1,2}|')")
_OURS = re.compile(r"pytest-quant\[([\w, -]+)\]")
_WORD = re.compile(r"""(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|\S+""")


@dataclass(frozen=True, slots=True)
class Text:
    """What somebody reads, and where it stands."""

    place: str
    folder: Path
    words: str


@dataclass(frozen=True, slots=True)
class Install:
    """A ``pip install`` as it is written: the options, the requirements, the files of requirements."""

    options: tuple[str, ...]
    requirements: tuple[str, ...]
    files: tuple[str, ...]


@cache
def all_texts() -> tuple[Text, ...]:
    """Return every guide, and every string literal of the package and of the example."""
    guides = [Text(name, (ROOT / name).parent, (ROOT / name).read_text("utf-8")) for name in GUIDES]
    modules = [*ROOT.glob("pytest_quant/**/*.py"), *ROOT.glob("example_project/**/*.py")]
    found = [
        Text(f"{file.relative_to(ROOT)}:{line}", file.parent, words)
        for file in sorted(modules)
        for line, words in literals(file.read_text("utf-8"))
    ]
    return (*guides, *found)


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string literal; an f-string is one text, with the module's constants filled in."""
    tree = ast.parse(source)
    constants: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            words = _words_of(statement.value, constants)
            if words is not None:
                constants[statement.targets[0].id] = words
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (isinstance(node, ast.JoinedStr) or id(node) not in parts):
            words = _words_of(node, constants)
            if words is not None:
                yield node.lineno, words


def _words_of(node: ast.AST, constants: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        str(part.value)
        if isinstance(part, ast.Constant)
        else constants.get(part.value.id, UNKNOWN)
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
        else UNKNOWN
        for part in node.values
    )


def installs(words: str) -> Iterator[Install]:
    """Yield each ``pip install`` in a text, read up to the first word that ends the command or the sentence."""
    for start in re.finditer(r"\bpip install(?= )", words):
        options: list[str] = []
        requirements: list[str] = []
        files: list[str] = []
        line = words[start.end() :].partition("\n")[0]
        into = requirements
        for word in _WORD.finditer(line):
            bare = word["quoted"] if word["quoted"] is not None else word[0].rstrip("`,;:.)")
            if not bare or bare.startswith(("&", "|", "(")):
                break
            if bare.startswith("-"):
                options.append(bare)
                into = files if bare == "-r" else requirements
            else:
                into.append(bare.removeprefix(".") if into is requirements else bare)
                into = requirements
            if word["quoted"] is None and bare != word[0]:
                break
        yield Install(tuple(options), tuple(requirements), tuple(files))


def declared() -> dict[str, list[Requirement]]:
    """Return what the project asks for, by name: with and without extras."""
    found: dict[str, list[Requirement]] = {}
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in map(Requirement, (line for lines in lists for line in lines)):
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def installed_by(extras: set[str]) -> set[str]:
    """Return the names of the packages that these extras bring, those of extras in them included."""
    found: set[str] = set()
    for requirement in (Requirement(line) for extra in extras for line in PROJECT["optional-dependencies"][extra]):
        found |= installed_by(requirement.extras) if requirement.name == PROJECT["name"] else {requirement.name}
    return found


def wrong_with(requirement: str) -> str:
    """Tell what is wrong with a requirement that a text tells to install; empty when it is one of ours."""
    if requirement == UNKNOWN:
        return ""
    if UNKNOWN in requirement:
        requirement = re.split("[<>=!~]", requirement)[0]
    if requirement.startswith("["):
        requirement = PROJECT["name"] + requirement
    try:
        asked = Requirement(requirement)
    except InvalidRequirement:
        return "this is no requirement; quotes or a comma tell where the command ends"
    name = canonicalize_name(asked.name)
    if name == PROJECT["name"]:
        unknown = asked.extras - PROJECT["optional-dependencies"].keys()
        return f"there is no extra {', '.join(sorted(unknown))}" if unknown else ""
    if name in NOT_OURS:
        return ""
    ours = declared().get(name)
    if ours is None:
        return f"no extra asks for {name}"
    if not any(asked.extras <= one.extras for one in ours):
        return f"{name} is declared without [{','.join(sorted(asked.extras))}]"
    if not any(_share_a_version(asked, one) for one in ours):
        return f"{asked} and {', '.join(map(str, ours))} have no version in common"
    return ""


def _share_a_version(asked: Requirement, ours: Requirement) -> bool:
    """Whether a bound of either fits both; where two ranges meet, one of their ends is in both."""
    bounds = [part.version for one in (asked, ours) for part in one.specifier]
    both = asked.specifier & ours.specifier
    return not bounds or any(both.contains(version) for version in bounds)


@cache
def options_of(who: str) -> frozenset[str]:
    """Return the long options that a program tells in its help, descriptions left out."""
    if who in TOLD:
        return frozenset(TOLD[who])
    helped = subprocess.run(HELPS[who], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.strip() for line in (helped.stdout + helped.stderr).splitlines() if line.strip().startswith("-")]
    heads = [re.split(r"\s{2,}", line)[0].replace("[no-]", "") for line in lines]
    found = frozenset(option for head in heads for option in re.findall(r"--[a-z][\w-]+", head))
    assert found, helped.stdout + helped.stderr
    return found


def options_of_command(command: click.Command) -> frozenset[str]:
    """Return the long options of one of our commands and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return frozenset(own | {"--help"}).union(*map(options_of_command, below))


def unknown_options(words: str) -> Iterator[str]:
    """Yield each option that the command before it does not take; without one, neither ours, pytest's nor pip's do.

    An option that is a whole literal is what code declares or hands to a program, and no text.
    """
    if _OPTION.fullmatch(words.partition("=")[0]):
        return
    for line in words.splitlines():
        for option in _OPTION.finditer(line):
            if option[0] not in _taken(line[: option.start()]):
                yield option[0]


def _taken(before: str) -> frozenset[str]:
    speakers = list(_SPEAKER.finditer(before))
    if speakers and not _SENTENCE_ENDS.search(before, speakers[-1].end()):
        speaker = speakers[-1]
        if speaker["command"] in commands.commands:
            return options_of_command(commands.commands[speaker["command"]])
        if speaker["command"] is None:
            return options_of(speaker["module"] or speaker["name"])
    return options_of("pytest") | options_of("pip") | options_of_command(commands)


def test_every_pip_line_installs_what_the_project_asks_for() -> None:
    """A package, its extras and its version are those of an extra of ours; files and options of pip exist."""
    wrong = [
        f"{text.place}: pip install {what}: {why}"
        for text in all_texts()
        for install in installs(text.words)
        for what, why in (
            *((requirement, wrong_with(requirement)) for requirement in install.requirements),
            *((file, "" if _is_here(file, text.folder) else "no such file") for file in install.files),
            *(
                (option, "" if option in options_of("pip") else "pip has no such option")
                for option in install.options
                if option.startswith("--")
            ),
        )
        if why
    ]
    assert not wrong, "\n".join(wrong)


def _is_here(file: str, folder: Path) -> bool:
    return any((parent / file).is_file() for parent in (folder, *folder.parents))


@pytest.mark.parametrize("name", sorted(PROJECT["entry-points"][GROUP]))
def test_the_extras_of_a_backend_bring_its_runtime(name: str) -> None:
    """Each is declared, and together they bring one wheel of ONNX Runtime at most."""
    backend = get_backend(name)
    assert isinstance(backend, PackagedBackend)
    assert backend.extras
    assert len(installed_by(set(backend.extras)) & set(ORT_WHEELS)) <= 1


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


def test_every_option_exists() -> None:
    """The program that the text tells to call takes it; where it tells none, one of pytest, pip and ours does."""
    wrong = [f"{text.place}: {option}" for text in all_texts() for option in unknown_options(text.words)]
    assert not wrong, "\n".join(wrong)


def test_every_command_exists() -> None:
    """What follows the name of the project is one of its commands, or a word of a sentence that is listed here."""
    said = [(text.place, name) for text in all_texts() for name in _COMMAND.findall(text.words)]
    assert [f"{place}: {name}" for place, name in said if name not in commands.commands and name not in PROSE] == []
    assert set(PROSE) <= {name for _, name in said}


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
    brought = installed_by({wheel, "cuda", "pycuda", "torch-cuda", "trt", "trt10"}) & set(ORT_WHEELS)
    assert brought == installed_by({wheel}) & set(ORT_WHEELS)
    assert len(brought) == 1


def test_the_guide_names_every_extra_that_cannot_be_beside_gpu() -> None:
    """Those that bring the CPU wheel, but for the developers'."""
    guide = (ROOT / "pytest_quant" / "guides" / "backends.md").read_text("utf-8")
    sentence = re.search(r"`gpu` installs(.*?)\n\n", guide, re.DOTALL)
    assert sentence is not None
    brings = {extra for extra in PROJECT["optional-dependencies"] if "onnxruntime" in installed_by({extra})}
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) & PROJECT["optional-dependencies"].keys() == brings - {"dev"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ('pip install "pytest-quant[trtx]"', "there is no extra trtx"),
        ("run: pip install 'pytest-quant[ort,nonsense]', then again", "there is no extra nonsense"),
        ("python -m pip install -q leftpad && pytest", "no extra asks for leftpad"),
        ('pip install "onnx[reference,nonsense]"', "onnx is declared without [nonsense,reference]"),
        ('pip install "onnx<1.2"', "onnx<1.2 and onnx>=1.17"),
        ('-e ".[nonsense]"', None),
        ('pip install -e ".[nonsense]"', "there is no extra nonsense"),
        ("pip install --force-reinstall openvino nncf", ""),
        ("pip install --upgrade pytest-quant, or name another file", ""),
        ('pip install "onnx>={},<{}"', ""),
        ("pip install {}", ""),
    ],
)
def test_what_is_wrong_with_a_line_is_told(words: str, why: str | None) -> None:
    """Of known lines: what the check of all lines would say of them; ``None`` where there is no line."""
    said = [wrong_with(requirement) for install in installs(words) for requirement in install.requirements]
    assert said == [] if why is None else any(said) == bool(why) and "".join(said).startswith(why)


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        ("pytest --quant-rebuild builds it again", ["--quant-rebuild"]),
        ("`--quant-strict` and `--quant-stricter`", ["--quant-stricter"]),
        ("pytest-quant prune --keep-runs 500 --force", ["--force"]),
        ("pytest-quant prune --salvage", ["--salvage"]),
        ("pytest-quant verify --salvage", []),
        ("all of `--quant-*`", []),
        ("--unshallow", []),
        ("git fetch --unshallow", []),
        ("git fetch --deepest", ["--deepest"]),
        ("pip install --force-reinstall torch", []),
        ("python3 -m venv --clear .venv", []),
        ("pytest -n 2 --dist loadfile", []),
    ],
)
def test_an_option_is_read_by_the_program_before_it(words: str, unknown: list[str]) -> None:
    """Another command's option is no option of this one."""
    assert list(unknown_options(words)) == unknown


def test_a_literal_is_read_as_it_is_printed() -> None:
    """Constants of the module are filled in, what only the run knows is left open, and parts are not read twice."""
    source = 'FIX = "pip install x"\ndef f(n):\n    return f"{FIX}=={n}" + "b" "c"\n'
    assert [words for _, words in literals(source)] == ["pip install x", "pip install x=={}", "bc"]
