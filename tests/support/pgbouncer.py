"""A real pgbouncer in transaction mode, before the PostgreSQL of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import REQUIRED, PostgresServer, wait_for

_CONFIG = """
[databases]
* = host={server} user=postgres
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@pytest.fixture
def pooled_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database behind a pool of two connections."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        reason = "pgbouncer is not installed; apt-get install pgbouncer"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{reason} ({REQUIRED} is set)")
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="quant-pool-"))
    config = folder / "pgbouncer.ini"
    config.write_text(_CONFIG.format(server=postgres_server.folder, folder=folder))
    if postgres_server.user is not None:
        shutil.chown(folder, postgres_server.user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, config], stdout=log, stderr=log, user=postgres_server.user)
    direct = postgres_server.new_database()
    url = direct.replace(f"host={postgres_server.folder}", f"host={folder}&port=6432")
    try:
        name = direct.split("@/")[1].split("?")[0]
        wait_for(
            lambda: psycopg.connect(f"host={folder} port=6432 user=postgres dbname={name}"), process, folder / "log"
        )
        yield url
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
