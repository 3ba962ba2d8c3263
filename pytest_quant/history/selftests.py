"""Self-tests of runners in the history: the newest one of machines of one identity counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pytest_quant.bounded import parse_json
from pytest_quant.errors import HistoryError
from pytest_quant.history.database import require_libraries
from pytest_quant.history.rows import in_utc, machine_of, searchable
from pytest_quant.record.codec import decode, plain
from pytest_quant.result import SelfTest


def keep_selftest(place: str | Path, found: SelfTest) -> None:
    """Add a self-test to the history at `place`. Raises `HistoryError` when it cannot be opened or written."""
    require_libraries()
    # Here, because what asks whether there is a history needs no database.
    from sqlalchemy import insert

    from pytest_quant.history.connect import open_engine, storage_errors, writing
    from pytest_quant.history.schema import SELFTESTS

    engine, shown = open_engine(place)
    row = {
        "machine": machine_of(found.identity),
        "device": searchable(found.device),
        "measured_at": searchable(in_utc(found.measured_at)),
        "document": json.dumps(plain(found, "self-test"), allow_nan=False),
    }
    with storage_errors(shown, "written"), writing(engine) as connection:
        connection.execute(insert(SELFTESTS), [row])


def newest_selftest(place: str | Path, identity: Mapping[str, str], device: str) -> SelfTest | None:
    """Return the newest self-test of machines like this one, ``None`` without one.

    Parameters
    ----------
    place : file or database URL of the history; a file that does not exist is not created.
    identity : of the machine, see `Environment`.
    device : ``cpu`` or ``cuda:0``.

    Raises
    ------
    HistoryError : the history cannot be opened or read, or the row is damaged.
    """
    if not is_there(place):
        return None
    require_libraries()
    from sqlalchemy import select

    from pytest_quant.history.connect import open_engine, reading, storage_errors
    from pytest_quant.history.schema import SELFTESTS

    engine, shown = open_engine(place)
    wanted = (
        select(SELFTESTS.c.document)
        .where(SELFTESTS.c.machine == machine_of(identity), SELFTESTS.c.device == device)
        .order_by(SELFTESTS.c.measured_at.desc(), SELFTESTS.c.number.desc())
        .limit(1)
    )
    with storage_errors(shown, "read"), reading(engine) as connection:
        document = connection.execute(wanted).scalar_one_or_none()
    return None if document is None else _decoded(document, shown)


def is_there(place: str | Path) -> bool:
    """Whether there is a history at `place`: a file that exists, or a server, which is not asked."""
    return "://" in str(place) or Path(place).exists()


def _decoded(document: str, shown: str) -> SelfTest:
    try:
        return decode(SelfTest, parse_json(document), "self-test")
    except (HistoryError, ValueError) as error:
        raise HistoryError(
            f"the self-test in the history {shown} is damaged",
            value=str(error).splitlines()[0],
            allowed="a document that is whole, with every figure",
            fix="measure this runner again",
        ) from error
