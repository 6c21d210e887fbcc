"""Experiments compute on a GPU: where there is none, on a pretended one."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch._C import DisableTorchFunction

import niso
from niso.experiments import EXPERIMENTS
from niso.experiments.pose import rendered
from niso.runs import runner
from tests.pretended import trained_there, waits

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("two_skips")]
THERE = torch.cuda.is_available()
WITHOUT_A_TERM = ("niso-no-equivariance", "niso-no-multiplicity")  # compute all that niso does: a weight is 0
LESS = ("niso-group", "niso-vicreg")  # than niso-group-vicreg computes
TRAINED = ("niso",)  # in the whole runs
METHODS = [
    ("homnist", method, {})
    for method in EXPERIMENTS.find("homnist").methods()
    if method not in (*WITHOUT_A_TERM, *LESS, *TRAINED)
]
METHODS += [("shapes", "autoencoder", {}), ("pose", "nft", {}), ("pose", "vit", {})]
METHODS += [("pairs", method, {}) for method in ("niso-group", "nft", "autoencoder")]
SETTINGS = [
    ("homnist", "niso", {"occlusion": 0.3, "confidence": "learned"}),
    ("homnist", "niso", {"occlusion": 0.3, "confidence": "given"}),
    ("homnist", "niso", {"spectrum": "field", "eigenfunctions": "rotation", "classifier": "spectral"}),
    ("homnist", "niso", {"eigenvalue_noise": 0.1, "spectral_dropout": 0.5, "special": True, "whitened": True}),
    ("homnist", "niso", {"architecture": "vit", "vit": {"channels": 8, "blocks": 1}, "classifier": "eigenspaces"}),
    ("homnist", "niso-no-basis", {"complete": True}),
    ("shapes", "niso-group", {"tuning": "labels-and-pairs"}),
    ("shapes", "nft", {"tuning": "none"}),
    ("pose", "niso", {"occlusion": 0.3, "confidence": "learned", "composition": 0.1}),
    ("pose", "niso-group", {"shared": 0.5, "group": 2}),
    ("sphere", "niso", {"spectrum": "field"}),
]


@pytest.fixture(autouse=True, scope="module")
def rendered_as_ever():
    """Clips are rendered, on the CPU and into bytes, without looking for the device of each of a million tensors."""
    render = rendered._render

    def plain(*wanted):
        with DisableTorchFunction():
            return render(*wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendered, "_render", plain)
        yield


@pytest.mark.parametrize("case", METHODS + SETTINGS, ids=str)
def test_phases_train_and_are_evaluated(make_tiny, device, case):
    experiment, method, changes = case
    built = make_tiny(experiment, None, method, device=device, **changes)
    for phase in built.phases():
        loss = phase.objective.to(device)(phase.sampler(0), 0.0)["loss"]
        assert loss.device.type == device.type
        loss.backward()
    assert all(value == value for value in built.evaluate().metrics.values())


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_whole_runs(tiny_settings, device, tmp_path, experiment):
    settings, out = tiny_settings(experiment), tmp_path / "run"
    hardware = replace(settings.hardware, accelerator="gpu" if THERE else "cpu")
    with nullcontext() if THERE else trained_there():
        runner.run(replace(settings, hardware=hardware), out)
    if experiment != "descriptors":  # has no model of single observations
        loaded = niso.load(out, device=device)
        assert {tensor.device.type for tensor in loaded.method.model.parameters()} == {device.type}


@pytest.mark.skipif(THERE, reason="tests/test_cuda.py sees more of a real one")
@pytest.mark.parametrize(
    ("experiment", "method"),
    [("torus", "niso"), ("homnist", "niso-group"), ("homnist", "nft"), ("shapes", "niso-vicreg"), ("pairs", "niso")],
)
def test_steps_wait_for_decompositions_alone(make_tiny, device, experiment, method):
    built = make_tiny(experiment, method=method, device=device)
    for phase in built.phases():
        objective = phase.objective.to(device)
        objective(phase.sampler(0), 0.0)["loss"].backward()  # what is computed once may wait
        waits.clear()
        objective(phase.sampler(1), 0.5)["loss"].backward()
        assert set(waits) <= {"linalg/svd.py", "linalg/inverse_square_root.py"}, phase.name
