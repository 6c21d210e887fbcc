"""Tables in documents are made from records; those of the project are up to date."""

import json
import re
from pathlib import Path

import pytest

from niso.errors import InputError
from niso.results import Known, Metric, Published
from tools.documents import fill

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKS = "before\n<!-- benchmark: polar {} -->\nold\n<!-- end of benchmark -->\nafter\n"
BENCHMARK = {
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
TEXT = "before\n<!-- table: results/*.json | accuracy seconds -->\nold\n<!-- end of table -->\nafter\n"


def add(root, seed, preset="quick", settings=None, **metrics):
    folder = root / "results"
    folder.mkdir(exist_ok=True)
    record = {"experiment": "x", "preset": preset, "method": "niso", "seed": seed, "metrics": metrics, "facts": {}}
    record["settings"] = settings or {}
    (folder / f"{preset}-{seed}.json").write_text(json.dumps(record))


def test_mean_and_standard_error_over_seeds(tmp_path):
    for seed, accuracy in enumerate([0.5, 0.6, 0.7]):
        add(tmp_path, seed, accuracy=accuracy, seconds=10)
    add(tmp_path, 0, "paper", accuracy=0.9, seconds=99)
    lines = fill(TEXT, tmp_path).splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert lines[2] == "| preset | method | seeds | `accuracy` | `seconds` |"
    # standard deviation 0.1, so the standard error is 0.1 / √3 = 0.0577
    assert "| `quick` | `niso` | 3 | 0.600 ± 0.058 | 10 |" in lines
    assert "| `paper` | `niso` | 1 | 0.9000 | 99 |" in lines


def test_what_each_seed_gave_has_a_page_of_its_own(tmp_path):
    for seed, accuracy in enumerate([0.5, 0.6, 0.75]):
        add(tmp_path, seed, accuracy=accuracy, seconds=10)
    add(tmp_path, 0, "paper", accuracy=0.9, seconds=99)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "all.md").write_text(f"# First\n\n## What came out\n\n{TEXT}\n## Later\n")
    page = "<!-- seeds: docs/*.md -->\nold\n<!-- end of seeds -->\n"
    filled = fill(page, tmp_path, folder="docs")
    assert "old" not in filled and "`paper`" not in filled
    assert "## What came out\n\nOf [docs/all.md](all.md), `results/*.json`.\n" in filled
    assert "| `quick` | `niso` | 2 | 0.7500 | 10 |" in filled.splitlines()
    assert fill(filled, tmp_path, folder="docs") == filled


def test_differences_are_taken_seed_by_seed(tmp_path):
    for seed, (ours, theirs) in enumerate([(0.5, 0.4), (0.8, 0.6), (0.9, 0.6)]):
        add(tmp_path, seed, accuracy=ours)
        add(tmp_path, seed, "paper", accuracy=theirs)
    add(tmp_path, 3, accuracy=0.1)  # a seed that the other lacks
    line = "quick less paper | results/{} | results/{}\n-->\nold\n<!-- end of differences -->\n"
    line = f"<!-- differences: accuracy\n{line}"
    filled = fill(line.format("quick-*.json", "paper-*.json"), tmp_path)
    # 0.1, 0.2 and 0.3: standard deviation 0.1, which is far less than that of either
    assert filled.splitlines()[3:] == [
        "|  | seeds | `accuracy` |",
        "| --- | --- | --- |",
        "| quick less paper | 3 | 0.200 ± 0.058 |",
        "<!-- end of differences -->",
    ]
    assert fill(filled, tmp_path) == filled
    with pytest.raises(InputError, match=r"quick-3\.json and results/paper-.* have no two seeds in common"):
        fill(line.format("quick-3.json", "paper-*.json"), tmp_path)
    with pytest.raises(InputError, match="holds 2 configurations, not one"):
        fill(line.format("*.json", "paper-*.json"), tmp_path)


def test_sizes_side_by_side_with_published_values(tmp_path):
    for seed, accuracy in enumerate([0.5, 0.6, 0.7]):
        add(tmp_path, seed, accuracy=accuracy)
    add(tmp_path, 0, "paper", accuracy=0.9)
    about = Known(methods=("niso",), published=(Published("NIso", {"accuracy": "0.95 ± 0.01"}, "they", "niso"),))
    line = "quick | results/quick-*.json\nlong | results/{}\n-->\nold\n<!-- end of side by side -->\n"
    line = f"<!-- side by side: accuracy\n{line}"
    filled = fill(line.format("paper-*.json"), tmp_path, lambda name: about)
    assert filled.splitlines()[4:] == [
        "| method | quick | long | the paper's |",
        "| --- | --- | --- | --- |",
        "| `niso` | 0.600 ± 0.058 (3) | 0.9000 (1) | *0.95 ± 0.01* |",
        "<!-- end of side by side -->",
    ]
    assert fill(filled, tmp_path, lambda name: about) == filled
    with pytest.raises(InputError, match=r"results/\*\.json holds several configurations of niso, not one"):
        fill(line.format("*.json"), tmp_path, lambda name: about)


def test_filling_twice_changes_nothing(tmp_path):
    add(tmp_path, 0, accuracy=0.25, seconds=1)
    once = fill(TEXT, tmp_path)
    assert fill(once, tmp_path) == once


@pytest.fixture
def benchmark_results(tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "polar.json").write_text(json.dumps(BENCHMARK))
    return tmp_path


