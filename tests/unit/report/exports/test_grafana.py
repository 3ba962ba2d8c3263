"""The dashboard: a schema of Grafana's own takes it, and a real PostgreSQL answers every one of its queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from psycopg.rows import dict_row

from pytest_quant.history import open_store
from pytest_quant.history.rows import identity_of
from pytest_quant.record import Run
from pytest_quant.result import Environment, Status
from tests.unit.record.examples import ACCURACY, RUN, a_check, a_pass, a_record, unavailable

DASHBOARD: dict[str, Any] = json.loads(files("pytest_quant.report.exports").joinpath("grafana.json").read_text("utf-8"))
VARIABLES: dict[str, dict[str, Any]] = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
QUERIES: dict[str, str] = {
    f"{panel['title']} {target['refId']}": target["rawSql"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}

QUOTED = "it's; DROP TABLE quant_runs --"
"""The name of a branch that would end a text in SQL."""

_MACRO = re.compile(r"\$(__\w+)\(([^)]*)\)")
_VARIABLE = re.compile(r"\$\{(\w+):sqlstring\}")

FROM, TO = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)


def interpolated(sql: str, chosen: Mapping[str, list[str]]) -> str:
    """Return a query as Grafana sends it: its own macros of PostgreSQL, and variables as quoted texts.

    The macros are those of Grafana's ``macros.go``, and the format ``sqlstring`` doubles each quote in a text.
    """
    filled = _VARIABLE.sub(lambda found: ",".join(_quoted(text) for text in chosen[found[1]]), sql)
    done = _MACRO.sub(lambda found: _expanded(found[1], [part.strip() for part in found[2].split(",")]), filled)
    assert "${" not in done
    assert "$__" not in done
    return done


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _expanded(macro: str, arguments: list[str]) -> str:
    if macro == "__timeFilter":
        return f"{arguments[0]} BETWEEN '{FROM:%Y-%m-%dT%H:%M:%SZ}' AND '{TO:%Y-%m-%dT%H:%M:%SZ}'"
    assert macro == "__timeGroupAlias"
    seconds = {"'1d'": 86400}[arguments[1]]
    return f'floor(extract(epoch from {arguments[0]})/{seconds})*{seconds} AS "time"'


def _run(number: int, branch: str | None = "main", cpu: str = "Some CPU") -> Run:
    started = FROM + timedelta(days=number, hours=3)
    environment = Environment({**RUN.environment.identity, "cpu": cpu}, RUN.environment.context)
    return replace(
        RUN,
        id=f"run-{number}",
        started_at=started.isoformat(),
        branch=branch,
        commit=f"{number:040x}",
        environment=environment,
    )


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """A history of five runs of two models on two machines; the last run is later than what is looked at."""
    store = open_store(postgres_url)
    large = a_record(a_check(model="large"))
    dynamic = a_record(a_check(scheme="dynamic"), accuracy=replace(ACCURACY, candidate=90.0))
    store.append(_run(0), [a_record(), dynamic])
    store.append(_run(1), [a_pass(), unavailable()])
    store.append(_run(2, cpu="Other CPU"), [a_record()])
    store.append(_run(3, branch=None), [large])
    store.append(_run(60, branch=QUOTED), [a_pass()])
    address = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(address, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture(scope="module")
def everything(database: psycopg.Connection[dict[str, Any]]) -> dict[str, list[str]]:
    """Every value of each variable, as Grafana finds them from the top to the bottom, with all of those before."""
    found: dict[str, list[str]] = {}
    for name, variable in VARIABLES.items():
        if variable["type"] == "query":
            rows = asked(database, variable["query"], found)
            found[name] = [str(row.get("__value", next(iter(row.values())))) for row in rows]
    return found


def asked(
    database: psycopg.Connection[dict[str, Any]], sql: str, chosen: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the rows of a query of the dashboard."""
    return database.execute(interpolated(sql, chosen).encode()).fetchall()


def test_grafana_s_own_types_take_all_of_it() -> None:
    """Read into the types that Grafana publishes and written again, it has lost and changed nothing."""
    register_default_plugins()
    written = json.loads(json.dumps(Dashboard.from_json(DASHBOARD), cls=JSONEncoder))
    assert list(_lost(DASHBOARD, written, "")) == []


def _lost(ours: Any, theirs: Any, place: str) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name in theirs:
                yield from _lost(value, theirs[name], f"{place}/{name}")
            else:
                yield f"{place}/{name}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _lost(one, other, f"{place}/{number}")
    elif ours != theirs:
        yield f"{place}: {ours} became {theirs}"


def test_a_misspelt_key_would_be_lost() -> None:
    """So the comparison above can fail."""
    register_default_plugins()
    wrong = {**DASHBOARD, "titel": "x"}
    written = json.loads(json.dumps(Dashboard.from_json(wrong), cls=JSONEncoder))
    assert list(_lost(wrong, written, "")) == ["/titel"]


