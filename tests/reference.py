"""The reference of the guides, made from the code: ``python -m tests.reference`` prints it, ``--write`` writes it.

Everything in it stands in the code already: tables of keys and options, commands, docstrings of fixtures and statuses,
the JSON Schemas that are shipped. A test compares the file with what this module makes.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

import pytest_quant
from pytest_quant.cli import comment as posting
from pytest_quant.cli import main as main_command
from pytest_quant.environment import revision
from pytest_quant.marks.keys import KEYS
from pytest_quant.plugin.settings import OPTIONS, Option
from pytest_quant.readers import Key, keys_of
from pytest_quant.report.columns import COLUMNS
from pytest_quant.result import Status
from tests.json_schemas import DOCUMENTS
from tests.support.commands import all_commands, top_commands
from tests.support.documents import REFERENCE

PACKAGE = Path(pytest_quant.__file__).parent

OPTIONS_OF_BACKENDS = {
    "ort": "ort:OrtOptions",
    "openvino": "openvino:OpenVinoOptions",
    "torch": "torch:TorchOptions",
    "TensorRT": "trt.options:TrtOptions",
}
"""Where the options of each kind of backend are declared."""

OF_CI = {
    "the branch under test": revision._BRANCH,
    "the branch that it is to be merged into": revision._TARGET,
    "the commit, where git does not answer": revision._COMMIT,
    "the number of the pull request": ("GITHUB_REF", *revision._PULL_REQUEST),
    "which service runs this": ("GITHUB_ACTIONS", "GITLAB_CI"),
    "where a comment is posted": (
        *("GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_API_URL"),
        *("CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID", "CI_API_V4_URL"),
    ),
    "the token that posts it": posting.TOKENS,
    "what a comment links": (
        "GITHUB_SERVER_URL",
        "GITHUB_REPOSITORY",
        "GITHUB_RUN_ID",
        "CI_PIPELINE_URL",
        "CI_JOB_URL",
    ),
}
"""What is read from variables that CI services set; of one service, the first one that is set counts."""

OF_OTHERS = {
    "CXX": "the C++ compiler that the backend `torch` compiles with (default: g++)",
    "LOCALAPPDATA": "where the locks of devices lie on Windows; elsewhere that is `/tmp`, whatever `TMPDIR` says",
    "ONEDNN_MAX_CPU_ISA": "disables instruction sets for OpenVINO and PyTorch; a part of the machine's identity",
    "TORCHINDUCTOR_CACHE_DIR": "where PyTorch compiles to; set to a folder of the user's where others may write there",
    "NVIDIA_TF32_OVERRIDE": "set to 0 by a run with a check of `ort-trt`, before anything is loaded",
}
"""Variables that belong to others and are read here."""

_EXITS = {
    pytest.ExitCode.OK: "every test passed; INCONCLUSIVE, NO_BASELINE and UNAVAILABLE count as passed unless options "
    "fail them",
    pytest.ExitCode.TESTS_FAILED: "a check is a FAIL or an ERROR, `--quant-require` is not met, or a comparison found "
    "a regression",
    pytest.ExitCode.INTERRUPTED: "interrupted, or an error of collection such as a mark with an unknown key",
    pytest.ExitCode.INTERNAL_ERROR: "an internal error",
    pytest.ExitCode.USAGE_ERROR: "an option with a value that is not valid, on the command line or in the ini file",
    pytest.ExitCode.NO_TESTS_COLLECTED: "no test was collected",
}


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """Return a table of Markdown; a bar in a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def keys() -> Iterator[str]:
    """The keys of the mark, in the order of the table that reads them."""
    yield "## Keys of the mark"
    yield (
        "`@pytest.mark.quant(...)` takes these and no others; an unknown one is an error that names the nearest. For "
        "units and values see [Choose limits](limits.md)."
    )
    yield table(["key", "unit", "meaning"], ([f"`{name}`", key.unit, key.help] for name, key in KEYS.items()))


