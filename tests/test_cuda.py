"""The device agrees with the CPU: primitives, fields, a training, checkpoints that move between them.

`make gpu` runs the tests marked cuda wherever there is a GPU. Without one they are tried on a pretended one.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import niso
from niso.config import Hardware, Optimisation
from niso.experiments.descriptors.experiment import Descriptors
from niso.experiments.descriptors.presets import QUICK
from niso.hub import bundled
from niso.linalg import newton_schulz
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.objective import IsometryObjective
from niso.training import checkpoint
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric
from niso.training.run import Run

pytestmark = pytest.mark.cuda
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CONV = ConvConfig((8, 8), 1, (8,), blocks=1, latent_channels=8, stem_channels=8, patch=2)
OPTIMISATION = Optimisation(steps=4, batch_size=4, learning_rate=1e-3, warmup_steps=1)


PRIMITIVES = {
    "polar of square matrices": lambda x: niso.polar(x(6, 5, 5)),
    "polar of tall matrices": lambda x: niso.polar(x(3, 9, 4)),
    "polar by products": lambda x: newton_schulz.polar(x(3, 9, 4)),
    "nearest rotations": lambda x: niso.polar(x(6, 5, 5), special=True),
    "inverse root": lambda x: niso.inverse_root((y := x(3, 7, 4)).mT @ y),
    "isometric map": lambda x: niso.isometric_map(x(4, 5, 8), x(4, 5, 8), x.gaps),
    "exact isometric map": lambda x: niso.isometric_map(x(4, 5, 8), x(4, 5, 8), x.gaps, mask="exact"),
    "commuting map": lambda x: niso.commuting_map(x(4, 5, 8), x(4, 5, 8), x.gaps, x.gaps, 1e-2),
    "least squares": lambda x: niso.least_squares_map(x(4, 5, 8), x(4, 5, 8), 1e-3),
    "losses": lambda x: niso.losses.contrastive(x(4, 5, 8), x(4, 5, 8)) + niso.losses.multiplicity(x.gaps),
}


class Inputs:
    """Random inputs, the same on every device."""

    def __init__(self, device, dtype):
        torch.manual_seed(0)
        self.device, self.dtype, self.given = device, dtype, []
        self.gaps = torch.tensor([0.0, 0.3, 0.3, 1.1, 2.0], dtype=dtype, device=device)

    def __call__(self, *shape):
        self.given.append(torch.randn(*shape, dtype=self.dtype).to(self.device).requires_grad_())
        return self.given[-1]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_values_and_gradients_are_those_of_the_cpu(name, device, dtype):
    results = []
    for where in (torch.device("cpu"), device):
        inputs = Inputs(where, dtype)
        value = PRIMITIVES[name](inputs)
        assert value.device.type == where.type and value.dtype == dtype
        weight = torch.linspace(-1, 1, value.numel(), dtype=dtype).reshape(value.shape).to(where)
        (value * weight).sum().backward()
        results.append([value.detach().cpu(), *(x.grad.cpu() for x in inputs.given)])
    tolerance = 2e-3 if dtype == torch.float32 else 1e-9
    for there, here in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=tolerance, atol=tolerance)


def test_maps_of_fewer_channels_than_rank_are_orthogonal(device, dtype):
    """Their matrices lack rank: singular vectors of the value zero have to be completed."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 8, 64, 16, dtype=dtype).to(device)
    tau = niso.isometric_map(x, y, torch.zeros(64, dtype=dtype, device=device))
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    identity = torch.eye(64, dtype=dtype, device=device).expand(8, 64, 64)
    torch.testing.assert_close(tau.mT @ tau, identity, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["polar", "rotation"])
def test_spectra_are_those_of_the_cpu(kind, device, dtype):
    torch.manual_seed(0)
    spectrum = niso.LearnedSpectrum(12, 5, eigenfunctions=kind).to(dtype)
    here = spectrum()
    there = spectrum.to(device)()
    gram = there.eigenfunctions.mT @ (there.mass[:, None] * there.eigenfunctions)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-6  # the frame of rotations starts in float32
    torch.testing.assert_close(gram, torch.eye(5, dtype=dtype, device=device), rtol=0, atol=tolerance)
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("features", ["coordinates", "fourier"])
@pytest.mark.parametrize("kind", ["polar", "rotation"])
def test_fields_of_points_on_the_device_are_built_and_computed_there(kind, features, device):
    points = 2 * torch.rand(40, 3, device=device) - 1
    field = niso.FieldSpectrum(points, 5, features=features, eigenfunctions=kind)
    assert {tensor.device.type for tensor in (*field.parameters(), *field.buffers())} == {device.type}
    here = [field(), field.at(points[:20].cpu()), field.at(points[:20], orthonormal=False)]
    here[0].eigenfunctions.sum().backward()
    assert {part.device.type for spectrum in here for part in spectrum} == {device.type}
    field.cpu()
    there = [field(), field.at(points[:20].cpu()), field.at(points[:20].cpu(), orthonormal=False)]
    for one, other in zip(here, there, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-3)


def test_descriptors_of_surfaces_are_learned_on_the_device(device):
    config = replace(QUICK, surfaces="tori", vertices=150, eigenpairs=20, rank=6)
    config = replace(config, train_shapes=1, validation_shapes=0, test_shapes=1)
    experiment = Descriptors(config, "niso", 0, None, device)
    terms = experiment.objective((torch.tensor([0]),), 0.0)
    terms["loss"].backward()
    assert terms["loss"].device.type == device.type and terms["loss"].isfinite()


