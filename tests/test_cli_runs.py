"""Runs through the `niso` command: bad data, folders that hold something, damage, trouble while it runs."""

import errno
import json
import math
import os
import resource
import shutil
import signal
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from niso.files.locks import locked
from niso.training import checkpoint
from niso.training.run import Run

TORUS = ("run", "torus")


def image(path: Path, side: int = 16) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)).save(path)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- data


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "does not exist: give a folder of images, to a run in its config.yaml"),
        ("file", "is not a folder"),
        ("empty", "holds 0 images"),
        ("truncated", "broken.png cannot be read"),
        ("text", "broken.png cannot be read (it is not an image)"),
        ("zero", "broken.png cannot be read"),
        ("small", "broken.png (3×3 pixels) is too small for 4×4"),
    ],
)
def test_bad_data_leaves_nothing_behind(refused, niso, tiny, tmp_path, images, kind, message):
    data, out = tmp_path / "data", tmp_path / "run"
    broken = data / "broken.png"
    if kind == "file":
        data.touch()
    elif kind != "missing":
        data.mkdir()
    if kind in ("truncated", "text", "zero", "small"):
        shutil.copytree(images, data, dirs_exist_ok=True)
        image(broken, side=3 if kind == "small" else 16)
    if kind in ("truncated", "text", "zero"):
        broken.write_bytes({"truncated": broken.read_bytes()[:300], "text": b"no image", "zero": b""}[kind])
    line = refused(*TORUS, *tiny, "--data-dir", data, "--out", out)
    assert message in line and str(data) in line
    assert not out.exists()  # so that the same call works once the data are mended
    if kind == "missing":
        assert niso(*TORUS, *tiny, "--data-dir", images, "--out", out).status == 0


# --- run folders


def test_a_finished_run_is_not_overwritten(refused, niso, small, finished):
    before = content(finished)
    assert "already holds a finished run: choose another --out" in refused(*TORUS, *small, "--out", finished)
    status, out, _ = niso("resume", finished)
    assert status == 0 and "eigenspace_energy" in out
    assert content(finished) == before


def test_an_unfinished_run_is_not_overwritten(refused, small, unfinished):
    before = content(unfinished)
    line = refused(*TORUS, *small, "--out", unfinished)
    assert "unfinished run" in line and f"niso resume {unfinished}" in line
    assert content(unfinished) == before


