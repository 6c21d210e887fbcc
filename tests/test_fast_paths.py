"""Speed is not paid for with accuracy: short runs on the fast paths end where plain ones do, within seed noise."""

import json
import subprocess
import sys
from statistics import mean, stdev

import pytest

SEEDS = 3
PROGRAM = """
import functools, json, sys, tempfile
from pathlib import Path
import torch
from torch import nn
import niso
from niso import linalg
from niso.config import Hardware, Optimisation
from niso.model import IsometryObjective
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.run_folder import RunFolder
from niso.train import make_fabric, train

nn.Module.compile = functools.partialmethod(nn.Module.compile, backend="aot_eager")  # C++ would take a minute
CONV = ConvConfig((8, 8), 1, (8,), blocks=1, latent_channels=8, stem_channels=8, patch=2)
OPTIMISATION = Optimisation(steps=80, batch_size=8, learning_rate=3e-3, final_learning_rate=0.0, warmup_steps=10)

def waves(count):
    x = nn.functional.interpolate(torch.rand(count, 1, 4, 4), (8, 8), mode="bilinear")
    return x, x.roll(int(torch.randint(1, 8, ())), -1)

def run(seed, precision="32-true", above=None, compiled=False):
    linalg.MATMUL_ABOVE.clear()
    linalg.MATMUL_ABOVE.update({} if above is None else {"cpu": above})
    torch.manual_seed(seed)
    spectrum = niso.LearnedSpectrum(CONV.points, 8)
    objective = IsometryObjective(niso.NeuralIsometry(ConvEncoder(CONV), ConvDecoder(CONV), spectrum), 0.5, 0.1)
    fabric = make_fabric(Hardware(accelerator="cpu", precision=precision))
    folder = RunFolder.create(Path(tempfile.mkdtemp(dir=sys.argv[1])) / "run", {})
    start = held_out(objective)
    train(objective, lambda step: waves(8), OPTIMISATION, folder, fabric, seed=seed, compiled=compiled)
    return start, held_out(objective)

@torch.no_grad()
def held_out(objective):
    torch.manual_seed(99)
    return objective.model(*waves(64)).losses["reconstruction"].item()

PATHS = {"plain": {}, "matmul": {"above": 0}, "bf16": {"precision": "bf16-mixed"}, "compiled": {"compiled": True}}
print(json.dumps({name: [run(seed, **path) for seed in range(int(sys.argv[2]))] for name, path in PATHS.items()}))
"""


@pytest.mark.slow
def test_fast_paths_end_where_the_plain_one_does(tmp_path):
    """In a process of its own: jaxtyping's import hook, on in this suite, does not go with torch.compile."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(SEEDS)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.strip().splitlines()[-1])
    plain = [end for _, end in results["plain"]]
    untrained = mean(start for start, _ in results["plain"])
    noise = stdev(plain)
    assert mean(plain) < 0.8 * untrained  # there is something to lose
    for name, runs in results.items():
        ends = [end for _, end in runs]
        assert abs(mean(ends) - mean(plain)) <= noise, (name, ends, plain)
