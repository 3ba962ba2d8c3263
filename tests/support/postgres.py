"""A real PostgreSQL server for tests: its own folder, its own user, a socket and no port."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# pytester forgets what was imported first inside its test, and a second import registers functions twice.
import sqlalchemy.dialects.postgresql  # noqa: F401

if find_spec("psycopg"):  # a machine that is lent for its GPU has neither a server nor this
    import psycopg

REQUIRED = "PYTEST_QUANT_REQUIRE_POSTGRES"
"""Environment variable that turns a server that is not there from a skip into a failure."""

_USER = "postgres"
_START_S = 60.0
_OPTIONS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=32MB")


class PostgresServer:
    """One server with its data in a temporary folder.

    Parameters
    ----------
    programs : folder of ``initdb`` and ``postgres``.

    Attributes
    ----------
    folder : of its data and its socket.
    user : of the system that it runs as; ``None`` for the one who runs the tests.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not pytest's folder, which only the user who runs the tests may enter; short, as the name of a socket must be.
        self.folder = Path(tempfile.mkdtemp(prefix="quant-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.user = _own_user()
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        command = [str(programs / "initdb"), "-D", str(self.folder / "data"), "-U", _USER, "-A", "trust", "-E", "UTF8"]
        done = subprocess.run(
            [*command, "--no-sync", "--locale=C.UTF-8"], capture_output=True, text=True, check=False, user=self.user
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def start(self, *settings: str) -> None:
        """Start the server, with these settings in place of the usual ones, and wait until it answers."""
        data = str(self.folder / "data")
        options = [word for setting in settings for word in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", data, "-k", str(self.folder), *_OPTIONS, *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self.user, start_new_session=True, cwd=self.folder
            )
        wait_for(lambda: psycopg.connect(self._address("postgres")), self._process, self.folder / "log")

    def stop(self) -> None:
        """Stop the server and end its connections."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait()

    def remove(self) -> None:
        """Stop the server when it runs, and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def new_database(self) -> str:
        """Create an empty database and return its URL as ``--quant-history`` takes it."""
        name = f"history_{secrets.token_hex(4)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql+psycopg://{_USER}@/{name}?host={self.folder}"

    def address(self, url: str) -> str:
        """Return what psycopg connects with to the database of a URL."""
        return self._address(url.split("@/")[1].split("?")[0])

    def _address(self, database: str) -> str:
        return f"host={self.folder} user={_USER} dbname={database}"


def wait_for(connect: Callable[[], psycopg.Connection], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers. Raises `RuntimeError` with what it wrote when it has ended, or takes too long."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            connect().close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {log.read_text()}") from None
            time.sleep(0.02)
        else:
            return


def find_programs() -> Path | None:
    """Return the folder of the newest server that is installed, as Debian and others place it."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4))
    result = shutil.which("initdb")
    candidates = [*reversed(folders), *([Path(result).parent] if result else [])]
    return next((path for path in candidates if (path / "initdb").exists() and (path / "postgres").exists()), None)


def _own_user() -> str | None:
    """The server refuses to run as root; then it is the user that Debian's package brings, or one made here."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        # Another worker may make it at the same time, which is as good.
        subprocess.run(["/usr/sbin/useradd", "--system", _USER], check=False, capture_output=True)
        pwd.getpwnam(_USER)
    return _USER


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that runs as long as the tests do, and takes new databases."""
    programs = find_programs()
    if programs is None:
        reason = "PostgreSQL's server is not installed; apt-get install postgresql"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{reason} ({REQUIRED} is set)")
        pytest.skip(reason)
    server = PostgresServer(programs)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of an empty database that the tests of one file share."""
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def history_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind, that of one test alone."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()
