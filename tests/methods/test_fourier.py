import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

import niso
from niso.methods.fourier import FourierObjective, NeuralFourierTransform
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.testing import relative_error

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}


def identity(rank: int, points: int, dtype: torch.dtype = torch.float32, **kwargs: object) -> NeuralFourierTransform:
    """Latents are the observations: (batch, points, channels)."""
    model = NeuralFourierTransform(nn.Identity(), nn.Identity(), rank, points, **kwargs).to(dtype)
    model.lifting.data = torch.linalg.pinv(model.reduction.data)  # orthonormal to this dtype's last digit
    return model


def between(model: NeuralFourierTransform, x: torch.Tensor, tx: torch.Tensor) -> torch.Tensor:
    """Maps from observations to others."""
    return model.solve_in_basis(model.encode(x), model.encode(tx))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_planted_map_is_recovered_from_tall_latents(dtype):
    torch.manual_seed(0)
    m = torch.randn(3, 4, 4, dtype=dtype)
    model = identity(4, 6, ridge=1e-14, dtype=dtype)
    h = torch.randn(3, 20, 4, dtype=dtype)
    x, tx = model.lifting @ h.mT, model.lifting @ (h @ m).mT  # the map acts on what the points are reduced to
    tau = between(model, x, tx)
    assert relative_error(tau, m.mT) < TOLERANCE[dtype]
    assert relative_error(tau @ model.encode(x), model.encode(tx)) < TOLERANCE[dtype]
    assert model(x, tx) < 100 * TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_latents_fit_any_pair_but_not_any_triplet(dtype):
    """Why pairs impose no equivariance on the paper's baseline: unrelated latents are related exactly."""
    torch.manual_seed(0)
    x, tx, ttx = torch.randn(3, 8, 50, 16, dtype=dtype)
    square = identity(16, points=50, ridge=1e-12, dtype=dtype)
    a, b = square.encode(x), square.encode(tx)
    assert a.shape == (8, 16, 16)
    assert relative_error(square.solve(a, b) @ a, b) < 1e-4
    assert relative_error(square.solve(a, b) @ b, square.encode(ttx)) > 0.9  # what triplets ask for
    tall = identity(4, points=50, dtype=dtype)
    a, b = tall.encode(x), tall.encode(tx)
    assert relative_error(tall.solve(a, b) @ a, b) > 0.5


def test_triplets_carry_on_with_the_map_of_the_pair():
    torch.manual_seed(0)
    m = torch.randn(3, 4, 4, dtype=torch.float64)
    h = torch.randn(3, 20, 4, dtype=torch.float64)
    model = identity(4, 6, ridge=1e-14, dtype=torch.float64)
    x, tx, ttx = (model.lifting @ view.mT for view in (h, h @ m, h @ m @ m))
    assert model(x, tx, ttx) < 1e-9
    assert model(x, tx, tx) > 0.1


def test_solution_is_that_of_the_normal_equations():
    torch.manual_seed(0)
    h0, h1 = torch.randn(2, 3, 9, 5, dtype=torch.float64)
    gram = h0.mT @ h0
    ridge = 1e-3 * gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(5, dtype=torch.float64)
    expected = torch.linalg.inv(gram + ridge) @ h0.mT @ h1
    torch.testing.assert_close(identity(5, 5, ridge=1e-3).solve(h0.mT, h1.mT), expected.mT)