def options_of_backends() -> Iterator[str]:
    """The options of each kind of backend, with what they may be."""
    yield "## Options of the backends"
    yield (
        "The key `options` is a dict for the backend. An unknown option is an error; one that the scheme does not read "
        "is ignored."
    )
    for name, place in OPTIONS_OF_BACKENDS.items():
        module, _, kind = place.partition(":")
        declared = getattr(import_module(f"pytest_quant.backends.{module}"), kind)
        rows = keys_of(declared)
        head = [f"`{name}` option" if name.islower() else f"{name} option", "may be", "meaning"]
        yield table(
            head,
            (
                [f"`{field.name}`", _may_be(rows[field.name], field.default), rows[field.name].help]
                for field in fields(declared)
            ),
        )
    yield "`ort-openvino` and `ort-cuda` take the options of `ort`."


def _may_be(key: Key, default: object) -> str:
    """Return what an option may be, and its default where that may be written."""
    written = default not in (None, MISSING) and key.reader.form(key.name, default) is not None
    return key.reader.allowed + (f"; default {default!r}" if written else "")


def options() -> Iterator[str]:
    """The options of pytest."""
    yield "## Options of pytest"
    yield (
        "Each is also an ini option of the same name with underscores, "
        "`quant_strict = true`. An option without a value can be undone for one run: `--no-quant-strict`."
    )
    yield table(["option of pytest", "meaning"], ([f"`{_spelling(each)}`", each.help] for each in OPTIONS))
    yield f"`--quant-columns` takes these names: {', '.join(f'`{column.name}`' for column in COLUMNS)}."


def _spelling(option: Option) -> str:
    metavar = "" if option.kind is None else option.kind.metavar
    takes = f"={metavar}" if metavar else ""
    return f"{option.flag}{takes if option.alone is None else f'[{takes}]'}"


def of_commands() -> Iterator[str]:
    """Every command with its arguments, its help and its options."""
    yield "## Commands"
    yield "`pytest-quant --help` lists them, and each command has examples in its own help."
    for name, command in sorted(top_commands().items()):
        yield from _command(f"pytest-quant {name}", command)


def _command(name: str, command: click.Command) -> Iterator[str]:
    yield f"### {name}"
    pieces = (command.name or "", command.collect_usage_pieces(click.Context(command)))
    yield f"`{' '.join([name, *pieces[1]])}`"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{paragraph.removeprefix(chr(8)).strip()}\n```"
        else:
            yield _sentence(paragraph)
    own_options = [param for param in command.params if isinstance(param, click.Option)]
    if own_options:
        yield table(["option", "meaning"], (_option(each) for each in own_options))
    if isinstance(command, click.Group):
        for below, inner in sorted(command.commands.items()):
            yield from _command(f"{name} {below}", inner)


def _option(option: click.Option) -> list[str]:
    names = ", ".join((*option.opts, *option.secondary_opts))
    kind = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
    takes = "" if option.is_flag else f" {option.metavar or kind}"
    return [f"`{names}{takes}`", option.help or ""]


def _sentence(text: str) -> str:
    return " ".join(text.split())


def fixtures() -> Iterator[str]:
    """The fixtures that a user overrides, and those that the plugin gives."""
    yield "## Fixtures"
    yield "The first two are yours to write; the others are the plugin's."
    tree = ast.parse((PACKAGE / "plugin" / "fixtures.py").read_text("utf-8"))
    result = [
        (node.name, (ast.get_docstring(node) or "").split("\n\n")[0])
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.decorator_list and not node.name.startswith("_")
    ]
    yield table(["fixture", "meaning"], ([f"`{name}`", _words(text)] for name, text in result))


def _words(docstring: str) -> str:
    """Return a docstring's text on one line, with code as Markdown has it."""
    return _sentence(docstring.replace("``", "`"))


def statuses() -> Iterator[str]:
    """The statuses with their docstrings, the worst first."""
    yield "## Statuses"
    yield "The worst verdict of a check is its status. A failure that its test expects (`xfail`) is shown as XFAIL."
    said = _docstrings(ast.parse((PACKAGE / "result" / "kinds.py").read_text("utf-8")))
    yield table(["status", "meaning"], ([each.value, _words(said[each.name])] for each in Status))


def _docstrings(tree: ast.AST) -> dict[str, str]:
    """Return the docstring behind each name that is assigned anywhere in a module or a class of it."""
    result = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        for statement, after in pairwise(body) if isinstance(body, list) else ():
            if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr):
                target, value = statement.targets[0], after.value
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    result[target.id] = value.value
    return result