def test_a_table_of_a_benchmark(benchmark_results):
    filled = fill(MARKS.format(0), benchmark_results)
    assert "| size | ms |\n| --- | --- |\n| 8 | 1.5 |\n" in filled and "old" not in filled
    assert "Times. 2 cores of a processor, load 1.2, CPU time of the process; torch 2.13, 2026-11-21." in filled
    assert filled.startswith("before\n") and filled.endswith("after\n")
    assert fill(filled, benchmark_results) == filled


def test_a_table_of_a_benchmark_that_is_not_there_is_named(benchmark_results):
    with pytest.raises(InputError, match=r"polar\.json has no table 1: run python -m benchmarks\.polar"):
        fill(MARKS.format(1), benchmark_results)
    with pytest.raises(InputError, match=r"heads\.json has no table 0: run python -m studies\.heads"):
        fill(MARKS.format(0).replace("polar", "heads"), benchmark_results)


def test_a_row_is_one_configuration(tmp_path):
    for seed, rank in ((0, 8), (1, 16)):
        add(tmp_path, seed, accuracy=0.5, seconds=1, settings={"config": {"rank": rank}})
    about = Known(metrics=(Metric("seconds", "", unit="s"), Metric("accuracy", "", "higher")))
    lines = fill(TEXT, tmp_path, lambda name: about).splitlines()
    assert lines[2] == "| preset | method | seeds | `accuracy` ↑ | `seconds` (s) |"
    assert lines[4:6] == [
        "| `quick` | `niso`, rank = 8 | 1 | 0.5000 | 1 |",
        "| `quick` | `niso`, rank = 16 | 1 | 0.5000 | 1 |",
    ]


def test_text_without_tables_stays(tmp_path):
    assert fill("nothing here", tmp_path) == "nothing here"


def test_missing_records_and_metrics(tmp_path):
    with pytest.raises(InputError, match="no record matches"):
        fill(TEXT, tmp_path)
    add(tmp_path, 0, accuracy=1)
    with pytest.raises(InputError, match="lacks the metric seconds"):
        fill(TEXT, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_projects_tables_come_from_its_records(document):
    text = document.read_text(encoding="utf-8")
    folder = document.parent.relative_to(ROOT).as_posix()
    assert fill(text, ROOT, folder=folder) == text, (
        f"run `make docs`: the tables of {document.name} are not those of results/"
    )


def test_a_method_may_lack_a_metric_but_its_seeds_must_agree(tmp_path):
    add(tmp_path, 0, accuracy=0.5, seconds=1)
    add(tmp_path, 0, "other", accuracy=0.7)
    assert "| `other` | `niso` | 1 | 0.7000 | — |" in fill(TEXT, tmp_path)
    add(tmp_path, 1, "other", accuracy=0.8, seconds=2)
    with pytest.raises(InputError, match="lacks the metric seconds, which its other seeds have"):
        fill(TEXT, tmp_path)


def test_headlines_have_one_number_a_cell(tmp_path):
    for seed, accuracy in enumerate([0.5, 0.7]):
        add(tmp_path, seed, accuracy=accuracy, seconds=1)
    entries = (Published("same", {"accuracy": "0.90 ± 0.01"}, "a paper", "niso"),)
    about = Known(("quick",), ("niso",), (Metric("accuracy", "", "higher"),), entries)
    line = "Digits | results/quick-*.json | {} | {}"
    text = "<!-- headlines\n{}\n-->\n<!-- end of headlines -->"
    filled = fill(text.format(line.format("accuracy", "same")), tmp_path, lambda name: about)
    assert filled.splitlines()[3:6] == [
        "|  | metric | ours | seeds | the paper's |",
        "| --- | --- | --- | --- | --- |",
        "| Digits | `accuracy` ↑ | 0.6000 | 2 | 0.90 |",
    ]
    assert fill(filled, tmp_path, lambda name: about) == filled
    assert "the paper's" not in fill(text.format(line.format("seconds", "—")), tmp_path, lambda name: about)
    add(tmp_path, 0, "quick-2", accuracy=0.9, seconds=1)
    with pytest.raises(InputError, match="holds 2 configurations, not one"):
        fill(text.format(line.format("accuracy", "same")), tmp_path, lambda name: about)


def test_published_values_stand_below_ours_where_the_marker_asks(tmp_path):
    add(tmp_path, 0, accuracy=0.5, seconds=1)
    entries = (Published("same", {"accuracy": "0.90"}, "a paper", "niso"), Published("net", {"accuracy": "0.95"}, "b"))
    about = Known(("quick",), ("niso",), (), entries)
    asked = TEXT.replace(" -->\nold", " | published -->\nold")
    lines = fill(asked, tmp_path, lambda name: about).splitlines()
    assert lines[2] == "| preset | method | seeds | `accuracy` | `seconds` |"
    assert lines[4] == "| `quick` | `niso` | 1 | 0.5000 | 1 |"
    assert lines[5:7] == ["| *published* | *same* | — | *0.90* | — |", "| *published* | *net* | — | *0.95* | — |"]
    assert "no comparison" in lines[8] and lines[8].endswith("Sources: same — a paper; net — b.")
    assert fill("\n".join(lines), tmp_path, lambda name: about) == "\n".join(lines)
    assert "0.90" not in fill(TEXT, tmp_path, lambda name: about)


def test_links_lead_to_files_of_the_project():
    """Also where no site is built; pages that are made for it alone are none."""
    pages = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:|#)([^)\s#]+)", texts[page])]
    assert links and [(page, link) for page, link in links if not (page.parent / link).exists()] == []
