"""A content-keyed store on disk for engines, calibrations and reference outputs."""

from pytest_quant.cache.cache import Cache
from pytest_quant.cache.entry import Cleared, Entry, JsonScalar, StoredEntry
from pytest_quant.cache.folder import create_ignored_folder

__all__ = ["Cache", "Cleared", "Entry", "JsonScalar", "StoredEntry", "create_ignored_folder"]
