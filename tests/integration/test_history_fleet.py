"""A history that many runners share: behind a pool of connections, and for a role that may only append."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import open_store
from pytest_quant.history.writing import prune
from pytest_quant.record import Record, Run
from tests.integration.fake_session import run_fake
from tests.support.documents import GUIDES, Document
from tests.support.history_repository import Answer, run_command
from tests.support.postgres import PostgresServer
from tests.unit.record.examples import RUN, a_record, with_latency

_TEST = '@mark.quant(output="PASS")\ndef test_it(): pass\n'

(_GUIDE,) = Document(GUIDES / "fleet.md").blocks("sql")
_RIGHTS = "\n".join(line for line in _GUIDE.text.splitlines() if line.startswith("GRANT")).replace("runner", "{role}")


def _with_rounds() -> Record:
    return with_latency(a_record(), round_p50_ms={"reference": (1.0, 1.1), "candidate": (0.5, 0.6)})


def _done(folder: Path, *words: str) -> Answer:
    answer = run_command(folder, *words)
    assert answer.returncode == 0, answer.stderr
    return answer


def test_a_pool_of_connections_serves_every_command(pytester: pytest.Pytester, pooled_url: str) -> None:
    """Each transaction may get the connection of another: nothing is kept on one from transaction to transaction."""
    for _ in range(3):
        run_fake(pytester, _TEST, f"--quant-history={pooled_url}").assert_outcomes(passed=1)
    old = replace(RUN, id="20200101T000000Z-old", started_at="2020-01-01T00:00:00+00:00")
    assert open_store(pooled_url).append_many([(old, [_with_rounds()] * 30)]) == (1, 0)
    runs = [stored.run.id for stored in open_store(pooled_url).runs()]
    assert len(runs) == 4
    folder, place = pytester.path, ("--history", pooled_url)
    assert all(run in _done(folder, "history", *place).stdout for run in runs)
    assert "1 record" in _done(folder, "compare", runs[1], runs[0], *place).stdout
    _done(folder, "history", "export", "all.jsonl", *place)
    assert "30 records of 1 run thinned" in _done(folder, "history", "prune", "--keep-runs", "1", *place).stdout
    _done(folder, "history", "prune", "--run", old.id, *place)
    assert "1 of 4 runs added" in _done(folder, "history", "import", "all.jsonl", *place).stdout
    assert open_store(pooled_url).records(old.id) == [_with_rounds()] * 30


@pytest.fixture
def owner_url(postgres_server: PostgresServer) -> str:
    """The URL of a history whose tables are there, as their owner."""
    url = postgres_server.new_database()
    open_store(url)
    return url


def _role(server: PostgresServer, url: str, rights: str) -> str:
    """Make a role with these rights, and return the URL for it."""
    role = f"recorder_{secrets.token_hex(4)}"
    with psycopg.connect(server.address(url)) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN; {rights.format(role=role)}".encode())
    return url.replace("postgres@", f"{role}@")


def _stored(url: str) -> list[tuple[Run, tuple[Record, ...]]]:
    return list(open_store(url).each_run())


def test_a_role_that_may_only_append_records_and_reads(
    pytester: pytest.Pytester, postgres_server: PostgresServer, owner_url: str
) -> None:
    """Runs, of series that are new and of known ones, imports, and every list."""
    place = _role(postgres_server, owner_url, _RIGHTS)
    for _ in range(2):
        result = run_fake(pytester, _TEST, f"--quant-history={place}")
        result.assert_outcomes(passed=1)
        result.stdout.no_fnmatch_line("*cannot be*")
    assert open_store(place).append(RUN, [a_record()])
    assert len(_stored(owner_url)) == 3
    assert RUN.id in _done(pytester.path, "history", "--history", place).stdout


def test_a_role_that_may_only_append_changes_nothing(postgres_server: PostgresServer, owner_url: str) -> None:
    """Neither are records thinned nor is a run removed; the message names the rights."""
    store = open_store(_role(postgres_server, owner_url, _RIGHTS))
    store.append(RUN, [_with_rounds()])
    before = _stored(owner_url)
    for change in (
        lambda: store.remove(RUN.id),
        lambda: prune(open_store(_role(postgres_server, owner_url, _RIGHTS)), 0),
    ):
        with pytest.raises(HistoryError, match="cannot be written") as caught:
            change()
        assert "permission denied for table quant_runs" in (caught.value.value or "")
        assert "the owner of the tables creates them, prunes and removes" in (caught.value.fix or "")
    assert _stored(owner_url) == before


@pytest.mark.parametrize(
    ("rights", "missing"),
    [
        ("", "permission denied for table quant_schema"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", "permission denied for table quant_series"),
        ("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {role}", "permission denied for sequence"),
    ],
)
def test_a_right_that_is_missing_is_named(
    postgres_server: PostgresServer, owner_url: str, rights: str, missing: str
) -> None:
    """With all that a role needs to record."""
    with pytest.raises(HistoryError) as caught:
        open_store(_role(postgres_server, owner_url, rights)).append(RUN, [a_record()])
    assert missing in (caught.value.value or "")
    assert "SELECT and INSERT on all quant_ tables and USAGE on their sequences" in (caught.value.fix or "")


def test_a_role_without_a_right_to_create_cannot_begin_a_history(postgres_server: PostgresServer) -> None:
    """Somebody else does."""
    url = postgres_server.new_database()
    with pytest.raises(HistoryError, match="cannot be opened") as caught:
        open_store(_role(postgres_server, url, ""))
    assert "permission denied for schema public" in (caught.value.value or "")
    assert "the owner of the tables creates them" in (caught.value.fix or "")
