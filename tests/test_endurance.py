"""Small versions of benchmarks: steps, Procrustes solves, warm starts, kills. Large ones are in benchmarks/results."""

import os

import pytest
import torch

import niso
from benchmarks import common, steps, warm
from niso.networks import ConvConfig
from niso.training.speed import Way
from tools import procrustes


def test_factors_and_gradients_of_degenerate_matrices_are_finite(generator):
    results = procrustes.run(procrustes.Options(solves=4_000), generator)
    for found in results.values():
        assert found.pop("solves") > 500 and not any(found.values())


def test_a_factor_that_is_not_finite_is_counted(generator, monkeypatch):
    monkeypatch.setattr("niso.polar", lambda m, special: m / m)  # 0 / 0
    found = procrustes.solve(torch.zeros(2, 3, 3), generator, special=False)
    assert found["factors_not_finite"] == found["factors_not_orthogonal"] == found["gradients_not_finite"] == 2


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("conv", [None, ConvConfig((8, 8), channels=(4,), blocks=1, latent_channels=4)])
def test_parts_of_a_timed_step_add_up_and_the_model_is_trained(conv, precision):
    phase = steps.Size(conv, 4, 2).phase(steps.CPU)
    before = [parameter.clone() for parameter in phase.objective.parameters()]
    step = steps.Step(phase, Way(precision), common.Clock("cpu"))
    step.timed(1)
    seconds = {part: times[0] for part, times in step.clock.seconds.items()}
    assert sum(seconds[part] for part in steps.PARTS) == pytest.approx(seconds["step"])
    assert step.number == 1 + steps.WARM
    after = phase.objective.parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True) if one.ndim > 1)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-13)])
@pytest.mark.parametrize("shape", [(20, 6), (6, 6), (3, 6, 6)])
def test_a_warm_start_gives_the_polar_factor_and_its_gradient(shape, dtype, tolerance, generator):
    before, after, grad = warm.pair(shape, dtype)
    polar = warm.Warm()
    far = torch.randn(shape, dtype=dtype, generator=generator) + 3 * torch.eye(*shape[-2:], dtype=dtype)
    for m, solves in ((before, 1), (after, 1), (far, 2)):
        found = warm.differentiated(polar, m, grad)
        exact = warm.differentiated(niso.polar, m.double(), grad.double())
        for part, right in zip(found, exact, strict=True):
            torch.testing.assert_close(
                part.double() / right.abs().amax(), right / right.abs().amax(), rtol=0, atol=tolerance
            )
        assert polar.solves == solves


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_run_that_is_killed_and_resumed_ends_with_the_same_bits(start, tmp_path):
    program = tmp_path / "kills.py"
    program.write_text(
        "import tempfile\nfrom pathlib import Path\nfrom tools import kills\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    print(kills.work(kills.Options(kills=3, steps=20), Path(folder)))\n"
    )
    out, err = start(program=program).communicate(timeout=300)
    assert "'kills': 3" in out and "'findings': []" in out, out + err