@pytest.mark.parametrize("name", bundled.names())
def test_models_that_come_with_niso_compute_on_the_device(name, device):
    model = niso.load(name, device=device)
    low, high = model.units.range or (-1.0, 1.0)
    x = low + (high - low) * torch.rand(3, *model.shape)
    for given in (x, x.to(device)):
        a, tau = model.encode(given), model.map(given, given.flip(0))
        results = (a, tau, model.decode(a), model.transport(given, tau), model.solve(a, a), model.invariants(given))
        assert {result.device for result in results} == {given.device}
    assert isinstance(model.encode(x.numpy()), np.ndarray)


# Training and checkpoints


def objective():
    torch.manual_seed(0)
    spectrum = niso.LearnedSpectrum(CONV.points, 8)
    return IsometryObjective(niso.NeuralIsometry(ConvEncoder(CONV), ConvDecoder(CONV), spectrum), 0.5, 0.1)


def trained(run, device, steps, precision="64-true", compiled=False):
    """An objective after so many steps on a device, from the run's checkpoint on; examples are drawn on the CPU."""
    accelerator = "gpu" if device.type == "cuda" and torch.cuda.is_available() else "cpu"
    hardware = Hardware(accelerator=accelerator, precision=precision, compile=compiled)
    fabric = make_fabric(hardware)
    made = objective()
    dtype = torch.float64 if precision == "64-true" else torch.float32

    def sampler(step):
        x = torch.rand(4, 1, 8, 8, dtype=dtype)
        return x.to(fabric.device), x.roll(1, -1).to(fabric.device)

    train(Phase("pretrain", made, sampler, replace(OPTIMISATION, steps=steps)), run, fabric, hardware=hardware)
    return {name: tensor.detach().cpu() for name, tensor in made.state_dict().items()}


@pytest.fixture
def new_run(tmp_path):
    return lambda name: Run.create(tmp_path / name, {})


def assert_same(one, other, tolerance=1e-7):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=tolerance, atol=tolerance, msg=name)


def test_a_training_is_that_of_the_cpu_and_moves_between_devices(device, new_run):
    cpu = torch.device("cpu")
    whole = trained(new_run("cpu"), cpu, 4)
    assert_same(trained(new_run("device"), device, 4), whole)
    for name, first, then in (("there", cpu, device), ("back", device, cpu)):
        run = new_run(name)
        half = trained(run, first, 2)
        stored, _ = checkpoint.load(run.checkpoint("pretrain"))
        assert all(tensor.device.type == "cpu" for tensor in stored.values())
        assert_same({name: stored[f"model.{name}"] for name in half}, half, 0)
        assert_same(trained(run, then, 4), whole)


def test_networks_in_bfloat16_keep_spectra_in_float32(device, new_run):
    weights = trained(new_run("bf16"), device, 4, "bf16-mixed")
    assert all(tensor.dtype == torch.float32 and tensor.isfinite().all() for tensor in weights.values())


@ON_GPU
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # a prototype, says torch
def test_a_step_waits_for_svds_alone(device, monkeypatch):
    monkeypatch.setattr("niso.functional_map.polar", lambda m, *_, **__: m)
    monkeypatch.setattr("niso.spectrum.table.polar", lambda m, *_, **__: m)
    made = objective().to(device)
    pair = tuple(torch.rand(2, 4, 1, 8, 8, device=device))
    for _ in range(2):
        made(pair, 0.5)["loss"].backward()  # the first call may set things up
        torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        made(pair, 0.5)["loss"].backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


# The slow ones come last: `make gpu` may have to end them


@ON_GPU
@pytest.mark.filterwarnings("ignore")
def test_compiled_networks_train_alike(device, new_run):
    assert_same(
        trained(new_run("compiled"), device, 4, "32-true", True), trained(new_run("eager"), device, 4, "32-true"), 1e-2
    )


@ON_GPU
@pytest.mark.filterwarnings("ignore")
def test_large_maps_become_one_graph_and_stay_those_of_the_svd(device):
    """By matrix products: nothing in it may wait for the host, as an SVD does."""
    torch.manual_seed(0)
    a, b = (torch.randn(4, 40, 60, device=device, requires_grad=True) for _ in range(2))
    eigenvalues = torch.linspace(0, 2, 40, device=device)

    def gradients():
        return torch.autograd.grad(niso.isometric_map(a, b, eigenvalues).pow(3).sum(), (a, b))

    expected = gradients()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with pytest.MonkeyPatch.context() as patch, torch.cuda.stream(stream):
        patch.setattr("niso.functional_map.polar", lambda m, *_: newton_schulz.polar(m))
        gradients()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = gradients()
    graph.replay()
    torch.cuda.synchronize()
    for here, there in zip(found, expected, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-2, atol=1e-2 * float(there.abs().max()))


@ON_GPU
def test_a_whole_run_on_the_gpu_is_evaluated_on_the_cpu(niso, small, tmp_path):
    out = tmp_path / "run"
    result = niso("run", "torus", *small, "--accelerator", "gpu", "--out", out)
    assert result.status == 0, result.err
    assert Run(out).facts["device"] == "cuda"
    metrics = Run(out).metrics
    text = (out / "config.yaml").read_text()
    (out / "config.yaml").write_text(text.replace("accelerator: gpu", "accelerator: cpu"))
    assert niso("evaluate", out).status == 0
    assert Run(out).metrics["eigenspace_energy"] == pytest.approx(metrics["eigenspace_energy"], rel=1e-3)
