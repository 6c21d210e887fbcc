"""Camera poses by two processes that share the work."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from niso.config import to_yaml
from niso.training import checkpoint
from niso.training.log import read_log

METHODS = ("niso", "vit")
PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path
import torch
from niso.config import Hardware, read_yaml
from niso.experiments.pose import experiment as pose
from niso.experiments.settings import Settings
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

pose.EXAMPLES = 16

def main(folder, devices):
    fabric = make_fabric(Hardware(accelerator="cpu", devices=devices, precision="64-true"))
    for method in ("niso", "vit"):
        path = folder / f"{method}.yaml"
        settings = Settings.load(read_yaml(path), path)
        torch.manual_seed(0)
        experiment = pose.Pose(settings.config, method, 0, settings.data_dir, fabric.device)
        run = Run(folder / f"{method}{devices}")
        for phase in experiment.phases():
            train(phase, run, fabric)
            torch.manual_seed(1)
        if fabric.is_global_zero:
            (run.path / "metrics.json").write_text(json.dumps(experiment.evaluate().metrics))

if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def folder(settings, tmp_path_factory) -> Path:
    """Settings of both methods, for a few steps."""
    path = tmp_path_factory.mktemp("processes")
    for method in METHODS:
        chosen = settings(method)
        rates = {"steps": 4, "warmup_steps": 0}
        changes = {
            "training": replace(chosen.config.training, batch_size=8, **rates),
            "head": replace(chosen.config.head, batch_size=16, **rates),
        }
        (path / f"{method}.yaml").write_text(to_yaml(settings(method, **changes).dump()))
    return path


@pytest.mark.slow
def test_two_processes_equal_one(start, folder):
    """Both phases, in float64, where nothing hides behind rounding."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    process = start(folder, 2, program=program)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    names: dict = {}
    exec(PROGRAM.replace("__main__", ""), names)
    names["main"](folder, 1)
    for method, phases in (("niso", ["pretrain", "head"]), ("vit", ["head"])):
        one, two = folder / f"{method}1", folder / f"{method}2"
        for phase in phases:
            first, second = (checkpoint.load(run / "checkpoints" / f"{phase}.safetensors")[0] for run in (one, two))
            assert first.keys() == second.keys()
            for name in first:
                torch.testing.assert_close(
                    second[name], first[name], rtol=1e-6, atol=1e-7, msg=lambda m, n=name: f"{n}: {m}"
                )
        rows, others = (read_log(run / "log.csv") for run in (one, two))
        assert len(rows) == 4 * len(phases)
        for row, other in zip(rows, others, strict=True):
            assert (row["phase"], float(row["loss"])) == (other["phase"], pytest.approx(float(other["loss"]), rel=1e-5))
        metrics, others = (json.loads((run / "metrics.json").read_text()) for run in (one, two))
        assert metrics.keys() == others.keys()
        for key, value in metrics.items():
            assert others[key] == pytest.approx(value, rel=1e-3), key
