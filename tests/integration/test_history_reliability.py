"""A history takes every run once, whoever writes, dies or disappears meanwhile."""

from __future__ import annotations

import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.json_lines import read_runs
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.support.history_repository import run_command
from tests.support.postgres import PostgresServer, find_programs
from tests.unit.record.examples import RUN, a_pass, a_record

_ROOT = Path(__file__).parents[2]
_WRITERS = 6
_RUNS_EACH = 4

_APPEND = """
import sys
from dataclasses import replace
from pytest_quant.history import open_store
from tests.unit.record.examples import RUN, a_pass, a_record
place, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    open_store(place).append(replace(RUN, id=f"{name}-{number}"), [a_record(), a_pass()])
    open_store(place).append(replace(RUN, id=f"shared-{number}"), [a_pass()])
"""


@pytest.fixture
def own_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test may kill or stop; skipped where `postgres_server` is."""
    programs = find_programs()
    assert programs is not None
    server = PostgresServer(programs)
    server.start()
    yield server
    server.remove()


def test_six_processes_write_every_record_once(history_url: str) -> None:
    """All at once, the tables not there yet; each adds runs of its own and runs of all."""
    command = [sys.executable, "-c", _APPEND, history_url]
    writers = [
        subprocess.Popen([*command, str(index), str(_RUNS_EACH)], cwd=_ROOT, stderr=subprocess.PIPE, text=True)
        for index in range(_WRITERS)
    ]
    errors = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * _WRITERS, errors
    stored = {run.id: list(records) for run, records in open_store(history_url).each_run()}
    own = {f"{index}-{number}": [a_record(), a_pass()] for index in range(_WRITERS) for number in range(_RUNS_EACH)}
    shared = {f"shared-{number}": [a_pass()] for number in range(_RUNS_EACH)}
    assert stored == own | shared


def test_eight_workers_of_one_run_write_every_record_once(pytester: pytest.Pytester, history_url: str) -> None:
    """In the order of the tests, whichever worker ran one."""
    source = '@mark.quant(output="PASS")\n@mark.parametrize("n", range(24))\ndef test_it(n): pass\n'
    result = run_fake_apart(pytester, source, "-n", "8", f"--quant-history={history_url}")
    result.assert_outcomes(passed=24)
    ((_, records),) = open_store(history_url).each_run()
    assert [record.nodeid for record in records] == [f"test_it.py::test_it[{n}]" for n in range(24)]


def test_a_server_that_goes_away_in_mid_run_costs_no_record(
    pytester: pytest.Pytester, own_server: PostgresServer
) -> None:
    """The test is judged, its records stay in a file, and the printed command adds them, twice without harm."""
    place = own_server.new_database()
    open_store(place)
    (pidfile,) = own_server.folder.glob("data/postmaster.pid")
    server = int(pidfile.read_text().splitlines()[0])
    body = f"    import os\n    os.kill({server}, {int(signal.SIGINT)})\n"
    source = f'@mark.quant(output="PASS")\ndef test_it():\n{body}'
    result = run_fake(pytester, source, f"--quant-history={place}")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (line,) = [line for line in result.outlines if "pytest-quant history import" in line]
    words = shlex.split(line.split("pytest-quant history import ")[1])
    assert words[1] == "--history"
    assert make_url(words[2]) == make_url(place)
    own_server.stop()
    own_server.start()
    for expected in ("1 of 1 runs added", "0 of 1 runs added"):
        done = run_command(pytester.path, "history", "import", *words)
        assert expected in done.stdout, done.stderr
    ((run, records),) = open_store(place).each_run()
    assert [(run, records)] == list(read_runs(Path(words[0])))


def test_a_wrong_password_is_not_repeated(own_server: PostgresServer) -> None:
    """The server refuses it, and the message shows neither the right nor the wrong one."""
    place = own_server.new_database()
    rules = own_server.folder / "data" / "pg_hba.conf"
    trusted = rules.read_text()
    own_server.stop()
    rules.write_text(f"local all other scram-sha-256\n{trusted}")
    own_server.start()
    with pytest.raises(HistoryError) as caught:
        open_store(place.replace("postgres@", "other:s3cret@"))
    assert "s3cret" not in str(caught.value)
    assert "authentication" in (caught.value.value or "")


@pytest.mark.parametrize("left_bytes", [0, 100, 4096, 9000, 40_000])
def test_a_truncated_file_is_an_error_and_stays(tmp_path: Path, left_bytes: int) -> None:
    """Cut off anywhere; an empty file is a new history, as for SQLite itself."""
    place = tmp_path / "history.db"
    store = open_store(place)
    for number in range(20):
        store.append(replace(RUN, id=str(number)), [a_record(), a_pass()])
    with closing(sqlite3.connect(place)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert place.stat().st_size > 40_000
    place.write_bytes(place.read_bytes()[:left_bytes])
    before = place.read_bytes()
    if left_bytes == 0:
        assert open_store(place).append(RUN, [a_record()])
        return
    with pytest.raises(HistoryError) as caught:
        list(open_store(place).each_run())
    assert caught.value.fix
    assert place.read_bytes() == before


def test_a_read_only_history_refuses_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own way to open a file read-only, since file modes forbid root nothing; what is there can be read."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "history.db"
    open_store(place).append(RUN, [a_record()])
    read_only = open_store(f"sqlite:///file:{place}?mode=ro&uri=true")
    assert read_only.records(RUN.id) == [a_record()]
    with pytest.raises(HistoryError, match="cannot be written") as caught:
        read_only.append(replace(RUN, id="other"), [a_record()])
    assert "readonly" in (caught.value.value or "")
    assert len(open_store(place).runs()) == 1
    assert not Path("file:").exists()


def test_a_server_that_takes_no_writes_refuses_whole(postgres_server: PostgresServer) -> None:
    """A replica, for example: the run is refused, and nothing of it is there."""
    history_url = postgres_server.new_database()
    open_store(history_url).append(RUN, [a_record()])
    name = history_url.split("@/")[1].split("?")[0]
    with create_engine(history_url, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(HistoryError, match="cannot be written"):
        open_store(history_url).append(replace(RUN, id="other"), [a_record()])
    assert len(open_store(history_url).runs()) == 1
