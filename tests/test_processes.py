"""Runs that are terminated at any moment and resumed, and several processes that share the work."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml

from niso.training.log import read_log
from niso.training.run import Run

CHECKPOINT = Path("checkpoints", "pretrain.safetensors")
OPTIONS = "--size 4 --images 3 --pool 50 --evaluation-pairs 2 --accelerator cpu --data-dir".split()


def wait_for_a_checkpoint(process, path: Path, newer_than: float = 0.0) -> None:
    while not path.exists() or path.stat().st_mtime <= newer_than:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def edit(run: Path, training: dict | None = None, hardware: dict | None = None, **changes: object) -> None:
    """Changes the configuration of a run."""
    settings = {**Run(run).settings, **changes}
    settings["config"]["training"].update(training or {})
    settings["hardware"].update(hardware or {})
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


@pytest.mark.slow
@pytest.mark.usefixtures("heeded")
@pytest.mark.skipif(os.name == "nt", reason="there SIGTERM ends a process at once")
def test_terminated_at_any_moment(niso, images, tmp_path, weights, when):
    """SIGTERM at a random moment while every step saves, then on to the end: not one bit differs.

    SIGKILL is in tests/test_endurance.py.
    """
    whole, run = tmp_path / "whole", tmp_path / "run"
    common = [*OPTIONS, images, "--steps", 60, "--batch-size", 1]
    assert niso("run", "torus", *common, "--out", whole).status == 0

    def terminate():
        time.sleep(random.uniform(0, 0.1))
        os.kill(os.getpid(), signal.SIGTERM)

    when([run / CHECKPOINT], terminate)
    status, out, err = niso("run", "torus", *common, "--checkpoint-seconds", 0, "--out", run)
    assert (status, out) == (143, "")
    assert "interrupted and saved" in err and f"`niso resume {run}` goes on" in err
    assert not (run / "metrics.json").exists()
    edit(run, hardware={"checkpoint_seconds": 60.0})
    assert niso("resume", run).status == 0
    first, second = weights(whole), weights(run)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    metrics = [Run(folder).metrics for folder in (whole, run)]
    times = {"seconds": 0, "seconds_wall": 0, "seconds_pretrain": 0}
    assert metrics[0] | times == metrics[1] | times
    assert "earlier" not in Run(run).facts  # it went on where it was
    steps = [[row["step"] for row in read_log(folder / "log.csv")] for folder in (whole, run)]
    assert steps[0] == steps[1]
    assert not list(run.rglob("*.tmp"))


# Two processes, started once for all tests: starting them takes longer than their work

SEVERAL_CALLS = """
import io, json, math, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from PIL import Image
from niso import report
from niso.cli.main import main
from niso.objective import IsometryObjective
from niso.collective import process
from niso.report import pictures

healthy, calls = IsometryObjective.forward, []
def poisoned(self, batch, progress):
    calls.append(1)
    terms = healthy(self, batch, progress)
    if process()[0] == 1 and len(calls) == 5:
        terms["equivariance"] = terms["equivariance"] * math.nan
    return terms

def call(name, words):
    IsometryObjective.forward = poisoned if name == "poisoned" else healthy
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(words)
    except SystemExit as stop:
        return [stop.code, out.getvalue(), err.getvalue()]

if __name__ == "__main__":
    blank = io.BytesIO()
    Image.new("RGB", (2, 2)).save(blank, "PNG")
    report.save_pictures, pictures.as_png = lambda *_: None, lambda _: blank.getvalue()
    results = {name: call(name, words) for name, words in json.loads(Path("calls.json").read_text()).items()}
    Path(f"results{process()[0]}.json").write_text(json.dumps(results))
    sys.exit(results["signal"][0])