def test_other_files_are_not_overwritten(refused, small, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    assert "is not an empty folder" in refused(*TORUS, *small, "--out", tmp_path)
    assert "is not an empty folder" in refused(*TORUS, *small, "--out", tmp_path / "thesis.tex")
    assert "cannot write to" in refused(*TORUS, *small, "--out", tmp_path / "thesis.tex" / "run")
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a place where not even root may write")
def test_a_place_that_cannot_be_written(refused, small):
    assert "cannot write to /proc/niso" in refused(*TORUS, *small, "--out", "/proc/niso")


@pytest.mark.parametrize("command", ["resume", "evaluate", "report"])
def test_what_is_no_run(refused, command, tmp_path):
    assert "is not a run folder: it has no config.yaml" in refused(command, tmp_path)
    assert "is not a run folder: there is no such folder" in refused(command, tmp_path / "none")


def test_an_unfinished_run_is_not_evaluated(refused, unfinished):
    line = refused("evaluate", unfinished)
    assert "stands at step 3 of 6" in line and f"niso resume {unfinished}" in line
    shutil.rmtree(unfinished / "checkpoints")
    assert "stands at step 0 of 6" in refused("evaluate", unfinished)


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_run_that_another_process_works_on(refused, unfinished, command):
    before = content(unfinished)
    with locked(unfinished):
        assert f"another process works on {unfinished}" in refused(command, unfinished)
    assert content(unfinished) == before


def test_commands_in_messages_can_be_copied(refused, unfinished, tmp_path):
    place = shutil.copytree(unfinished, tmp_path / "müde runs" / "run 1")
    assert f"niso resume '{place}'" in refused("evaluate", place)
    assert f"niso resume '{place}'" in refused(*TORUS, "--out", place)


def test_a_run_into_the_folder_of_one_that_is_training(refused, unfinished, images):
    words = [*TORUS, "--data-dir", images, "--out", unfinished]
    assert "holds an unfinished run: continue it by `niso resume" in refused(*words)
    with locked(unfinished):
        assert f"another process works on {unfinished}" in refused(*words)


def test_evaluation_gives_the_same_metrics(niso, finished):
    before, facts = Run(finished).metrics, Run(finished).facts
    for name in ("metrics.json", "report.html"):
        (finished / name).unlink()
    assert niso("evaluate", finished).status == 0
    assert Run(finished).metrics == before
    after = Run(finished).facts
    assert {"commit", "started", "device"} <= after.pop("evaluated").keys() and after == facts  # of its training
    assert (finished / "report.html").is_file()


def test_a_report_that_a_kill_prevented(niso, finished):
    (finished / "report.html").unlink()
    assert niso("resume", finished).status == 0
    assert (finished / "report.html").is_file()


def test_reports(niso, finished, tmp_path):
    (finished / "report.html").unlink()
    status, out, _ = niso("report", finished)
    assert status == 0 and Path(out.strip()) == finished / "report.html" and (finished / "report.html").is_file()
    copy = shutil.copytree(finished, tmp_path / "copy")
    assert niso("report", finished, copy, "--out", tmp_path / "c.html").status == 0
    assert (tmp_path / "c.html").is_file()


# --- damage


@pytest.mark.parametrize("damage", ["truncated", "random", "empty"])
@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_damaged_checkpoint(refused, unfinished, damage, command):
    path = unfinished / "checkpoints" / "pretrain.safetensors"
    whole = path.read_bytes()
    path.write_bytes({"truncated": whole[:-100], "random": os.urandom(500), "empty": b""}[damage])
    before = path.read_bytes()
    line = refused(command, unfinished)
    assert f"checkpoint {path} is truncated or not one of niso's" in line
    assert path.read_bytes() == before


def test_a_checkpoint_of_another_model(refused, unfinished):
    settings = Run(unfinished).settings
    settings["config"]["size"] = 5
    facts = json.loads((unfinished / "run.json").read_text())
    del facts["settings"]  # with which it would be refused before the checkpoint is opened
    (unfinished / "run.json").write_text(json.dumps(facts))
    (unfinished / "config.yaml").write_text(yaml.safe_dump(settings))
    before = content(unfinished / "checkpoints")
    line = refused("resume", unfinished)
    assert "is of another model" in line and "(16," in line and "(25," in line
    assert content(unfinished / "checkpoints") == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:60], ""),
        (lambda text: "", "must hold a mapping"),
        (lambda text: "\0\0\0", "not valid YAML"),
        (lambda text: text.replace("  size:", "  sise:"), "unknown setting 'sise'; did you mean size?"),
        (lambda text: text.replace("seed:", "sed:"), "did you mean seed?"),
        (
            lambda text: text.replace("torus", "torsu"),
            "unknown experiment 'torsu'; did you mean torus? (what a program registers, that program alone knows)",
        ),
        (lambda text: text.replace("quick", "quik"), "unknown preset 'quik'"),
        (
            lambda text: text.replace("method: niso", "method: nisso"),
            "unknown method 'nisso'; did you mean niso? (what a program",
        ),
        (lambda text: text.replace("steps: 6", "steps: six"), "steps"),
    ],
)
def test_a_damaged_configuration_of_a_run(refused, unfinished, damage, message):
    path = unfinished / "config.yaml"
    path.write_text(damage(path.read_text()))
    before = content(unfinished)
    for command in ("resume", "evaluate"):
        line = refused(command, unfinished)
        assert message in line
    assert content(unfinished) == before


def test_damaged_metrics_can_be_computed_again(refused, niso, finished):
    (finished / "metrics.json").write_text("{")
    assert f"niso evaluate {finished}" in refused("resume", finished)
    assert niso("evaluate", finished).status == 0
    assert niso("resume", finished).status == 0


# --- trouble while it runs


@pytest.mark.skipif(sys.platform != "linux", reason="the limit's effect is Linux's")
def test_a_full_disk_while_saving(refused, niso, small, reopened, weights, tmp_path):
    larger = ["6" if before == "--size" else word for before, word in pairwise(["", *small])]  # than the run's facts
    assert niso("run", "torus", *larger, "--out", tmp_path / "run").status == 0
    unfinished = reopened(tmp_path / "run")
    before = weights(unfinished)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        size = (unfinished / "checkpoints" / "pretrain.safetensors").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100, hard))
        line = refused("resume", unfinished)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot save checkpoint" in line and "File too large" in line and "the previous one is intact" in line
    after = weights(unfinished)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert niso("resume", unfinished).status == 0