def test_solve_gradcheck():
    torch.manual_seed(0)
    a, b = (torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(identity(3, 3, ridge=1e-2).solve, (a, b))


def test_ill_conditioned_float32_latents_are_solved_in_float64():
    torch.manual_seed(0)
    u, v = (torch.linalg.qr(torch.randn(4, 32, 32, dtype=torch.float64))[0] for _ in range(2))
    a = (u * torch.logspace(0, -5, 32, dtype=torch.float64)) @ v.mT
    b = torch.randn(4, 32, 32, dtype=torch.float64) @ a
    exact = identity(32, 32).solve(a, b)
    tau = identity(32, 32).solve(a.float(), b.float())
    assert tau.dtype == torch.float32 and relative_error(tau, exact) < 1e-3


def test_gradients_are_finite_where_latents_are_degenerate():
    for a in (torch.zeros(2, 8, 8), torch.ones(2, 8, 8), torch.randn(2, 8, 2)):
        a = a.clone().requires_grad_()
        tau = identity(8, 8).solve(a, torch.ones_like(a))
        tau.square().sum().backward()
        assert tau.isfinite().all() and a.grad.isfinite().all()


def small(norm: niso.losses.Norm = "l1") -> NeuralFourierTransform:
    config = ConvConfig(image_size=(8, 8), channels=(4, 6), blocks=1, latent_channels=5, stem_channels=3)
    return NeuralFourierTransform(ConvEncoder(config), ConvDecoder(config), rank=5, points=config.points, norm=norm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_objective_has_a_finite_gradient_for_every_parameter(norm, views, dtype):
    torch.manual_seed(0)
    objective = FourierObjective(small(norm)).to(dtype)
    terms = objective(tuple(torch.randn(views, 3, 1, 8, 8, dtype=dtype)), 0.0)
    assert set(terms) == {"loss", "reconstruction"} and terms["loss"].dtype == dtype
    terms["loss"].backward()
    for parameter in objective.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()


def test_norms():
    x, tx = torch.randn(2, 3, 7, 5, dtype=torch.float64)
    model = identity(2, 7, dtype=torch.float64)
    there, back = (model.lifting @ between(model, *views) @ model.encode(views[0]) for views in ((x, tx), (tx, x)))
    torch.testing.assert_close(model(x, tx), (there - tx).abs().mean() + (back - x).abs().mean())
    squares = (there - tx).square().mean() + (back - x).square().mean()
    model.norm = "l2"
    torch.testing.assert_close(model(x, tx), squares)


def test_sizes_are_those_of_neural_isometries():
    config = ConvConfig()
    encoder, decoder = ConvEncoder(config), ConvDecoder(config)
    nft = NeuralFourierTransform(encoder, decoder, rank=32, points=config.points)
    theirs = niso.NeuralIsometry(encoder, decoder, niso.LearnedSpectrum(config.points, 32))
    x = torch.randn(1, 1, 40, 40)
    assert nft.encode(x).shape == theirs.encode(x).shape == (1, 32, 32)
    assert between(nft, x, x).shape == theirs.map_between(x, x).shape == (1, 32, 32)
    count = [sum(p.numel() for p in model.parameters()) for model in (nft, theirs)]
    assert count[0] - count[1] == 400 * 32 - (400 + 32)  # a lifting of its own; no mass, no eigenvalues


@settings(max_examples=15, deadline=None)
@given(
    points=st.integers(1, 6),
    channels=st.integers(1, 6),
    batch=st.integers(1, 3),
    data=st.data(),
)
def test_any_size(points, channels, batch, data):
    x, tx = torch.randn(2, batch, points, channels)
    rank = data.draw(st.integers(1, points))
    model = identity(rank, points)
    assert model.encode(x).shape == (batch, rank, channels)
    assert between(model, x, tx).shape == (batch, rank, rank) and model(x, tx).isfinite()
    assert model.decode(model.encode(x)).shape == x.shape


def test_a_change_of_basis_is_consistent():
    torch.manual_seed(0)
    model = identity(4, 4, ridge=1e-14, dtype=torch.float64)
    x = torch.randn(3, 4, 4, dtype=torch.float64)
    tx = x @ torch.randn(3, 4, 4, dtype=torch.float64)
    before, raw, reconstruction = model.encode(x), between(model, x, tx), model(x, tx)
    change = model.diagonalise(raw, epochs=3)
    torch.testing.assert_close(model.encode(x).mT, before.mT @ change)  # H U
    v = torch.linalg.inv(change) @ raw.mT @ change
    torch.testing.assert_close(between(model, x, tx), v.mT)
    torch.testing.assert_close(between(model, x, tx) @ model.encode(x), model.encode(tx))
    torch.testing.assert_close(model.decode(model.encode(x)), x)
    torch.testing.assert_close(model(x, tx), reconstruction)
    again = model.diagonalise(between(model, x, tx), epochs=1, seed=1)
    torch.testing.assert_close(model.basis, change @ again)


def test_the_basis_is_part_of_the_state_but_not_trained():
    model, other = identity(4, 9), identity(4, 9)
    model.diagonalise(torch.randn(5, 4, 4), epochs=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.basis, model.basis) and not torch.equal(model.basis, torch.eye(4))
    assert {name for name, _ in model.named_parameters()} == {"reduction", "lifting"}


def test_reduction_and_lifting_start_as_a_projection_and_are_separate():
    model = NeuralFourierTransform(nn.Identity(), nn.Identity(), 3, 8)
    torch.testing.assert_close(model.reduction @ model.lifting, torch.eye(3))
    assert torch.equal(model.reduction.mT, model.lifting)
    assert model.reduction.data_ptr() != model.lifting.data_ptr()


def test_autocast_solves_in_full_precision():
    torch.manual_seed(0)
    model, x, tx = small(), *torch.randn(2, 3, 1, 8, 8)
    exact = model(x, tx)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x, tx)
        assert between(model, x, tx).dtype == torch.float32
    assert abs(loss - exact) < 0.05 * exact
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("rank", "points", "message"),
    [(0, 3, "at least 1 .*got 0"), (5, 4, "at most .* 4, got 5")],
)
def test_bad_sizes_are_named(rank, points, message):
    with pytest.raises(ValueError, match=message):
        identity(rank, points)


def test_wrong_latents_are_named():
    with pytest.raises(ValueError, match=r"\(batch, 9, channels\), not \(2, 8, 3\)"):
        identity(4, 9).encode(torch.zeros(2, 8, 3))
    with pytest.raises((ValueError, TypeError), match=r"equally long|tx"):  # the tests' own type check is first
        identity(3, 8)(torch.zeros(2, 8, 3), torch.zeros(4, 8, 3))
