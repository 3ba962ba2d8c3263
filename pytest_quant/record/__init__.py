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

from pytest_quant.record.new_record import build_failed_record as build_failed_record
from pytest_quant.record.new_record import build_record as build_record
from pytest_quant.record.record import SCHEMA as SCHEMA
from pytest_quant.record.record import EncodedRecord as EncodedRecord
from pytest_quant.record.record import Json as Json
from pytest_quant.record.record import Record as Record
from pytest_quant.record.record import Run as Run
from pytest_quant.record.record import encode_record as encode_record
from pytest_quant.record.record import from_json as from_json
from pytest_quant.record.record import run_from_json as run_from_json
from pytest_quant.record.record import run_of as run_of
from pytest_quant.record.record import run_to_json as run_to_json
from pytest_quant.record.record import start_run as start_run
from pytest_quant.record.record import to_json as to_json
