"""Speed is not paid for with accuracy: short runs on the fast paths end where plain ones do, within seed noise."""

import json
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import ttest_ind

SEEDS = 3
PROGRAM = """
import functools, json, tempfile
from pathlib import Path
from unittest.mock import patch
import torch
from torch import nn
import niso
from niso.config import Hardware, Optimisation
from niso.objective import IsometryObjective
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.training.run import Run
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric

compiling = functools.partialmethod(nn.Module.compile, backend="eager")  # traced alone: C++ would take a minute
CONV = ConvConfig((8, 8), 1, (8,), blocks=1, latent_channels=8, stem_channels=8, patch=2)
OPTIMISATION = Optimisation(steps=24, batch_size=8, learning_rate=7e-3, final_learning_rate=0.0, warmup_steps=4)

def waves(count):
    x = nn.functional.interpolate(torch.rand(count, 1, 4, 4), (8, 8), mode="bilinear")
    return x, x.roll(int(torch.randint(1, 8, ())), -1)

def run(seed, precision="32-true", compiled=False, whole=False):
    torch.manual_seed(seed)
    spectrum = niso.LearnedSpectrum(CONV.points, 8)
    objective = IsometryObjective(niso.NeuralIsometry(ConvEncoder(CONV), ConvDecoder(CONV), spectrum), 0.5, 0.1)
    hardware = Hardware(accelerator="cpu", precision=precision, compile=compiled, whole_step=whole)
    fabric = make_fabric(hardware)
    folder = Run.create(Path(tempfile.mkdtemp(dir=FOLDER)) / "run", {})
    start = held_out(objective)
    phase = Phase("pretrain", objective, lambda step: waves(8), OPTIMISATION)
    train(phase, folder, fabric, seed=seed, hardware=hardware)
    return start, held_out(objective)

@torch.no_grad()
def held_out(objective):
    torch.manual_seed(99)
    return objective.model(*waves(64)).losses["reconstruction"].item()

PATHS = {
    "plain": ({}, SEEDS),
    "bf16": ({"precision": "bf16-mixed"}, SEEDS),
    "compiled": ({"compiled": True}, 1),
    "whole step": ({"precision": "bf16-mixed", "whole": True}, 1),
}
with patch("torch.nn.Module.compile", compiling):
    print(json.dumps({name: [run(seed, **path) for seed in range(seeds)] for name, (path, seeds) in PATHS.items()}))
"""


@pytest.mark.slow
def test_fast_paths_end_where_the_plain_one_does(tmp_path, outside):
    results = json.loads(outside(f"FOLDER, SEEDS = {str(tmp_path)!r}, {SEEDS}\n{PROGRAM}").splitlines()[-1])
    plain = [end for _, end in results["plain"]]
    untrained = mean(start for start, _ in results["plain"])
    noise = stdev(plain)
    assert mean(plain) < 0.8 * untrained  # there is something to lose
    for name, runs in results.items():
        differences = [fast - exact for (_, fast), exact in zip(runs, plain, strict=False)]  # seed by seed
        assert max(map(abs, differences)) <= noise, (name, differences, noise)
    assert results["compiled"][0] == pytest.approx(results["plain"][0], rel=1e-3)


RESULTS = Path(__file__).parent.parent / "results"
QUICK = {
    "torus": "eigenspace_energy",
    "sphere": "eigenspace_energy",
    "homnist": "accuracy",
    "shapes": "accuracy",
    "pose": "ate_normalised_skip1",
}


@pytest.mark.parametrize(("experiment", "metric"), QUICK.items())
def test_quick_records_agree_with_and_without_the_fast_paths(experiment, metric):
    plain, fast = (
        [json.loads(path.read_text()) for path in sorted((RESULTS / folder).glob(f"{experiment}-quick-niso-seed*"))]
        for folder in (experiment, f"fast-paths/{experiment}")
    )
    assert len(plain) >= 3 and len(fast) >= 2
    for records, are in ((plain, False), (fast, True)):
        for record in records:
            hardware = record["settings"]["hardware"]
            assert (hardware.get("compile") or hardware.get("whole_step", False)) is are
            assert (hardware["precision"] == "bf16-mixed") is are
    assert plain[0]["settings"]["config"] == fast[0]["settings"]["config"]  # of later seeds, some are older
    values = ([record["metrics"][metric] for record in records] for records in (plain, fast))
    assert ttest_ind(*values, equal_var=False).pvalue > 0.01  # Welch's test: no more than seeds differ


HOST = """
from unittest.mock import patch
import torch
from torch import nn
import niso
from niso.objective import IsometryObjective
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.training.meter import Meter

CONV = ConvConfig((8, 8), 1, (8,), blocks=1, latent_channels=8, stem_channels=8, patch=2)
plain = lambda m: torch.linalg.svd(m, full_matrices=False)
with patch("niso.linalg.polar_factor.robust_svd", plain):  # the SVD does wait
    for kind, rank in (("polar", 8), ("polar", CONV.points), ("rotation", CONV.points)):
        spectrum = niso.LearnedSpectrum(CONV.points, rank, eigenfunctions=kind)
        model = niso.NeuralIsometry(ConvEncoder(CONV), ConvDecoder(CONV), spectrum)
        objective = IsometryObjective(model, 0.5, 0.1, 0.1, eigenvalue_noise=0.3).to("meta")
        meter = Meter()
        for progress in (0.1, torch.empty((), device="meta")):
            terms = objective(tuple(torch.zeros(2, 4, 1, 8, 8, device="meta")), progress)
            meter.add(terms)
            terms["loss"].backward()
            spectrum.retract_()
        print(kind, rank, flush=True)
"""


@pytest.mark.slow
def test_no_step_waits_for_a_gpu(outside):
    """Apart from the SVD. On a device whose tensors have no values, whatever asks one for its value fails."""
    assert outside(HOST).split() == ["polar", "8", "polar", "16", "rotation", "16"]
