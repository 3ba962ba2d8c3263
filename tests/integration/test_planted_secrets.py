"""Passwords and tokens are planted in every way that one comes in, and looked for in all that every command leaves."""

from __future__ import annotations

import http.server
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest

from pytest_quant.cli import main
from pytest_quant.history import open_store
from tests.integration.fake_session import run_fake
from tests.integration.projects import write_project
from tests.support.in_process import run_here
from tests.support.models import select_first
from tests.support.postgres import PostgresServer
from tests.support.repository import ScratchRepository, make_repository, without_ci

SECRET = "Geh3im"  # noqa: S105 - this is what is looked for; every planted password and token holds it
PLANTED_IN = ("tox.ini", ".git/config")
"""Files of the project that hold a secret because the user wrote it there."""

HISTORIES = {
    "refused": f"postgresql://me:{SECRET}@127.0.0.1:1/x",
    "with an @ in the password": f"postgresql://me:a@{SECRET}@127.0.0.1:1/x",
    "with a / in the password": f"postgresql+psycopg://me:a/{SECRET}@127.0.0.1:1/x",
    "with a password after an unknown parameter": f"postgresql://me:{SECRET}@127.0.0.1:1/x?no_such=1&password={SECRET}",
    "of another kind": f"mysql://me:{SECRET}@127.0.0.1:1/x?token={SECRET}",
    "that cannot be read": f"postgresql://me:{SECRET}@127.0.0.1:port/x",
}
"""Addresses that do not answer, by what they are: a history is told of one in an option, the ini file or a variable."""

OF_A_HISTORY: dict[str, tuple[str, ...]] = {
    "runs": ("history",),
    "runs as JSON": ("history", "--json"),
    "series": ("history", "--series"),
    "one series": ("history", "test_model ort-int8"),
    "one series as JSON": ("history", "test_model ort-int8", "--json"),
    "changes": ("history", "changes", "--branch", "main"),
    "compare": ("compare", "HEAD", "HEAD"),
    "compare as JSON": ("compare", "HEAD", "HEAD", "--json"),
    "compare as Markdown": ("compare", "HEAD", "HEAD", "--markdown"),
    "export": ("history", "export", "export.jsonl"),
    "export to the output": ("history", "export"),
    "export as CSV": ("history", "export", "export.csv"),
    "import": ("history", "import", "run.json"),
    "accept": ("accept", "--reason", "why"),
    "push": ("history", "push"),
    "pull": ("history", "pull"),
    "prune": ("history", "prune", "--keep-runs", "0"),
}
OF_NONE: dict[str, tuple[str, ...]] = {
    "cache": ("cache",),
    "cache clear": ("cache", "clear", "--yes"),
    "doctor": ("doctor", "--require", "ort"),
    "doctor as JSON": ("doctor", "--json"),
}
FILES = ("--quant-json=run.json", "--junitxml=junit.xml", "--log-file=run.log", "--log-file-level=DEBUG", "-vv")
"""What else a run writes, beside its output, the history and the cache."""

OPENED = ("runs", "import", "prune", "push")
"""Commands of which each opens a history in another way; all others open it as the first does."""


@dataclass
class Seen:
    """Everything that commands printed and wrote, by where it was."""

    root: Path
    printed: dict[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, Path]:
        """Return every file by its name, those of git and of temporary folders too."""
        return {path.relative_to(self.root).as_posix(): path for path in self.root.rglob("*") if path.is_file()}

    def leaks(self) -> list[str]:
        """Return every place that holds the secret."""
        files = self.files()
        written = {name: path.read_bytes() for name, path in files.items() if name not in PLANTED_IN}
        named = [name for name in files if SECRET in name]
        return (
            [name for name, text in self.printed.items() if SECRET in text]
            + named
            + [name for name, content in written.items() if SECRET.encode() in content]
        )


