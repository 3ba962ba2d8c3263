"""The history of all records, in an SQLite file or a PostgreSQL database.

Importing this loads no database library: it is an extra, and `open_store` raises where it is missing.
"""

from pytest_quant.history.database import INSTALL, missing_libraries, open_store, require_libraries
from pytest_quant.history.rows import StoredCheck, StoredRun, identity_of, version_of
from pytest_quant.history.summaries import CheckSummary, SeriesSummary

__all__ = [
    "INSTALL",
    "CheckSummary",
    "SeriesSummary",
    "StoredCheck",
    "StoredRun",
    "identity_of",
    "missing_libraries",
    "open_store",
    "require_libraries",
    "version_of",
]
