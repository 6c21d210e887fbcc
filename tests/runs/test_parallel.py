"""Runs side by side, in processes of their own: equal to runs in one process, interrupted, failing, shown."""

import json
import re
import shutil
import signal
import time

import pytest
import torch
import yaml

from niso.training.run import Run

TORUS = ("run", "torus")
DIGITS = (
    "run homnist --conv.channels 4 --conv.blocks 1 --rank 8 --steps 3 --head.steps 3 --head.batch-size 4 "
    "--test-digits 5 --test-copies 1 --evaluation-pairs 3"
).split()


def test_interrupted_and_resumed_they_equal_runs_by_themselves(start, niso, small, tmp_path, weights):
    out, common = tmp_path / "sweep", [*TORUS, *small, "--steps", 600, "--accelerator", "cpu"]
    process = start(*common, "--seeds", 3, "--parallel", 2, "--checkpoint-seconds", 0, "--out", out)
    while not (out / "seed0" / "checkpoints" / "pretrain.safetensors").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    printed, said = process.communicate(timeout=120)
    assert (process.returncode, printed) == (143, "")
    assert f"niso: interrupted, 0 of 3 runs are finished; `niso resume {out}` goes on" in said
    assert not (out / "seed2").exists() and not list(out.glob("*/metrics.json"))
    for seed in (0, 1):
        states = re.findall(rf"^seed {seed}: (\w+)", said, re.MULTILINE)
        assert states[0] == "starting" and states[-1] == "interrupted"
    assert "`niso resume" in (out / "seed0" / "output.log").read_text()
    assert Run(out / "seed0").facts["command"].startswith("niso run torus")

    status, printed, said = niso("resume", out, "--parallel", 2)
    assert status == 0 and printed.startswith("quick · niso, seeds 0, 1, 2\n")
    assert "seed 2: starting\n" in said and said.splitlines()[-1].endswith(": finished, 3 of 3")
    assert niso(*common, "--seed", 1, "--out", tmp_path / "alone").status == 0
    alone, one = weights(tmp_path / "alone"), weights(out / "seed1")
    assert alone.keys() == one.keys() and all(torch.equal(alone[name], one[name]) for name in alone)
    figures = [Run(folder).metrics for folder in (tmp_path / "alone", out / "seed1")]
    assert {**figures[0], "seconds": 0} == {**figures[1], "seconds": 0}


def test_one_that_fails_is_named_and_does_not_stop_the_others(niso, small, tmp_path, monkeypatch):
    out = tmp_path / "sweep"
    assert niso(*TORUS, *small, "--seeds", 2, "--out", out).status == 0
    for seed in (0, 1):
        (out / f"seed{seed}" / "metrics.json").unlink()
    (out / "seed1" / "checkpoints" / "pretrain.safetensors").write_bytes(b"damaged")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    status, printed, said = niso("resume", out, "--parallel", 2)
    assert (status, printed) == (2, "")
    assert "niso: 1 of 2 seeds failed: seed 1: " in said
    assert said.rstrip().endswith((out / "seed1" / "output.log").read_text().splitlines()[-1].removeprefix("niso: "))
    assert (out / "seed0" / "metrics.json").is_file() and (out / "seed1" / "config.yaml").is_file()
    table = re.sub(r"\x1b\[[^m]*m", "", said).split("steps/s")[-1]
    assert re.search(r"seed0 +pretrain +3/3 .* finished", table) and re.search(r"seed1 .* failed", table)


def test_where_nothing_can_begin_nothing_is_left(niso, tiny, tmp_path):
    out = tmp_path / "sweep"
    options = [*tiny, "--data-dir", tmp_path / "none", "--seeds", 2, "--parallel", 2, "--out", out]
    status, printed, said = niso(*TORUS, *options)
    assert (status, printed) == (2, "")
    assert [line for line in said.splitlines() if line.startswith("niso: ")] == [said.splitlines()[-1]]
    assert "does not exist" in said.splitlines()[-1] and not out.exists()


def test_methods_in_one_sweep(niso, tmp_path):
    out = tmp_path / "sweep"
    options = ["--methods", "niso", "autoencoder", "--batch-size", 4, "--seed", 1, "--out", out]
    status, printed, said = niso(*DIGITS, *options)
    assert status == 0, said
    names = ["autoencoder-seed1", "niso-seed1"]
    assert sorted(path.name for path in out.iterdir()) == [*names, "report.html", "sweep.yaml"]
    assert yaml.safe_load((out / "sweep.yaml").read_text())["methods"] == ["niso", "autoencoder"]
    assert [Run(out / name).settings["method"] for name in names] == ["autoencoder", "niso"]
    assert "niso, seed 1 is finished, 1 of 2" in said and all(method in printed for method in options[1:3])
    report = (out / "report.html").read_bytes()
    figures = json.loads((out / "niso-seed1" / "metrics.json").read_text())
    shutil.rmtree(out / "niso-seed1")
    status, _, said = niso("resume", out, "--parallel", 2)
    assert status == 0, said
    again = json.loads((out / "niso-seed1" / "metrics.json").read_text())
    assert all(again[name] == figures[name] for name in figures if not name.startswith("seconds"))
    assert niso("report", out).status == 0
    assert len((out / "report.html").read_bytes()) == pytest.approx(len(report), rel=0.1)
    assert niso("record", out, "--to", tmp_path / "results").status == 0
    assert len(list((tmp_path / "results").glob("*.json"))) == 2


def test_a_method_that_cannot_begin_does_not_stop_the_others(niso, tmp_path):
    out = tmp_path / "sweep"
    options = ["--methods", "niso", "niso-group", "--batch-size", 6, "--out", out]
    status, _, said = niso(*DIGITS, *options)
    assert status == 2
    assert "niso: 1 of 2 runs failed: niso-group, seed 0: a batch of 6 pairs cannot be cut into groups" in said
    assert (out / "niso-seed0" / "metrics.json").is_file() and not (out / "niso-group-seed0").exists()


@pytest.mark.parametrize("methods", [["niiso"], [], "niso", [["niso"]]])
def test_damaged_methods(refused, small, niso, tmp_path, methods):
    out = tmp_path / "sweep"
    out.mkdir()
    assert niso(*TORUS, *small, "--out", out / "seed0").status == 0
    settings = Run(out / "seed0").settings
    (out / "sweep.yaml").write_text(yaml.safe_dump({"seeds": 1, "methods": methods, "settings": settings}))
    assert "sweep.yaml is damaged: methods must be among niso" in refused("resume", out)


def test_a_sweep_from_before_there_were_methods(niso, small, tmp_path):
    out = tmp_path / "sweep"
    assert niso(*TORUS, *small, "--seeds", 2, "--out", out).status == 0
    content = yaml.safe_load((out / "sweep.yaml").read_text())
    assert content.pop("methods") == ["niso"]
    (out / "sweep.yaml").write_text(yaml.safe_dump(content))
    assert niso("resume", out).status == 0


def test_the_default_folder_names_the_methods(tmp_path):
    from niso.cli.run import parse_run

    names = [
        parse_run(["homnist", "--methods", *words, "--seeds", "2"]).out.name
        for words in (["niso"], ["nft", "niso"], ["all"])
    ]
    assert [name.split("-", 2)[2] for name in names] == ["niso-seeds0-1", "nft+niso-seeds0-1", "all-seeds0-1"]
