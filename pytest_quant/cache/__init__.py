"""A content-keyed store on disk for engines, calibrations and reference outputs."""

from pytest_quant.cache.cache import LOCKS, Cache
from pytest_quant.cache.entry import Entry, JsonScalar, StoredEntry

__all__ = ["LOCKS", "Cache", "Entry", "JsonScalar", "StoredEntry"]
