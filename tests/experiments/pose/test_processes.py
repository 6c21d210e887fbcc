"""Camera poses by two processes that share the work."""

import json

import pytest
import torch

from niso.training import checkpoint
from niso.training.progress import read_log
from niso.training.run import Run

FLAGS = (
    "--size 8 --conv.channels 4 6 --conv.blocks 1 --conv.patch 1 --rank 8 --steps 6 --batch-size 8 --head.steps 6 "
    "--head.batch-size 16 --transformer.patch 4 --transformer.channels 8 --transformer.heads 2 --warmup-steps 0 "
    "--nft-epochs 1 --nft-maps 8 --evaluation-pairs 3 --mlp.layers 1 --mlp.channels 8 --head.warmup-steps 0 "
    "--accelerator cpu --precision 64-true"
).split()


@pytest.mark.parametrize("method", ["niso", "vit"])
def test_two_processes_equal_one(start, niso, prepared_frames, tmp_path, method):
    """Both phases, in float64, where nothing hides behind rounding."""
    one, two = tmp_path / "one", tmp_path / "two"
    words = [*FLAGS, "--method", method, "--data-dir", prepared_frames]
    process = start("run", "pose", *words, "--devices", 2, "--out", two)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert niso("run", "pose", *words, "--out", one).status == 0
    assert json.loads((two / "run.json").read_text())["devices"] == 2
    phases = ["head"] if method == "vit" else ["pretrain", "head"]
    for phase in phases:
        first, second = (checkpoint.load(run / "checkpoints" / f"{phase}.safetensors")[0] for run in (one, two))
        assert first.keys() == second.keys()
        for name in first:
            torch.testing.assert_close(
                second[name], first[name], rtol=1e-6, atol=1e-7, msg=lambda m, n=name: f"{n}: {m}"
            )
    for row, other in zip(*(read_log(run / "log.csv") for run in (one, two)), strict=True):
        assert (row["phase"], float(row["loss"])) == (other["phase"], pytest.approx(float(other["loss"]), rel=1e-5))
    figures = [Run(run).metrics for run in (one, two)]
    for key in figures[0].keys() - {"seconds", "seconds_pretrain", "seconds_head"}:
        assert figures[1][key] == pytest.approx(figures[0][key], rel=1e-3), key
