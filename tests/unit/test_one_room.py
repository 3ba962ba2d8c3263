"""What differs between systems is in `pytest_quant.host` alone: the rest of the package asks there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_quant

PACKAGE = Path(pytest_quant.__file__).parent
ROOM = PACKAGE / "host.py"

_OF_SYSTEMS: dict[str, frozenset[str]] = {
    "os": frozenset(
        (
            *(
                "O_BINARY",
                "O_DIRECTORY",
                "RTLD_NOLOAD",
                "RTLD_NOW",
                "fchmod",
                "fdatasync",
                "fork",
                "getegid",
                "geteuid",
            ),
            *("getgid", "getpgid", "getuid", "killpg", "name", "posix_fadvise", "sched_getaffinity"),
            *("sched_setaffinity", "setpgrp", "setsid", "startfile", "statvfs", "uname"),
        )
    ),
    "platform": frozenset(("libc_ver", "mac_ver", "platform", "system", "uname", "win32_ver")),
    "signal": frozenset(
        (
            *("SIGALRM", "SIGBREAK", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "pthread_kill"),
            *("setitimer", "sigwait"),
        )
    ),
    "sys": frozenset(("getwindowsversion", "platform", "winver")),
}
"""Attributes of the standard library that not every system has, or that name the system."""

_MODULES = frozenset(
    (
        *("_winapi", "fcntl", "grp", "msvcrt", "nt", "posix", "pwd", "pty", "resource", "shlex", "termios", "winreg"),
        "winsound",
    )
)
"""Modules of one kind of system, and of one kind of shell."""

_WORDS = frozenset(("close_fds", "pass_fds", "prctl", "preexec_fn", "start_new_session", "sysctl"))
_KERNEL_FILE = re.compile(r"(^|/)(proc|sys)(/|$)")


def _named(node: ast.AST, texts: set[int]) -> Iterator[str]:
    """Yield what a node names that only some systems have; `texts` are docstrings."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in _OF_SYSTEMS.get(owner, ()):
            yield f"{owner}.{name}"
        case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) if name in _WORDS:
            yield name
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in _MODULES)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from [module] if module in _MODULES else ()
            yield from (f"{module}.{alias.name}" for alias in names if alias.name in _OF_SYSTEMS.get(module, ()))
        case ast.Call(func=ast.Attribute(attr="CDLL") | ast.Name(id="CDLL"), args=[ast.Constant(value=None), *_]):
            yield "CDLL(None)"
        case ast.Constant(value=str(text)) if id(node) not in texts:
            known = {name for names in _OF_SYSTEMS.values() for name in names} - {"name", "platform", "system"}
            yield from [text] if text in known | _WORDS | _MODULES - {"resource"} else ()
            yield from [text] if _KERNEL_FILE.search(text) else ()


def of_systems(source: str) -> list[str]:
    """Return what a module names that only some systems have."""
    tree = ast.parse(source)
    # Texts below attributes say what these are, as docstrings do.
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [found for node in ast.walk(tree) for found in _named(node, texts)]


def without_encoding(source: str) -> list[int]:
    """Return the lines where a text is read or written in the encoding that the system happens to have."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        is_text = {
            "read_text": not node.args,
            "write_text": len(node.args) < 2,
            "open": any(re.fullmatch("[rwax]t?[+]?", mode) for mode in modes),
            "TemporaryFile": any(re.fullmatch("[rwax]t?[+]?", mode) for mode in modes),
        }.get(name, False)
        if (is_text or ("text" in given and isinstance(given["text"], ast.Constant))) and "encoding" not in given:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import sys\nif sys.platform == 'linux': pass", ["sys.platform"]),
        ("import fcntl", ["fcntl"]),
        ("def f():\n    from resource import getrusage", ["resource"]),
        ("from os import fork, path", ["os.fork"]),
        ("getattr(os, 'fdatasync', None)", ["fdatasync"]),
        ("ctypes.CDLL(None).prctl(1, 9)", ["prctl", "CDLL(None)"]),
        ("ctypes.CDLL('libx.so')", []),
        ("Popen(x, pass_fds=[3])", ["pass_fds"]),
        ("def f(root=Path('/sys/class')):\n    '''Reads /sys/class.'''", ["/sys/class"]),
        ("X = 1\n'''As in /proc/self.'''", []),
        ("root / 'proc/self/status'", ["proc/self/status"]),
        ("Path('/proc', number)", ["/proc"]),
        ("os.replace(a, b); platform.machine(); signal.SIGINT", []),
    ],
)
def test_what_is_found(source: str, found: list[str]) -> None:
    """Names, modules, options and files; what a docstring tells is none."""
    assert sorted(of_systems(source)) == sorted(found)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("file.read_text()", [1]),
        ("file.read_text('utf-8')", []),
        ("file.write_text(text, encoding='utf-8')", []),
        ("file.write_text(text)", [1]),
        ("file.open('w')", [1]),
        ("file.open('wb')", []),
        ("backend.open(spec, folder)", []),
        ("run(x,\n    text=True)", [1]),
        ("run(x, text=True, encoding='utf-8')", []),
    ],
)
def test_which_texts_have_no_encoding(source: str, lines: list[int]) -> None:
    """Those of files, and of the streams of processes."""
    assert without_encoding(source) == lines


def test_nothing_else_knows_of_systems() -> None:
    """So that a system is supported in one place."""
    files = [file for file in PACKAGE.rglob("*.py") if file != ROOM]
    found = {file.relative_to(PACKAGE).as_posix(): of_systems(file.read_text("utf-8")) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_every_text_has_its_encoding() -> None:
    """What one system writes another reads, whatever its language."""
    files = list(PACKAGE.rglob("*.py"))
    found = {file.relative_to(PACKAGE).as_posix(): without_encoding(file.read_text("utf-8")) for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}
