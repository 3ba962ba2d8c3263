"""The history of all records, in an SQLite file or a PostgreSQL database."""

from pytest_quant.history.aside import read_aside, set_aside, write_aside
from pytest_quant.history.connect import shown_place
from pytest_quant.history.points import Point, SeriesSummary
from pytest_quant.history.rows import StoredCheck, StoredRun
from pytest_quant.history.series import identity_of, version_of
from pytest_quant.history.store import Store, open_store

__all__ = [
    "Point",
    "SeriesSummary",
    "Store",
    "StoredCheck",
    "StoredRun",
    "identity_of",
    "open_store",
    "read_aside",
    "set_aside",
    "shown_place",
    "version_of",
    "write_aside",
]
