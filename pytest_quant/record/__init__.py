"""What is kept of a check, and its JSON.

``pytest_quant/record_schema.json`` describes the document of a run; its field ``schema`` is the version. A field
that is added leaves the version as it is, and readers ignore fields they do not know; a field that goes, or means
something else, makes a new version.

======  ==========================================================================================
schema  what changed
======  ==========================================================================================
1       first version: run, checks with accuracy, latency, coverage, resources, cache and verdicts
======  ==========================================================================================
"""

from pytest_quant.record.build import build_record, failed_record, series_key
from pytest_quant.record.codec import Encoded, Json, encoded, from_json, to_json
from pytest_quant.record.record import Record
from pytest_quant.record.run import SCHEMA, Run, run_from_json, run_of, run_to_json, start_run

__all__ = [
    "SCHEMA",
    "Encoded",
    "Json",
    "Record",
    "Run",
    "build_record",
    "encoded",
    "failed_record",
    "from_json",
    "run_from_json",
    "run_of",
    "run_to_json",
    "series_key",
    "start_run",
    "to_json",
]
