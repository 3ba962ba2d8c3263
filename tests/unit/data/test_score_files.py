"""Files of scores as people have them: each is read with its scores, or refused in our words with the next step."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.errors import QuantError
from pytest_quant.spec import Scores
from tests.unit.data.test_lm_eval import MONDAY
from tests.unit.data.test_score_pairs import refused, samples

ROWS = [{"id": "s0", "score": 1.0}, {"id": "s1", "score": 0.0}, {"id": "s2", "score": 1.0}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
TABLE = "id,score\ns0,1\ns1,0\ns2,1\n"
READ = [1.0, 0.0, 1.0]


def parquet(**columns: Any) -> bytes:
    """A Parquet file in memory."""
    arrow = pytest.importorskip("pyarrow")
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), stream)
    return stream.getvalue()


def _far_away() -> bytes:
    arrow = pytest.importorskip("pyarrow")
    return parquet(id=["s0"], score=[1.0], at=arrow.array([2**62], arrow.timestamp("us")))


FILES: dict[str, tuple[str, Any, list[float] | str]] = {
    "mark at the beginning of lines": ("a.jsonl", "\ufeff" + LINES, READ),
    "mark at the beginning of a list": ("a.json", "\ufeff" + json.dumps(ROWS), READ),
    "lines of Windows": ("a.jsonl", LINES.replace("\n", "\r\n"), READ),
    "list of Windows": ("a.json", json.dumps({"samples": ROWS}, indent=1).replace("\n", "\r\n"), READ),
    "empty lines": ("a.jsonl", "\n\n" + LINES.replace("\n", "\n\n"), READ),
    "numbers as texts": ("a.ndjson", LINES.replace("1.0", '"1.0"').replace("0.0", '" 0 "'), READ),
    "list under another name": ("a.json", json.dumps({"model": "m", "results": ROWS}), READ),
    "several lists, one of samples": ("a.json", json.dumps({"stats": [{"n": 3}], "samples": ROWS}, indent=2), READ),
    "list with a row in each line": ("a.json", json.dumps(ROWS).replace("}, ", "},\n"), READ),
    "table of a spreadsheet": ("a.csv", "\ufeff" + TABLE.replace("\n", "\r\n"), READ),
    "quoted lines": ("a.csv", 'id,answer,score\ns0,"a\nb",TRUE\ns1,"",FALSE\ns2,"c,""d""", true \n', READ),
    "ids of any letters": ("a.csv", "\u00efd,score\n\u00e9,1\n\u4f60,0\n\U0001f600,1\n", READ),
    "half of a letter": ("a.jsonl", LINES.replace("s1", "\\ud83d"), READ),
    "NaN": ("a.jsonl", LINES.replace("0.0", "NaN"), "line 2: 'score' is nan"),
    "nan as text": ("a.csv", TABLE.replace(",0", ",nan"), "line 3: 'score' is nan"),
    "empty cell": ("a.csv", TABLE.replace(",0", ","), "line 3: 'score' is not a number"),
    "another word": ("a.csv", TABLE.replace(",0", ",yes"), "true or false"),
    "semicolons": ("a.csv", TABLE.replace(",", ";"), "line 2: there is no 'id'"),
    "text of a spreadsheet": ("a.csv", TABLE.encode("utf-16"), "it is no CSV in UTF-8"),
    "lines of an old Mac": ("a.csv", TABLE.replace("\n", "\r"), "it is no CSV in UTF-8"),
    "an id twice": ("a.csv", TABLE + "s1,1\n", "another row has the id 's1'"),
    "empty table": ("a.csv", "", "has no row"),
    "cut lines": ("a.jsonl", LINES[:-9], "line 3: it is no JSON"),
    "cut list": ("a.json", json.dumps(ROWS, indent=1)[:-9], "write one object in a line, or one list"),
    "list of lists": ("a.json", json.dumps([[1, 0.5], [2, 0.3]]), "it is no object"),
    "list with a hole": ("a.json", json.dumps([*ROWS, None]), "sample 4: it is no object"),
    "several lists": ("a.json", json.dumps({"a": ROWS, "b": ROWS}, indent=1), "or one list in the file"),
    "endless nesting": ("a.json", "[" * 100_000, "it is no JSON"),
    "compressed": ("a.jsonl.gz", gzip.compress(LINES.encode()), "the ending decides how"),
    "compressed under another name": ("a.jsonl", gzip.compress(LINES.encode()), "line 1: it is no JSON"),
    "answers": ("a.parquet", lambda: parquet(id=[1, 2, 3], score=[True, False, True]), READ),
    "decimal numbers": ("a.parquet", lambda: parquet(id=["s0"], score=[decimal.Decimal("0.5")]), "not a number"),
    "dates as ids": ("a.parquet", lambda: parquet(id=[datetime.date(2026, 1, 1)], score=[1.0]), "an id is a text"),
    "a year of six digits": ("a.parquet", _far_away, "is no Parquet file that can be read"),
}
"""By its kind, a file with its name, and its scores or words of the message."""


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    """Any other exception is a defect, on either side of a check."""
    name, content, wanted = FILES[kind]
    path = tmp_path / name
    content = content() if callable(content) else content
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    key = "\u00efd" if "\u00efd" in str(content) else "id"
    for scores in (Scores.from_files(None, path, id=key), Scores.from_files(path, path, id=key)):
        if isinstance(wanted, str):
            assert wanted in refused(scores, QuantError)
        else:
            assert read_scores(scores)[0].candidate.sum() == sum(wanted)


def _old_rows(metric: str = "exact_match", rates: tuple[int, ...] = (4, 3)) -> list[dict[str, object]]:
    """Rows of versions before 0.4.7: all documents of one filter, then all of the next."""
    return [{"doc_id": place, metric: float(place < right)} for right in rates for place in range(5)]


@pytest.mark.parametrize("metric", ["exact_match", "exact_match,none", "exact_match,strict-match"])
def test_unnamed_rows_of_two_filters_are_refused(tmp_path: Path, metric: str) -> None:
    """Nothing in them says which filter they are of; the message says what to do."""
    scores = Scores.from_lm_eval(None, samples(tmp_path, _old_rows(), time=MONDAY), metric=metric)
    message = refused(scores)
    assert "10 rows for 5 documents" in message
    assert "keep the rows of one filter in the file, and write metric='exact_match'" in message


def test_unnamed_rows_of_one_filter_need_no_proof(tmp_path: Path) -> None:
    """One row for each document: the metric's name is enough, and the message for a filter's name says so."""
    scores = {
        metric: Scores.from_lm_eval(None, samples(tmp_path, _old_rows("acc", (4,)), time=MONDAY), metric=metric)
        for metric in ("acc", "acc,none", "acc,strict-match")
    }
    assert "write metric='acc'" in refused(scores["acc,strict-match"])
    for metric in ("acc", "acc,none"):
        assert (read_scores(scores[metric])[0].candidate.sum(), read_scores(scores[metric])[0].metric) == (
            4.0,
            "acc,none",
        )
