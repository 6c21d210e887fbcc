"""Tables of benchmarks in documents; the benchmarks themselves are for an idle machine."""

import json

import pytest

from benchmarks import documents

RECORD = {
    "machine": {
        "cpu": "a processor",
        "cores": 2,
        "gpu": None,
        "load_average": 1.2,
        "torch": "2.13",
        "date": "2026-11-21T0",
    },
    "options": {"cpu_time": True},
    "tables": [{"title": "Times", "columns": ["size", "ms"], "rows": [["8", "1.5"]]}],
}
MARKS = "before\n<!-- benchmark: polar {} -->\nold\n<!-- end of benchmark -->\nafter\n"


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    (tmp_path / "polar.json").write_text(json.dumps(RECORD))
    monkeypatch.setattr(documents, "RESULTS", tmp_path)


def test_a_table_is_filled_and_filled_again_the_same():
    filled = documents.fill(MARKS.format(0))
    assert "| size | ms |\n| --- | --- |\n| 8 | 1.5 |\n" in filled and "old" not in filled
    assert "Times. 2 cores of a processor, load 1.2, CPU time of the process; torch 2.13, 2026-11-21." in filled
    assert filled.startswith("before\n") and filled.endswith("after\n")
    assert documents.fill(filled) == filled


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(SystemExit, match=r"polar\.json has no table 1: run python -m benchmarks\.polar"):
        documents.fill(MARKS.format(1))
