"""Runs in processes of their own: killed at any moment and resumed, or several that share the work."""

import json
import random
import signal
import time
from pathlib import Path

import pytest
import torch
import yaml

from niso.training.run import Run, read_log

CHECKPOINT = Path("checkpoints", "pretrain.safetensors")
STEPS = 600


@pytest.fixture
def options(images):
    words = "--size 4 --images 3 --pool 50 --evaluation-pairs 2 --accelerator cpu --data-dir".split()
    return [*words, images]


def wait_for_a_checkpoint(process, path: Path, newer_than: float = 0.0) -> None:
    while not path.exists() or path.stat().st_mtime <= newer_than:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def save_rarely(run: Path) -> None:
    settings = Run(run).settings
    settings["hardware"]["checkpoint_seconds"] = 60.0
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


def test_killed_at_any_moment(start, niso, options, tmp_path, weights):
    """SIGKILL twice while every step saves, SIGTERM once, then on to the end: not one bit differs."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    common = [*options, "--steps", STEPS, "--batch-size", 1]
    assert niso("run", "torus", *common, "--out", whole).status == 0
    moments, newest = random.Random(), 0.0
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        words = ("resume", run) if newest else ("run", "torus", *common, "--checkpoint-seconds", 0, "--out", run)
        process = start(*words)
        wait_for_a_checkpoint(process, run / CHECKPOINT, newest)
        time.sleep(moments.uniform(0, 0.3))
        process.send_signal(number)
        out, err = process.communicate(timeout=240)
        newest = (run / CHECKPOINT).stat().st_mtime
        if number == signal.SIGTERM:
            assert process.returncode == 143 and out == ""
            assert "interrupted and saved" in err and f"`niso resume {run}` goes on" in err
        else:
            assert process.returncode == -signal.SIGKILL
        assert not (run / "metrics.json").exists()
    save_rarely(run)
    assert niso("resume", run).status == 0
    first, second = weights(whole), weights(run)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    figures = [Run(folder).metrics for folder in (whole, run)]
    assert {**figures[0], "seconds": 0} == {**figures[1], "seconds": 0}
    steps = [[row["step"] for row in read_log(folder / "log.csv")] for folder in (whole, run)]
    assert steps[0] == steps[1]
    assert not list(run.rglob("*.tmp"))


def test_two_processes_equal_one(start, niso, options, tmp_path, weights):
    """In float64, where nothing hides behind rounding; in float32 AdamW amplifies it to some 1e-5."""
    one, two = tmp_path / "one", tmp_path / "two"
    common = [*options, "--steps", 20, "--batch-size", 4, "--spectral-dropout", 0.5, "--precision", "64-true"]
    process = start("run", "torus", *common, "--devices", 2, "--out", two)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert niso("run", "torus", *common, "--out", one).status == 0
    first, second = weights(one), weights(two)
    for name in first:
        torch.testing.assert_close(second[name], first[name], rtol=1e-8, atol=1e-8)
    rows = [[float(row["loss"]) for row in read_log(folder / "log.csv")] for folder in (one, two)]
    assert rows[1] == pytest.approx(rows[0], rel=1e-5)  # the global batch's loss, not the first process's
    assert out.count("eigenspace_energy ") == 1 and err.count("pretrain 20/20") == 1
    assert len(list((two / "tensorboard").iterdir())) == 1
    assert json.loads((two / "run.json").read_text())["devices"] == 2


def one_line(err: str) -> str:
    """The one line of niso's; Lightning's own remarks about starting processes are left aside."""
    assert "Traceback" not in err, err
    lines = [line for line in err.splitlines() if line.startswith("niso: ")]
    assert len(lines) == 1, err
    return lines[0]


@pytest.mark.parametrize("trouble", ["data", "folder"])  # an impossible batch: tests/training/test_processes.py
def test_an_error_of_both_is_said_once(start, options, tmp_path, images, trouble):
    run = tmp_path / "run"
    words = [*options, "--steps", 5, "--batch-size", 4, "--devices", 2, "--out", run]
    if trouble == "data":
        words += ["--data-dir", tmp_path / "nowhere"]
    else:
        run.mkdir()
        (run / "thesis.tex").touch()
    process = start("run", "torus", *words)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 2 and out == "", err
    said = {"data": "does not exist", "folder": "not an empty folder"}
    assert said[trouble] in one_line(err)


PROGRAM = """
import math, sys
from niso.cli.main import main
from niso.model import IsometryObjective
from niso.random import process
healthy, calls = IsometryObjective.forward, []
def poisoned(self, batch, progress):
    calls.append(1)
    terms = healthy(self, batch, progress)
    if process()[0] == 1 and len(calls) == 5:
        terms["equivariance"] = terms["equivariance"] * math.nan
    return terms
if __name__ == "__main__":
    IsometryObjective.forward = poisoned
    sys.exit(main())
"""


def test_an_error_in_one_process_stops_the_other(start, options, tmp_path, weights):
    """The second process's part of the batch is bad; the first does not wait for it, and does not save."""
    program, run = tmp_path / "poisoned.py", tmp_path / "run"
    program.write_text(PROGRAM)
    words = [*options, "--steps", 50, "--batch-size", 4, "--devices", 2, "--checkpoint-seconds", 0, "--out", run]
    process = start("run", "torus", *words, program=program)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 2, err
    assert "step 5: the term 'equivariance' of the loss is not finite" in one_line(err)
    assert all(tensor.isfinite().all() for tensor in weights(run).values())


def test_a_signal_to_the_first_of_two(start, niso, options, tmp_path):
    run = tmp_path / "run"
    words = [*options, "--steps", 100_000, "--batch-size", 4, "--devices", 2, "--checkpoint-seconds", 0.2]
    process = start("run", "torus", *words, "--out", run)
    wait_for_a_checkpoint(process, run / CHECKPOINT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=240)  # returns when both have closed it
    assert process.returncode == 143, err
    assert "interrupted and saved" in one_line(err)
