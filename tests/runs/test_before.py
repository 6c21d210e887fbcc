"""A run folder of the version before metrics had directions is still reported, compared, recorded and evaluated."""

import json
import shutil
from pathlib import Path

import pytest

from niso.experiments.known import known
from niso.runs import Run, runner
from niso.runs.record import write_record
from niso.runs.report import report

BEFORE = Path(__file__).parents[1] / "fixtures" / "run-before"


@pytest.fixture
def before(tmp_path):
    return Run.open(shutil.copytree(BEFORE, tmp_path / "run"))


def test_it_is_small_and_has_no_path_of_a_machine():
    files = [file for file in BEFORE.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 60_000
    assert not any(b"/tmp" in file.read_bytes() or b"/home" in file.read_bytes() for file in files)


def test_it_is_reported(before):
    assert report([before.path]) == str(before.path / "report.html")
    page = (before.path / "report.html").read_text()
    assert "torus · quick · niso · seed 0" in page and "0.3417" in page and "is missing or damaged" not in page
    assert "energy of a learned eigenfunction in its best true eigenspace (mean)" in page


def test_it_is_compared_with_its_record(before, tmp_path, comparison_table):
    runs = [before, Run.read(write_record(before, tmp_path / "results"))]
    rows = {(row["settings"], row["metric"]): row for row in comparison_table(runs, known)}
    assert rows["", "eigenspace_energy"]["values"] == rows["repetition 2", "eigenspace_energy"]["values"]
    assert rows["", "eigenspace_energy"]["worst"] == before.metrics["eigenspace_energy"]  # the direction is known now
    assert "repetition 2" in report([before.path, tmp_path / "results"], tmp_path / "c.html")


def test_it_is_finished(before, niso):
    (before.path / "report.html").touch()
    metrics = (before.path / "metrics.json").read_bytes()
    assert niso("resume", before.path).status == 0
    assert (before.path / "metrics.json").read_bytes() == metrics


@pytest.mark.slow
def test_it_is_evaluated_and_twice_the_same(before):
    old = before.metrics
    once = runner.evaluate(before.path)
    unchanged = ("eigenspace_energy", "equivariance_error", "operator_correlation", "steps")
    assert {key: once[key] for key in unchanged} == pytest.approx({key: old[key] for key in unchanged}, rel=1e-4)
    facts = json.loads((before.path / "run.json").read_text())
    assert facts["metrics"]["seconds"]["unit"] == "s" and "metric_descriptions" not in facts
    assert runner.evaluate(before.path) == once
