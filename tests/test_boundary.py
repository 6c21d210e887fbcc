"""Wrong calls of the library: one clear line each. They are made in a process that does not check annotations."""

import json

import pytest
import torch

import niso
from niso import checks

PROGRAM = """
import json, warnings
import numpy as np, torch, niso
from niso import losses, metrics, testing
from niso.config import Hardware
from niso.geometry.mesh.classical import fixed_spectrum
from niso.geometry.mesh.sampling import project
from niso.geometry.mesh.surface import icosphere
from niso.networks import EigenspaceHead, SpectralHead, VectorNeuronHead
from niso.spectrum import smooth_functions
a, b, values = torch.randn(3, 8, 4), torch.randn(3, 8, 4), torch.linspace(0, 1, 8)
tau, array = niso.isometric_map(a, b, values), np.zeros((3, 8, 4), np.float32)
learned = niso.LearnedSpectrum(10, 8)
s, nothing = learned(), torch.nn.Identity()
mass, phi = s.mass.detach(), s.eigenfunctions.detach()
model = niso.NeuralIsometry(nothing, nothing, learned)
z = torch.randn(3, 10, 4)
ball = icosphere(1)
field = niso.FieldSpectrum(torch.from_numpy(ball.vertices), rank=4)
trained = niso.load("homnist-group")
digits = np.zeros((2, *trained.shape), np.uint8)

class Gives(torch.nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, *inputs):
        return self.what

answers = {}
for call in WRONG:
    try:
        with warnings.catch_warnings(action="error"):
            eval(call)
        answers[call] = "nothing", ""
    except Exception as error:
        answers[call] = type(error).__name__, str(error)
print(json.dumps(answers))
"""