class Project:
    """A user's project under git, in which runs and commands are looked at."""

    def __init__(
        self,
        pytester: pytest.Pytester,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        outside: Path,
    ) -> None:
        self.home, self.remote = outside / "home", outside / "remote"
        self.pytester, self.monkeypatch, self._capfd = pytester, monkeypatch, capfd
        self.git: ScratchRepository = make_repository(pytester.path)
        self.seen = Seen(pytester.path)

    def command(self, name: str, *arguments: str) -> int:
        """Run ``pytest-quant`` and return its exit code."""
        self._capfd.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["pytest-quant", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capfd.readouterr()
        self.seen.printed[name] = f"{printed.out}\n{printed.err}"
        return int(ended.value.code or 0)

    def fake_run(self, name: str, *arguments: str) -> None:
        """Run two tests that measure nothing."""
        source = '@mark.quant(output="PASS")\ndef test_a(): pass\n\n@mark.quant(output="broken")\ndef test_b(): pass\n'
        result = run_fake(self.pytester, source, *FILES, *arguments)
        self.seen.printed[name] = result.stdout.str() + result.stderr.str()


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Project:
    """A project whose temporary files lie in it too, and a home in which git finds what a test writes there."""
    without_ci(monkeypatch)
    folder = pytester.path / "tmp"
    folder.mkdir()
    new_project = Project(pytester, monkeypatch, capfd, tmp_path)
    new_project.home.mkdir()
    for name, value in (("HOME", new_project.home), ("XDG_CONFIG_HOME", new_project.home), ("TMPDIR", folder)):
        monkeypatch.setenv(name, str(value))
    for name in ("PYTEST_QUANT_HISTORY", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return new_project


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_history_that_answers(
    project: Project, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A real run and every command work on a server whose address holds a password, and none of them repeats it."""
    place = postgres_server.new_database().replace("postgres@", f"postgres:{SECRET}@") + f"&sslpassword={SECRET}"
    pytester = project.pytester
    write_project(pytester, mark="max_drop=5.0, max_drop_increase=1.0, backend=['ort', 'openvino']")
    select_first(pytester.path / "model.onnx")
    pytester.makeini("[pytest]")
    (pytester.path / ".gitignore").write_text("*.pyc\n__pycache__\ntmp\n*.json\n*.xml\n*.log\n*.jsonl\n")
    project.git.git("add", ".")
    project.git.git("commit", "-m", "first")
    make_repository(project.remote).git("config", "core.bare", "true")
    project.git.git("remote", "add", "origin", str(project.remote))
    if way == "variable":
        monkeypatch.setenv("PYTEST_QUANT_HISTORY", place)
    chosen = [f"--quant-history={place}"] if way == "option" else []
    run = run_here(pytester, "-p", "no:cacheprovider", "--quant-no-latency", *FILES, *chosen)
    run.assert_outcomes(passed=2)
    project.seen.printed["pytest"] = run.stdout.str() + run.stderr.str()
    options = [] if way == "variable" else ["--history", place]
    codes = {name: project.command(name, *arguments, *options) for name, arguments in OF_A_HISTORY.items()}
    assert {name: code for name, code in codes.items() if code} == {}
    if way == "variable":
        monkeypatch.setattr(import_module("pytest_quant.doctor.examine"), "backend_names", lambda: ("ort",))
        codes = {name: project.command(name, *arguments) for name, arguments in OF_NONE.items()}
        assert {name: code for name, code in codes.items() if code} == {}
    assert "postgresql+psycopg://postgres:***@/" in project.seen.printed["import"]
    assert len(list(open_store(place).each_run())) == 1
    assert {"run.json", "junit.xml", "run.log", "export.jsonl", "quant-baselines.toml"} <= set(project.seen.files())
    assert any(name.startswith(".quant/cache/") for name in project.seen.files())
    assert project.seen.leaks() == []


@pytest.mark.parametrize("place", HISTORIES.values(), ids=HISTORIES)
def test_a_history_that_does_not_answer(project: Project, place: str) -> None:
    """What a library says of the address is printed without it, by the run and by every way to open a history."""
    project.pytester.makeini("[pytest]")
    project.fake_run("pytest", f"--quant-history={place}")
    codes = {name: project.command(name, *OF_A_HISTORY[name], "--history", place) for name in OPENED}
    assert set(codes.values()) == {2}
    assert project.seen.leaks() == []


def test_an_address_from_elsewhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment and the ini file name a history as the option does."""
    place = HISTORIES["with an @ in the password"]
    project.pytester.makeini(f"[pytest]\nquant_history = {place}")
    project.fake_run("ini")
    project.pytester.makeini("[pytest]")
    monkeypatch.setenv("PYTEST_QUANT_HISTORY", place)
    assert project.command("runs", "history") == 2
    project.fake_run("variable")
    assert project.seen.leaks() == []


class _Refusing(http.server.BaseHTTPRequestHandler):
    """A host of repositories that takes no password."""

    def do_GET(self) -> None:
        """Ask for a password, whatever was given."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """A host of repositories, as it stands in an address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class Way:
    """How git gets a token: the remote that is named, settings of the repository and of the user, and ``.netrc``."""

    remote: str = "origin"
    own: Sequence[tuple[str, str]] = ()
    of_user: str = ""
    netrc: str = ""
    environ: Sequence[tuple[str, str]] = ()


WAYS = {
    "option": Way(remote=f"http://{SECRET}@HOST/x.git"),
    "option with a /": Way(remote=f"http://me:a/{SECRET}@HOST/x.git"),
    "option without its slashes": Way(remote=f"me:{SECRET}@HOST/x.git"),
    "remote": Way(own=[("remote.origin.url", f"http://me:{SECRET}@HOST/x.git")]),
    "insteadOf": Way(remote="short:x.git", of_user=f'[url "http://{SECRET}@HOST/"]\n\tinsteadOf = "short:"\n'),
    "header": Way(
        remote="http://HOST/x.git", of_user=f'[http "http://HOST/"]\n\textraHeader = "AUTHORIZATION: basic {SECRET}"\n'
    ),
    ".netrc": Way(remote="http://HOST/x.git", netrc=f"machine 127.0.0.1 login me password {SECRET}\n"),
    "remote under a trace": Way(
        own=[("remote.origin.url", f"http://me:{SECRET}@HOST/x.git")],
        environ=[("GIT_TRACE", "1"), ("GIT_CURL_VERBOSE", "1"), ("GIT_TRACE_REDACT", "0")],
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_remote_that_refuses(project: Project, monkeypatch: pytest.MonkeyPatch, host: str, way: Way) -> None:
    """What git says of the address is printed without the token, wherever git has it from."""
    project.fake_run("pytest")
    for name, value in way.own:
        project.git.git("config", name, value.replace("HOST", host))
    (project.home / ".gitconfig").write_text(way.of_user.replace("HOST", host))
    (project.home / ".netrc").write_text(way.netrc)
    for name, value in way.environ:
        monkeypatch.setenv(name, value)
    for name in ("push", "pull"):
        assert project.command(name, "history", name, f"--remote={way.remote.replace('HOST', host)}") == 2
        assert "git" in project.seen.printed[name] or "remote" in project.seen.printed[name]
    assert project.seen.leaks() == []


def test_a_remote_that_takes_the_records(project: Project) -> None:
    """The lines of success name the remote without its token, and so does the one for a branch that is not there."""
    project.fake_run("pytest")
    make_repository(project.remote).git("config", "core.bare", "true")
    address = f"https://{SECRET}@host/x.git"
    written = f'[url "{project.remote}"]\n\tinsteadOf = "{address}"\n'
    (project.home / ".gitconfig").write_text(written)
    assert project.command("pull from nothing", "history", "pull", "--remote", address) == 2
    assert project.command("push", "history", "push", "--remote", address) == 0
    assert project.command("pull", "history", "pull", "--remote", address) == 0
    assert "https://***@host/x.git" in project.seen.printed["push"]
    assert "https://***@host/x.git" in project.seen.printed["pull from nothing"]
    assert project.seen.leaks() == []