"""
"""Calls `niso` several times in the same processes; the first call starts the second process."""

FLOAT64 = ["--batch-size", 4, "--precision", "64-true"]


class Results(NamedTuple):
    """Of a call: the exit status of each process, and what both have printed."""

    statuses: tuple[int, int]
    out: str
    err: str

    @property
    def one_line(self) -> str:
        """The only line of niso's; Lightning's own remarks about starting processes are left aside."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("niso: ")]
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture(scope="module")
def called(start_once, tmp_path_factory, images):
    """Makes a run in one process, then all calls in two; the folder of their runs."""
    from niso.cli.main import main

    folder = tmp_path_factory.mktemp("two")
    common = [*OPTIONS, str(images), *map(str, FLOAT64)]
    with pytest.raises(SystemExit):  # ten of twenty steps
        main(["run", "torus", *common, "--spectral-dropout", "0", "--steps", "10", "--out", str(folder / "half")])
    for name in ("resumed", "no data", "poisoned", "signal"):
        run = shutil.copytree(folder / "half", folder / name)
        (run / "metrics.json").unlink()
        if name == "resumed":
            edit(run, {"steps": 20, "accumulation": 2}, {"devices": 2})
        else:
            edit(run, {"steps": 100_000}, {"devices": 2, "checkpoint_seconds": 0.0})
    edit(folder / "no data", data_dir=str(folder / "nowhere"))
    edit(folder / "signal", hardware={"checkpoint_seconds": 0.2})
    new = ["run", "torus", *common, "--spectral-dropout", "0.5", "--steps", "20", "--devices", "2", "--out", "new"]
    calls = {"new": new} | {name: ["resume", name] for name in ("resumed", "no data", "poisoned", "signal")}
    program = folder / "program.py"
    program.write_text(SEVERAL_CALLS)
    (folder / "calls.json").write_text(json.dumps(calls))
    before = (folder / "signal" / CHECKPOINT).stat().st_mtime
    process = start_once(program=program, cwd=folder)
    wait_for_a_checkpoint(process, folder / "signal" / CHECKPOINT, before)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=240)  # returns when both have closed it
    assert process.returncode == 143, err
    return folder


@pytest.fixture(scope="module")
def results(called):
    first, second = (json.loads((called / f"results{rank}.json").read_text()) for rank in (0, 1))
    return {
        name: Results(
            (first[name][0], second[name][0]), first[name][1] + second[name][1], first[name][2] + second[name][2]
        )
        for name in first
    }


def test_two_processes_equal_one(called, results, niso, images, tmp_path, weights):
    """In float64, where nothing hides behind rounding; in float32 AdamW amplifies it to some 1e-5."""
    one, two = tmp_path / "one", called / "new"
    assert results["new"].statuses == (0, 0), results["new"].err
    words = [*OPTIONS, images, *FLOAT64, "--spectral-dropout", 0.5, "--steps", 20, "--out", one]
    assert niso("run", "torus", *words).status == 0
    first, second = weights(one), weights(two)
    for name in first:
        torch.testing.assert_close(second[name], first[name], rtol=1e-8, atol=1e-8)
    rows = [[float(row["loss"]) for row in read_log(folder / "log.csv")] for folder in (one, two)]
    assert rows[1] == pytest.approx(rows[0], rel=1e-5)  # the global batch's loss, not the first process's
    assert results["new"].out.count("map_block_energy_chance ") == 1 and results["new"].err.count("pretrain 20/20") == 1
    assert len(list((two / "tensorboard").iterdir())) == 1
    assert json.loads((two / "run.json").read_text())["devices"] == 2


def test_resumed_on_another_number_of_processes(called, results, niso, tmp_path, weights):
    """Ten steps in one process, ten more in one or in two of two parts each: in float64, to its rounding."""
    one, two = shutil.copytree(called / "half", tmp_path / "one"), called / "resumed"
    assert [there["devices"] for there in Run(two).facts["earlier"]] == [1]
    assert results["resumed"].statuses == (0, 0), results["resumed"].err
    edit(one, {"steps": 20})
    assert niso("resume", one).status == 0
    first, second = weights(one), weights(two)
    for name in first:
        torch.testing.assert_close(second[name], first[name], rtol=1e-8, atol=1e-8)


def test_an_error_of_both_is_printed_once(results):
    """An impossible batch is in tests/training/test_processes.py."""
    assert results["no data"].statuses == (2, 2) and results["no data"].out == ""
    assert "does not exist" in results["no data"].one_line


def test_an_error_before_there_are_two_is_printed_once(refused, images, tmp_path):
    (tmp_path / "thesis.tex").touch()
    words = [*OPTIONS, images, "--steps", 5, "--batch-size", 4, "--devices", 2, "--out", tmp_path]
    assert "not an empty folder" in refused("run", "torus", *words)


def test_an_error_in_one_process_stops_the_other(called, results, weights):
    """The second process's part of the batch is bad; the first does not wait for it, and does not save."""
    assert results["poisoned"].statuses == (2, 2)
    assert "step 15: the term 'equivariance' of the loss is not finite" in results["poisoned"].one_line
    assert all(tensor.isfinite().all() for tensor in weights(called / "poisoned").values())


def test_a_signal_to_the_first_of_two(results):
    assert results["signal"].statuses[0] == 143
    assert "interrupted and saved" in results["signal"].one_line