ARRAY = "must be a torch.Tensor, not numpy.ndarray: torch.from_numpy makes one of it"
WRONG = {
    "field.at(np.zeros((5, 3)))": f"points {ARRAY}",
    "field.at(torch.ones(5, 3).long())": (
        "points must be (points, dimensions) floating-point numbers, not (5, 3) of torch.int64"
    ),
    "field.at(torch.rand(3))": "points must be (points, dimensions) floating-point numbers, not (3,) of torch.float32",
    "trained.map(digits, digits, shared='no')": "shared must be True or False, not 'no'",
    "trained.solve(trained.encode(digits), trained.encode(digits), shared=2)": "shared must be True or False, not 2",
    "trained.save('model', half='no')": "half must be True or False, not 'no'",
    "niso.IsometryObjective(nothing, 0.5, 0.1)": "model must be a niso.NeuralIsometry, not Identity",
    "niso.IsometryObjective(model, 'a', 0.1)": "equivariance must be a number, not 'a'",
    "niso.IsometryObjective(model, 0.5, 0.1, contrastive=-1)": "contrastive must not be negative, got -1",
    "niso.IsometryObjective(model, 0.5, 0.1, group=2.5)": "group must be a whole number, not 2.5",
    "learned.start_mass_at_(torch.ones(1))": "mass must be (points,) with points 10, not (1,)",
    "learned.start_mass_at_(-mass)": "a mass must be positive and finite at every point",
    "learned.start_eigenfunctions_at_(phi[:, :5])": ("functions must be (points, rank) with rank 8, not (10, 5)"),
    "niso.FieldSpectrum(torch.rand(30, 2), 4, width=4.5)": "width must be a whole number, not 4.5",
    "niso.FieldSpectrum(torch.rand(30, 2), 4, features='fourier', frequencies=4.5)": (
        "frequencies must be a whole number, not 4.5"
    ),
    "niso.NeuralIsometry(nothing, nothing, learned, confidence=True).encode(z[..., :1])": (
        "with confidence the encoder must give two channels or more, the last the confidence"
    ),
    "model(torch.tensor(1.0), torch.tensor(1.0))": "x must be a batch of observations, not one number",
    "niso.IsometryObjective(model, 0.5, 0.1)(z, 0.0)": (
        "a batch must be a pair (x, tx) or a triplet (x, tx, ttx) of tensors"
    ),
    "niso.IsometryObjective(model, 0.5, 0.1)((z,), 0.0)": (
        "a batch must be a pair (x, tx) or a triplet (x, tx, ttx) of tensors"
    ),
    "niso.IsometryObjective(model, 0.5, 0.1, group=True)": "group must be a whole number, not True",
    "niso.IsometryObjective(model, 0.5, 0.1, 0.1)((z, z), 100)": (
        "progress, the share of training, must lie in [0, 1], got 100"
    ),
    "niso.IsometryObjective(model, 0.5, 0.1, 0.1)((z, z), torch.tensor(2.0))": (
        "progress, the share of training, must lie in [0, 1], got 2.0"
    ),
    "losses.decayed(0.1, -0.5, 1.0)": "factor must not be negative, got -0.5",
    "smooth_functions(array, 2)": f"points {ARRAY}",
    "smooth_functions(torch.rand(5, 2), 6)": "rank 6 must lie between 1 and the number of points, 5",
    "smooth_functions(torch.rand(5, 2), 2.0)": "rank must be a whole number, not 2.0",
    "smooth_functions(torch.full((5, 2), float('inf')), 2)": "points must be finite",
    "learned.start_eigenfunctions_at_(phi[:, [0, 0, 1, 2, 3, 4, 5, 6]])": (
        "functions must be finite and linearly independent"
    ),
    "niso.Optimisation(steps=10.0)": "steps must be a whole number, not 10.0",
    "niso.Optimisation(batch_size='16')": "batch_size must be a whole number, not '16'",
    "niso.Optimisation(warmup_steps=True)": "warmup_steps must be a whole number, not True",
    "Hardware(threads=1.5)": "threads must be a whole number, not 1.5",
    "Hardware(devices=2.0)": "devices must be a whole number, not 2.0",
    "Hardware(nodes=1.5)": "nodes must be a whole number, not 1.5",
    "niso.Optimisation(learning_rate='1e-3')": "learning_rate must be a number, not '1e-3'",
    "niso.Optimisation().rate_at(-1)": "steps are counted from 0, got -1",
    "niso.Optimisation(steps=0)": "steps must be positive, got 0",
    "niso.make_optimizer([], niso.Optimisation())": "objective must be a torch.nn.Module, not list",
    "niso.make_optimizer(nothing, 1e-3)": "optimisation must be a niso.Optimisation, not float",
    "niso.set_learning_rates(torch.optim.SGD([z], lr=0.1), niso.Optimisation(), 0)": (
        "a group of the optimizer has the role None, which is none of network, eigenfunctions, eigenvalues, mass: "
        "make it by niso.make_optimizer, and an optimizer of its own for parameters with another learning rate"
    ),
    "niso.commuting_map(array, b, values, values)": f"a {ARRAY}",
    "niso.commuting_map(a, b, values[:1], values)": "eigenvalues must be (from,) with from 8 as in a, not (1,)",
    "niso.commuting_map(a, b, values, values, float('inf'))": "weight must be finite, got inf",
    "niso.commuting_map(a, b, values, values, 0.0)": "weight must be positive, got 0.0",
    "niso.isometric_map(a, b, values, mask='Soft')": 'mask must be "soft", "exact" or None, not \'Soft\'',
    "niso.isometric_map(array, array, values)": f"a {ARRAY}",
    "niso.isometric_map(a, b, values.numpy())": f"eigenvalues {ARRAY}",
    "niso.isometric_map(a, b, values[:1])": "eigenvalues must be (rank,) with rank 8 as in a, not (1,)",
    "niso.isometric_map(a, b, values[:1], 'exact')": "eigenvalues must be (rank,) with rank 8 as in a, not (1,)",
    "niso.isometric_map(a, b, values[:5], None)": "eigenvalues must be (rank,) with rank 8 as in a, not (5,)",
    "niso.isometric_map(a, b[..., :3], values)": (
        "b must be (…, rank, channels) with channels 4 as in a, not (3, 8, 3)"
    ),
    "niso.isometric_map(a, b[:2], values)": "batches must be equally long, not (3,) of a, (2,) of b",
    "niso.isometric_map(a[0, 0], b[0, 0], values)": "a must be (…, rank, channels), not (4,)",
    "niso.isometric_map(a.long(), b.long(), values)": "a must hold floating-point numbers, not torch.int64",
    "niso.isometric_map(tau, a, b)": "b must be (…, rank, channels) with channels 8 as in a, not (3, 8, 4)",
    "niso.cross_covariance(array, array)": f"a {ARRAY}",
    "niso.cross_covariance(a, b[:, :5])": ("b must be (…, rank, channels) with rank 8 as in a, not (3, 5, 4)"),
    "niso.isometric_map_from_covariance(a, values)": "covariance must be (…, rank, rank), not (3, 8, 4)",
    "niso.isometric_map_from_covariance(tau, values[:1])": (
        "eigenvalues must be (rank,) with rank 8 as in covariance, not (1,)"
    ),
    "niso.isometric_map_from_covariance(tau, values, 'hard')": 'mask must be "soft", "exact" or None, not \'hard\'',
    "niso.exact_isometric_map(tau, values[:4])": "eigenvalues must be (rank,) with rank 8 as in covariance, not (4,)",
    "niso.exact_isometric_map(tau, values, tolerance=-1)": "tolerance must not be negative, got -1",
    "niso.least_squares_map(a, b[:, :5])": ("b must be (…, rank, channels) with rank 8 as in a, not (3, 5, 4)"),
    "niso.least_squares_map(a, b, ridge=-1)": "ridge must not be negative, got -1",
    "niso.multiplicity_mask(tau)": "eigenvalues must be (rank,), not (3, 8, 8)",
    "niso.multiplicity_mask(values[:0])": "eigenvalues must be (rank,), not (0,) (empty)",
    "niso.polar(array)": f"m {ARRAY}",
    "niso.polar([[1.0, 2.0], [3.0, 4.0]])": "m must be a torch.Tensor, not builtins.list",
    "niso.polar(values)": "m must be (…, n, k), not (8,)",
    "niso.polar(torch.eye(3).long())": "m must hold floating-point numbers, not torch.int64",
    "niso.polar(torch.eye(3) + 1j)": "m must hold floating-point numbers, not torch.complex64",
    "niso.polar(tau, damping=float('nan'))": "damping must not be negative, got nan",
    "niso.LearnedSpectrum(10.5)": "points must be a whole number, not 10.5",
    "niso.LearnedSpectrum(10, 8.0)": "rank must be a whole number, not 8.0",
    "niso.LearnedSpectrum(0)": "points must be at least 1, got 0",
    "niso.LearnedSpectrum(10, 8, damping=-1)": "damping must not be negative, got -1",
    "niso.LearnedSpectrum(10, 8, 'Sorted')": 'eigenvalues must be "cumulative", "sorted" or "shifted", not \'Sorted\'',
    "niso.FixedSpectrum(mass.numpy(), phi, values)": f"mass {ARRAY}",
    "niso.FixedSpectrum(mass, phi, values[:1])": (
        "eigenvalues must be (rank,) with rank 8 as in eigenfunctions, not (1,)"
    ),
    "niso.FixedSpectrum(mass[:5], phi, values)": "mass must be (points,) with points 10 as in eigenfunctions, not (5,)",
    "niso.FieldSpectrum(array[0], 2)": f"points {ARRAY}",
    "niso.FieldSpectrum(torch.rand(10, 2), rank=2.0)": "rank must be a whole number, not 2.0",
    "niso.FieldSpectrum(torch.rand(10, 2), rank=2, eigenvalues='Sorted')": (
        'eigenvalues must be "cumulative", "sorted" or "shifted", not \'Sorted\''
    ),
    "fixed_spectrum(ball, 2.5)": "rank must be a whole number, not 2.5",
    "fixed_spectrum(tuple(ball), 4)": "the mesh must be a Mesh, not tuple: Mesh(vertices, faces) makes one",
    "project(field, *ball, 1j * ball.vertices)": "values at the vertices must be real",
    "project(field, *ball, ball.vertices, 0)": "largest must be positive, got 0",
    "project(field, *ball, np.ones(42))": "values must be (vertices, channels) with 42 vertices, not (42,)",
    "project(field, *ball, np.ones((3, 1)))": "values must be (vertices, channels) with 42 vertices, not (3, 1)",
    "project(field, *ball, np.full((42, 1), np.nan))": "values at the vertices must be finite",
    "niso.logarithm(array)": f"tau {ARRAY}",
    "niso.logarithm(a)": "tau must be (…, k, k), not (3, 8, 4)",
    "niso.logarithm(2 * torch.eye(3))": "logarithm needs orthogonal matrices: τᵀτ is not the identity",
    "niso.inverse_root(array)": f"g {ARRAY}",
    "niso.inverse_root(a)": "g must be (…, k, k), not (3, 8, 4)",
    "niso.inverse_root(torch.eye(3).long())": "g must hold floating-point numbers, not torch.int64",
    "s.project(z, confidence=array[..., 0])": f"confidence {ARRAY}",
    "s.project(z, confidence=z[..., 0], ridge=0)": "ridge must be positive, got 0",
    "s.project(a)": "latents must be (…, points, channels) with points 10, not (3, 8, 4)",
    "s.project(array)": f"latents {ARRAY}",
    "s.unproject(z)": "coefficients must be (…, rank, channels) with rank 8, not (3, 10, 4)",
    "s.unproject(values)": "coefficients must be (…, rank, channels) with rank 8, not (8,)",
    "s.spatial_map(a)": "tau must be (…, rank, rank) with rank 8, not (3, 8, 4)",
    "niso.NeuralIsometry(nothing, nothing, learned, mask='Soft')": (
        'mask must be "soft", "exact" or None, not \'Soft\''
    ),
    "niso.NeuralIsometry(nothing, nothing, learned, norm='L1')": 'norm must be "l1" or "l2", not \'L1\'',
    "niso.NeuralIsometry(nothing, nothing, learned, damping=-1)": "damping must not be negative, got -1",
    "niso.NeuralIsometry(nothing, nothing, s)": "spectrum must be a torch.nn.Module, not Spectrum",
    "niso.NeuralIsometry(abs, nothing, learned)": ("encoder must be a torch.nn.Module, not builtin_function_or_method"),
    "niso.NeuralIsometry(nothing, nothing, learned, spectral_dropout='a')": (
        "dropout probability must be a number, not 'a'"
    ),
    "model(array, array)": f"x {ARRAY}",
    "model(z, z.numpy())": f"tx {ARRAY}",
    "model(z, z[..., :2])": "observations of one batch must be of one shape, not [(10, 4), (10, 2)]",
    "model(z[..., 0], z[..., 0])": "latents must be (batch, points, channels) with batch 6 and points 10, not (6, 10)",
    "model(z[:, :9], z[:, :9])": ("latents must be (batch, points, channels) with points 10, not (6, 9, 4)"),
    "model(z[:, None], z[:, None])": (
        "latents must be (batch, points, channels) with batch 6 and points 10, not (6, 1, 10, 4)"
    ),
    "niso.NeuralIsometry(Gives(z[:1]), nothing, learned)(z, z)": (
        "latents must be (batch, points, channels) with batch 6, not (1, 10, 4)"
    ),
    "niso.NeuralIsometry(Gives({}), nothing, learned, confidence=True)(z, z)": (
        "latents must be a torch.Tensor, not builtins.dict"
    ),
    "niso.NeuralIsometry(nothing, Gives({}), learned)(z, z)": (
        "what the decoder gives must be a torch.Tensor, not builtins.dict"
    ),
    "niso.NeuralIsometry(nothing, Gives(z), learned)(z, z)": (
        "the decoder gives torch.float32 of (3, 10, 4) for 6 latent functions"
    ),
    "niso.NeuralIsometry(nothing, nothing, Gives(tuple(s)))(z, z)": (
        "what the spectrum's module gives must be a niso.Spectrum, not tuple"
    ),
    "VectorNeuronHead(4, 2)(a[..., :3])": "a must be (batch, rank, channels) with channels 4, not (3, 8, 3)",
    "VectorNeuronHead(4, 2)(a.long())": "a must hold floating-point numbers, not torch.int64",
    "VectorNeuronHead(4.0, 2)": "inputs must be a whole number, not 4.0",
    "VectorNeuronHead(4, 0)": "classes must be at least 1, got 0",
    "VectorNeuronHead(4, 2, {'layers': 1})": "config must be a VectorNeuronConfig, not dict",
    "SpectralHead(4, 2, values)(a[:, :5])": "a must be (batch, rank, channels) with rank 8, not (3, 5, 4)",
    "SpectralHead(4, 2, values[:1])(a)": "a must be (batch, rank, channels) with rank 1, not (3, 8, 4)",
    "SpectralHead(4, 2, values.numpy())": f"eigenvalues {ARRAY}",
    "SpectralHead(4, 2, values[:0])": "eigenvalues must be (rank,), not (0,) (empty)",
    "EigenspaceHead(4, 2, values)(a[..., 1:])": "a must be (batch, rank, channels) with channels 4, not (3, 8, 3)",
    "EigenspaceHead(4, 2, tau)": "eigenvalues must be (rank,), not (3, 8, 8)",
    "VectorNeuronHead(4, 2)(a[0])": "a must be (batch, rank, channels) with channels 4, not (8, 4)",
    "model(z.long(), z.long())": "latents must hold floating-point numbers, not torch.int64",
    "model(z, z.byte())": (
        "views of one batch must be of one type, not torch.float32 of x and torch.uint8 of tx: take tx.float()"
    ),
    "model.map_between(z, z.double())": (
        "views of one batch must be of one type, not torch.float32 of x and torch.float64 of tx"
    ),
    "model(z, z, group=True)": "group must be a whole number, not True",
    "model(z, z[:2])": "views of one batch must be equally long, not [3, 2]",
    "model(z[:0], z[:0])": "a batch must hold at least one observation",
    "model(z, z, group=1.5)": "group must be a whole number, not 1.5",
    "model(z, z, group=-3)": "group must be at least 1, got -3",
    "model.encode(array)": f"x {ARRAY}",
    "model.decode(z)": "a must be (batch, rank, channels) with rank 8, not (3, 10, 4)",
    "model.map_between(z, z[:2])": "views of one batch must be equally long, not [3, 2]",
    "model.map_between(z[:1], z)": "views of one batch must be equally long, not [1, 3]",
    "model(z, z).loss(equivariance=-0.5)": "equivariance must not be negative, got -0.5",
    "model(z, z).loss(multiplicity='0.5')": "multiplicity must be a number, not '0.5'",
    "niso.SpectralDropout(2)": "dropout probability must lie in [0, 1], got 2",
    "niso.SpectralDropout()(array)": f"a {ARRAY}",
    "niso.SpectralDropout()(a, values[:1])": "eigenvalues must be (rank,) with rank 8, not (1,)",
    "niso.on_grid(nothing, nothing, 10)": "grid must be (height, width) or (depth, height, width), not 10",
    "niso.on_grid(nothing, nothing, (10, 0))": "width must be at least 1, got 0",
    "niso.on_grid(nothing, 1, (10, 10))": "decoder must be a torch.nn.Module, not int",
    "niso.on_grid(nothing, nothing, (4, 2))[0](a)": "latents must be (batch, channels, height, width), not (3, 8, 4)",
    "niso.on_grid(nothing, nothing, (4, 2))[1](array)": f"latents {ARRAY}",
    "losses.equivariance(a, b, tau=tau, norm='L1')": 'norm must be "l1" or "l2", not \'L1\'',
    "losses.equivariance(a, b, tau=tau, directions='Both')": 'directions must be "both" or "forward", not \'Both\'',
    "losses.equivariance(a, b[..., :1], tau=tau)": (
        "b must be (…, rank, channels) with channels 4 as in a, not (3, 8, 1)"
    ),
    "losses.equivariance(array, array, tau=tau)": f"a {ARRAY}",
    "losses.transport(a, b, b[:, :5])": ("forward must be (…, rank, channels) with rank 8 as in a, not (3, 5, 4)"),
    "losses.reconstruction(array, array)": f"prediction {ARRAY}",
    "losses.reconstruction(a.long(), b.long())": (
        "prediction must hold floating-point numbers, not torch.int64 of (3, 8, 4)"
    ),
    "losses.reconstruction(a, b > 0)": "target must hold numbers, not torch.bool of (3, 8, 4): take target.float()",
    "losses.reconstruction(a[:0], b[:0])": "there is nothing to take a mean over: (0, 8, 4) is empty",
    "losses.visibility(a, 3)": "seen must be a torch.Tensor, not builtins.int",
    "losses.visibility(a, b[:1] > 0)": "logits and seen must be of one shape, not (3, 8, 4) and (1, 8, 4)",
    "losses.composition(tau[:0], tau[:0], tau[:0])": "there is nothing to take a mean over: (0, 8, 8) is empty",
    "metrics.principal_angles(mass, phi * float('nan'), phi)": "functions must be finite and linearly independent",
    "losses.contrastive(a, b, temperature=0)": "temperature must be positive, got 0",
    "losses.contrastive(a, b[:2])": ("b must be (batch, rank, channels) with batch 3 as in a, not (2, 8, 4)"),
    "losses.contrastive(a[0], b[0])": "a must be (batch, rank, channels), not (8, 4)",
    "losses.vicreg(a, b, spread=0)": "spread must be positive, got 0",
    "losses.vicreg(a[:2], b[:2])": "a and b need at least 3 observations, got 2",
    "losses.completion(a[0], b[0])": "seen and whole need at least 2 observations, got 1",
    "losses.multiplicity(tau)": "eigenvalues must be (rank,), not (3, 8, 8)",
    "metrics.equivariance_error(array, array, tau=tau)": f"a {ARRAY}",
    "metrics.equivariance_error(a, b, tau=tau[:, :5, :5])": (
        "tau must be (…, rank, rank) with rank 8 as in a, not (3, 5, 5)"
    ),
    "metrics.equivariance_error(a, b, tau=tau, common=values)": (
        "common must be (…, rank, any) with rank 8 as in b, not (8,)"
    ),
    "metrics.equivariance_error(a, b, tau=tau, common=a[..., :2])": (
        "common must have the shape of b, (3, 8, 4), or 1 in places, not (3, 8, 2)"
    ),
    "metrics.equivariance_error(a[:1], b[:1], tau=tau[:1], common=a)": (
        "common must have the shape of b, (1, 8, 4), or 1 in places, not (3, 8, 4)"
    ),
    "metrics.relative_map_error(a, b[:, :5], tau_other=tau)": (
        "b must be (…, rank, channels) with rank 8 as in a, not (3, 5, 4)"
    ),
    "metrics.eigenspace_energy(mass[:5], phi, phi, torch.arange(8))": (
        "eigenfunctions must be (points, rank) with points 5 as in mass, not (10, 8)"
    ),
    "metrics.eigenspace_energy(mass, phi, phi, torch.arange(5))": "true_spaces must be (true,) with true 8, not (5,)",
    "metrics.eigenspace_energy(mass, phi, phi, torch.rand(8))": "true_spaces must hold integers, not torch.float32",
    "metrics.eigenspace_energy(0 * mass, phi, phi, torch.arange(8))": (
        "a mass must be positive and finite at every point"
    ),
    "metrics.eigenspace_energy(mass, phi, phi[:, [0, 0]], torch.zeros(2).long())": (
        "functions must be finite and linearly independent"
    ),
    "metrics.eigenspace_energy(mass, phi, phi[:, :0], torch.arange(0))": (
        "there are no true functions: give at least one"
    ),
    "metrics.block_energy(tau, torch.arange(1))": "spaces must be (rank,) with rank 8, not (1,)",
    "metrics.constant_part(s, a)": "z must be (…, points, channels) with points 10, not (3, 8, 4)",
    "metrics.constant_part(1, a)": "spectrum must be a niso.Spectrum, not int",
    "metrics.matched_spaces(torch.rand(8, 8), torch.ones(8))": "dimensions must hold integers, not torch.float32",
    "metrics.matched_spaces(torch.rand(8, 5), torch.arange(3))": "dimensions must be (spaces,) with spaces 5, not (3,)",
    "metrics.matched_spaces(torch.rand(3, 2), torch.tensor([-1, 5]))": "dimensions must not be negative, got [-1, 5]",
    "metrics.clusters(values, gap=-1)": "gap must not be negative, got -1",
    "metrics.clusters(values.numpy())": f"eigenvalues {ARRAY}",
    "metrics.is_cluster(torch.arange(8), torch.arange(8))": "members must hold booleans, not torch.int64",
    "metrics.principal_angles(mass, phi, phi[:5])": (
        "true_functions must be (points, others) with points 10 as in mass, not (5, 8)"
    ),
    "metrics.principal_angles(mass[:3], phi[:3], phi[:3, :2])": "8 functions at 3 points are linearly dependent",
    "metrics.principal_angles(-mass, phi, phi)": "a mass must be positive and finite at every point",
    "testing.relative_error(a, b[..., :1])": "value (3, 8, 4) and reference (3, 8, 1) differ in shape",
    "testing.assert_isometry(array)": f"tau {ARRAY}",
    "testing.assert_isometry(a)": "tau must be (…, rank, rank), not (3, 8, 4)",
    "testing.assert_isometry(tau, values)": "spectrum must be a niso.Spectrum, not Tensor",
}


@pytest.fixture(scope="module")
def answers(outside):
    return json.loads(outside(f"WRONG = {list(WRONG)!r}\n{PROGRAM}"))


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_refused_in_one_clear_line(answers, call):
    kind, message = answers[call]
    assert message == WRONG[call]
    assert kind in ("TypeError", "ValueError")


RETURNED = {"Fitted", "IsometryOutput", "Spectrum"}
TESTED_ELSEWHERE = {"fit", "load"}  # in test_fitting


def test_every_public_name_is_called_wrongly():
    called = " ".join(WRONG)
    public = {name for name in niso.__all__ if name not in RETURNED | TESTED_ELSEWHERE}
    assert all(name in called for name in public)


def test_batches_broadcast():
    a, tau = torch.randn(5, 3, 2), torch.eye(3)
    checks.check_tensors(a=(a, "* rank channels"), tau=(tau, "* rank rank"))