def exit_codes() -> Iterator[str]:
    """Those of pytest, with what leads to them here, and those of our commands."""
    yield "## Exit codes"
    yield table(["pytest", "when"], ([str(int(code)), text] for code, text in _EXITS.items()))
    rows = [(f"pytest-quant {name}", command.help or "") for name, command in sorted(all_commands().items())]
    said = ((name, re.search(r"Exit code: (.+?)(?:\n\n|\Z)", inspect.cleandoc(text), re.DOTALL)) for name, text in rows)
    own = ([f"`{name}`", _sentence(result[1])] for name, result in said if result is not None)
    yield table(["command", "exit codes of its own"], own)
    yield f"Any other command: {_sentence(main_command.__doc__ or '').partition('; ')[2]}"


def documents() -> Iterator[str]:
    """The JSON documents, from the schemas that the package ships."""
    yield "## JSON"
    seen: set[str] = set()
    for file in DOCUMENTS:
        schema = json.loads((PACKAGE / file).read_text("utf-8"))
        yield f"### {schema['title'].removeprefix('pytest-quant: ')}"
        yield f"{schema['description']} The JSON Schema is `{file}` in the package."
        yield _fields(schema)
        for name, part in schema["$defs"].items():
            if name in seen:
                continue
            seen.add(name)
            yield f"#### {name}"
            yield part.get("description", "")
            if "properties" in part or "prefixItems" in part:
                yield _fields(part)
            elif "enum" in part:
                yield f"One of {', '.join(f'`{word}`' for word in part['enum'])}."


def _fields(part: Mapping[str, Any]) -> str:
    """Return the table of the fields of an object, or of the values of a list in their order."""
    rows = (
        part["properties"].items() if "properties" in part else [(each["title"], each) for each in part["prefixItems"]]
    )
    return table(["field", "is", "meaning"], ([f"`{name}`", _kind(of), of.get("description", "")] for name, of in rows))


def _kind(of: Mapping[str, Any]) -> str:
    """Return what a field may be, in words, with a link where it is described in its own table."""
    if "$ref" in of:
        name = of["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in of:
        return " or ".join(_kind(each) for each in of["anyOf"])
    if "enum" in of:
        return ", ".join(f"`{json.dumps(word)}`" for word in of["enum"])
    if "additionalProperties" in of and of["additionalProperties"] is not False:
        return f"object of {_kind(of['additionalProperties'])}"
    kind = of.get("type", "anything")
    kinds = kind if isinstance(kind, list) else [kind]
    words = [f"list of {_kind(of['items'])}" if each == "array" and "items" in of else str(each) for each in kinds]
    return " or ".join(words)


_BEFORE = "Environment variable that "
"""What the docstring of such a constant begins with, and its row need not."""


def variables() -> dict[str, str]:
    """Return the environment variables that are ours or CUDA's, with the docstring of the constant that names each."""
    result: dict[str, str] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        said = _docstrings(tree)
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
                if name.endswith("_VARIABLE"):
                    result.setdefault(node.value.value, _words(said.get(name, "")).removeprefix(_BEFORE))
    return result


def environment() -> Iterator[str]:
    """The environment variables that are read."""
    yield "## Environment variables"
    rows = sorted((variables() | OF_OTHERS).items())
    yield table(["variable", "meaning"], ([f"`{name}`", text] for name, text in rows))
    yield "What a run knows of its commit comes from git, and where git does not answer from what the CI service sets:"
    yield table(
        ["what", "variables"], ([what, ", ".join(f"`{each}`" for each in names)] for what, names in OF_CI.items())
    )


PARTS = (keys, options, of_commands, fixtures, statuses, exit_codes, options_of_backends, documents, environment)


def reference() -> str:
    """Return the text of the reference."""
    head = (
        "# Reference",
        "Keys, options, commands, fixtures, statuses, exit codes, JSON and environment variables.",
        "This page is made from the code, and a test fails when it is stale.",
    )
    return "\n\n".join([*head, *(paragraph for part in PARTS for paragraph in part() if paragraph)]) + "\n"


def main() -> None:
    """Print the reference, or write it where the other guides are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write it into the guides")
    if parser.parse_args().write:
        REFERENCE.write_text(reference(), "utf-8")
    else:
        sys.stdout.write(reference())


if __name__ == "__main__":
    main()