def test_panels_are_told_apart_and_lie_beside_each_other() -> None:
    """Each has a number, a title and a description of its own, and no two share a place in the grid of 24 columns."""
    panels = DASHBOARD["panels"]
    for name in ("id", "title", "description"):
        assert len({panel[name] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_every_variable_that_is_used_is_offered() -> None:
    """And each that is offered is used; the data source is one of them, so that no address is in the file."""
    used = {name for sql in QUERIES.values() for name in _VARIABLE.findall(sql)}
    assert used == VARIABLES.keys() - {"datasource"}
    sources = [target["datasource"] for panel in DASHBOARD["panels"] for target in (panel, *panel["targets"])]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    assert VARIABLES["datasource"]["query"] == sources[0]["type"]


def test_variables_offer_what_the_history_has(everything: dict[str, list[str]]) -> None:
    """A run without a branch is one of its own; a machine is told by its processor."""
    assert everything["model"] == ["digits", "large"]
    assert everything["test"] == ["tests/test_digits.py::test_int8"]
    assert set(everything["engine"]) == {"ort-int8-static", "ort-int8-dynamic", "ort-cuda-int8-static"}
    assert set(everything["branch"]) == {"-", "main", QUOTED}
    assert identity_of(_run(2, cpu="Other CPU"), a_record()) in everything["identity"]


def test_a_machine_is_offered_by_its_processor(database: psycopg.Connection[dict[str, Any]]) -> None:
    """The value is what its checks share, the text what somebody knows it by."""
    rows = asked(database, VARIABLES["identity"]["query"], {})
    shown = {row["__value"]: row["__text"] for row in rows}
    assert shown[identity_of(_run(2, cpu="Other CPU"), a_record())].startswith("Other CPU ")


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_answered(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]], name: str
) -> None:
    """Within the range of time, with the columns that a panel of its kind needs, in the order of time."""
    rows = asked(database, QUERIES[name], everything)
    assert rows
    columns = list(rows[0])
    assert "time" in columns
    if "metric" in columns and not name.startswith("Last check"):
        times = [row["time"] for row in rows]
        assert times == sorted(times)
        assert columns[:2] == ["time", "metric"]
        assert all(isinstance(row[columns[2]], (int, float)) for row in rows)


def test_a_choice_narrows_every_query(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]]
) -> None:
    """Of a value that nothing has there is nothing, whichever variable it is; a quote in it ends no text."""
    for name in everything:
        for sql in QUERIES.values():
            assert asked(database, sql, {**everything, name: [QUOTED + "?"]}) == []
    assert asked(database, "SELECT count(*) AS runs FROM quant_runs", {}) == [{"runs": 5}]


def test_the_figures_are_those_of_the_records(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]]
) -> None:
    """Score, speedup and median time, each in its series, told by model, engine and test."""
    static = "digits ort-int8-static tests/test_digits.py::test_int8 batch 1"
    scores = asked(database, QUERIES["Score A"], everything)
    assert [row["candidate"] for row in scores if row["metric"] == f"{static} top1"] == [93.55, 97.5, 93.55]
    assert [row["reference"] for row in asked(database, QUERIES["Score B"], everything)][:1] == [97.78]
    here, there = (identity_of(_run(0, cpu=cpu), a_record()) for cpu in ("Some CPU", "Other CPU"))
    for name, column, figure, told in (
        ("Speedup A", "speedup", 1.9475, ""),
        ("Speedup B", "lower end", 1.9012, " lower end"),
        ("Speedup C", "upper end", 1.9888, " upper end"),
        ("Median time A", "candidate", 0.2345, ""),
        ("Median time B", "reference", 0.4567, " reference"),
    ):
        rows = asked(database, QUERIES[name], everything)
        assert {row[column] for row in rows} == {figure}
        found = [row["metric"] for row in rows if row["metric"].startswith(static)]
        assert found == [f"{static} on {machine}{told}" for machine in (here, here, there)]


def test_no_two_queries_of_a_panel_name_a_series_alike(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]]
) -> None:
    """Else two curves of a chart would have one name."""
    for panel in DASHBOARD["panels"]:
        names = [
            {row["metric"] for row in asked(database, target["rawSql"], everything)}
            for target in panel["targets"]
            if target["format"] == "time_series"
        ]
        assert sum(map(len, names)) == len(set().union(*names))


def test_the_table_has_the_newest_check_of_each_series(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]]
) -> None:
    """One row for each series and machine; the run that is later than the range is not looked at."""
    rows = asked(database, QUERIES["Last check of each series A"], everything)
    here = identity_of(_run(0), a_record())
    (static,) = [
        row
        for row in rows
        if row["engine"] == "ort-int8-static" and row["machine"] == here and row["model"] == "digits"
    ]
    assert (static["status"], static["candidate"], static["commit"]) == ("PASS", 97.5, f"{1:040x}"[:12])
    assert {row["status"] for row in rows} == {"PASS", "FAIL", "UNAVAILABLE"}


def test_checks_are_counted_by_day_and_status(
    database: psycopg.Connection[dict[str, Any]], everything: dict[str, list[str]]
) -> None:
    """The first day had two failures."""
    rows = asked(database, QUERIES["Checks by status A"], everything)
    day = FROM.timestamp()
    assert [(row["metric"], row["checks"]) for row in rows if row["time"] == day] == [(Status.FAIL.value, 2)]
