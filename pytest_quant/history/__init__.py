"""The history of all records, in an SQLite file or another database."""

from pytest_quant.history.aside import read_aside, set_aside, write_aside
from pytest_quant.history.rows import StoredCheck, StoredRun
from pytest_quant.history.store import Store, open_store

__all__ = ["Store", "StoredCheck", "StoredRun", "open_store", "read_aside", "set_aside", "write_aside"]