def test_a_loss_that_is_not_a_number(refused, niso, unfinished, monkeypatch):
    """Injected into the objective at step 5, then a healthy resumption."""
    from niso.objective import IsometryObjective

    healthy, calls = IsometryObjective.forward, []

    def poisoned(self, batch, progress):
        terms = healthy(self, batch, progress)
        calls.append(progress)
        return terms | {"reconstruction": terms["reconstruction"] * math.nan} if len(calls) == 2 else terms

    monkeypatch.setattr(IsometryObjective, "forward", poisoned)
    line = refused("resume", unfinished)
    assert "pretrain: step 5: the term 'reconstruction' of the loss is not finite" in line
    assert "its last checkpoint is kept" in line
    tensors, facts = checkpoint.load(unfinished / "checkpoints" / "pretrain.safetensors")
    assert facts["step"] == 3 and all(t.isfinite().all() for t in tensors.values())
    monkeypatch.undo()
    assert niso("resume", unfinished).status == 0


def test_a_loss_that_overflows(refused, small, tmp_path):
    line = refused(*TORUS, *small, "--multiplicity", "1e300", "--out", tmp_path / "run")
    assert "pretrain: step 1: the term 'loss' of the loss is not finite" in line


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_exits_in_good_order(niso, unfinished, monkeypatch, number, status):
    from niso.objective import IsometryObjective

    healthy = IsometryObjective.forward

    def killing(self, batch, progress):
        signal.raise_signal(number)
        return healthy(self, batch, progress)

    monkeypatch.setattr(IsometryObjective, "forward", killing)
    result = niso("resume", unfinished)
    assert result.status == status and result.out == ""
    assert f"interrupted and saved at step 4 of 6; `niso resume {unfinished}` goes on" in result.err
    monkeypatch.undo()
    assert niso("resume", unfinished).status == 0
    assert json.loads((unfinished / "metrics.json").read_text())["steps"] == 6


def test_ctrl_c_outside_of_training(niso, small, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("niso.experiments.torus.experiment.Torus.evaluate", interrupt)
    result = niso(*TORUS, *small, "--out", tmp_path / "run")
    assert result.status == 130 and "niso resume" in result.err
    monkeypatch.undo()
    assert niso("resume", tmp_path / "run").status == 0


TERMINATED = """
import os, signal, time
from niso.cli.main import main
from niso.experiments.torus.experiment import Torus

def killed(_):
    os.kill(os.getpid(), signal.SIGTERM)
    while True:  # any thread may take the signal, and Python's handler runs a moment later
        time.sleep(0.01)

Torus.evaluate = killed
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # coverage, where it measures, heeds it itself
main(WORDS)
"""


@pytest.mark.skipif(os.name == "nt", reason="there SIGTERM ends a process at once")
def test_sigterm_outside_of_training(niso, start, small, tmp_path):
    """It ends the process, as a launcher expects, but not without a word."""
    words = [*map(str, (*TORUS, *small, "--out", tmp_path / "run"))]
    (tmp_path / "program.py").write_text(TERMINATED.replace("WORDS", repr(words)))
    process = start(program=tmp_path / "program.py")
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM and err.splitlines()[-1].startswith("niso: interrupted; give"), err
    assert niso("resume", tmp_path / "run").status == 0


def test_a_program_that_heeds_sigterm_keeps_doing_so(niso, monkeypatch):
    heard = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    monkeypatch.setattr("niso.cli.main._dispatch", lambda _: signal.raise_signal(signal.SIGTERM) or 0)
    try:
        assert niso("models").status == 0 and heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize(("number", "remedy"), [(errno.ENOSPC, "free space"), (errno.EFBIG, "raise the limit")])
def test_a_full_disk_elsewhere(niso, small, tmp_path, monkeypatch, number, remedy):
    def full(*_):
        raise OSError(number, os.strerror(number), "figures/a.png")

    monkeypatch.setattr("niso.report.save_pictures", full)
    result = niso(*TORUS, *small, "--out", tmp_path / "run")
    assert result.status == 2 and f"{os.strerror(number)} (figures/a.png): {remedy}" in result.err
    monkeypatch.undo()
    assert niso("resume", tmp_path / "run").status == 0
