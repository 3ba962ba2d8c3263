"""A content-keyed store on disk for engines, calibrations and reference outputs."""

from pytest_quant.cache.cache import Cache
from pytest_quant.cache.files import create_ignored_folder
from pytest_quant.cache.manifest import Cleared, Entry, JsonScalar, StoredEntry

__all__ = ["Cache", "Cleared", "Entry", "JsonScalar", "StoredEntry", "create_ignored_folder"]
