"""Loss terms against hand-computed values."""

import math

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch.autograd import gradcheck

from niso import losses


def test_equivariance_by_hand(dtype):
    tau = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=dtype)
    a = torch.tensor([[1.0], [2.0]], dtype=dtype)
    b = torch.tensor([[1.0], [4.0]], dtype=dtype)
    # τa − b = (−3, −3), τᵀb − a = (3, −3)
    assert losses.equivariance(a, b, tau=tau, directions="forward").item() == 3
    assert losses.equivariance(a, b, tau=tau).item() == 6
    assert losses.equivariance(a, tau @ a, tau=tau).item() == 0


def test_equivariance_is_a_mean_over_the_batch(dtype):
    tau = torch.linalg.qr(torch.randn(4, 3, 3, dtype=dtype)).Q
    a, b = torch.randn(2, 4, 3, 5, dtype=dtype)
    each = torch.stack([losses.equivariance(*one) for one in zip(a, b, tau, strict=True)])
    torch.testing.assert_close(losses.equivariance(a, b, tau=tau), each.mean())


def test_relative_equivariance_knows_no_scale_and_no_common_part(dtype):
    tau = torch.eye(4, dtype=dtype).expand(5, 4, 4)
    a, b = torch.randn(2, 5, 4, 3, dtype=dtype).unbind()
    loss = losses.equivariance(a, b, tau=tau, relative=True)
    torch.testing.assert_close(losses.equivariance(1e-3 * a, 1e-3 * b, tau=tau, relative=True), loss)
    common = torch.randn(4, 3, dtype=dtype)
    torch.testing.assert_close(losses.equivariance(a + common, b + common, tau=tau, relative=True), loss)
    views = torch.cat([a, b])
    spread = (views - views.mean(0)).abs().mean()
    torch.testing.assert_close(loss, losses.equivariance(a, b, tau=tau) / spread)
    same = torch.zeros(5, 4, 3, dtype=dtype, requires_grad=True)
    losses.equivariance(same, same, tau=tau, relative=True).backward()
    assert same.grad.isfinite().all()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_pair_that_no_transformation_has_changed_does_not_outweigh_all_others(dtype, norm):
    """Its latents have no spread but rounding, and Adam never forgets a gradient of 1e32."""
    a = torch.randn(1, 4, 3, dtype=dtype, requires_grad=True)
    near = a.detach() * (1 + 4 * torch.finfo(dtype).eps)
    loss = losses.equivariance(a, near, tau=torch.eye(4, dtype=dtype)[None], norm=norm, relative=True)
    loss.backward()
    assert 0 <= loss < 0.1 and a.grad.abs().max() < 2 / losses.FAINTEST
    pair = torch.stack([near[0], near[0]])
    assert 0 < losses.completion(pair + 0.1, pair, norm) < losses.FAINTEST ** (-1 if norm == "l1" else -2)


@pytest.mark.parametrize("relative", [False, True])
def test_in_a_whitened_loss_all_eigenfunctions_count_alike(dtype, relative):
    a, b = torch.randn(2, 3, 4, 5, dtype=dtype)
    tau = torch.eye(4, dtype=dtype).expand(3, 4, 4)
    sizes = torch.tensor([1e-3, 1.0, 20.0, 0.1], dtype=dtype)
    strengths = torch.stack([a, b]).abs().mean((0, 1, 3))
    even_a, even_b = (part / strengths[:, None] for part in (a, b))

    def loss(a, b, **options):
        return losses.equivariance(a, b, tau=tau, relative=relative, **options)

    torch.testing.assert_close(loss(even_a, even_b, whitened=True), loss(even_a, even_b))
    unit = 1 if relative else (sizes * strengths).mean()
    scaled = loss(sizes[:, None] * a, sizes[:, None] * b, whitened=True)
    torch.testing.assert_close(scaled, unit * loss(even_a, even_b))
    unused = torch.ones(4, 1, dtype=dtype).index_fill_(0, torch.tensor(2), 0)
    noise = 1e-9 * torch.ones(3, 4, 5, dtype=dtype)  # rounding, where nothing is: it stays that
    assert (
        loss(unused * a + noise, unused * b, whitened=True) - loss(unused * a, unused * b, whitened=True)
    ).abs() < 1e-4
    empty = torch.zeros(3, 4, 5, dtype=dtype, requires_grad=True)
    loss(empty, empty, whitened=True).backward()
    assert empty.grad.isfinite().all()


@pytest.mark.parametrize("relative", [False, True])
def test_weights_of_a_whitened_loss_pass_no_gradient(relative):
    a, b, forward = torch.randn(3, 6, 4, 5, dtype=torch.float64).unbind()
    size = torch.stack([a, b]).abs().mean((0, 1, 3))
    weights = (size.mean() / size)[:, None]
    gradients = []
    for factor, whitened in ((1, True), (weights, False)):
        views = [view.clone().requires_grad_() for view in (a, b, forward)]
        losses.transport(*(factor * view for view in views), relative=relative, whitened=whitened).backward()
        gradients.append([view.grad for view in views])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "loss",
    [
        lambda a, b, moved: losses.transport(a, b, moved, relative=True),
        lambda a, b, moved: losses.transport(a, b, moved, whitened=True),
        lambda a, b, moved: losses.completion(moved, a),
    ],
    ids=["relative", "whitened", "completion"],
)
def test_sizes_are_those_of_the_global_batch(monkeypatch, loss):
    """As in two processes, of which either has one half."""
    views = torch.randn(3, 6, 4, 5, dtype=torch.float64, requires_grad=True)
    views = views * torch.tensor([1.0, 1, 1, 4, 5, 6])[:, None, None]
    gathered = []
    monkeypatch.setattr(losses, "global_batch", lambda part: gathered.append(part) or part)
    whole = loss(*views)
    monkeypatch.setattr(losses, "global_batch", lambda _: gathered[0])
    halves = [loss(*views[:, half]) for half in (slice(3), slice(3, 6))]
    torch.testing.assert_close((halves[0] + halves[1]) / 2, whole)
    assert halves[1] > 2 * halves[0]


def test_contrastive_sees_partners_and_no_map(dtype):
    a = torch.randn(8, 6, 5, dtype=dtype)
    q, _ = torch.linalg.qr(torch.randn(8, 6, 6, dtype=dtype))
    matched, other = losses.contrastive(a, q @ a), losses.contrastive(a, (q @ a).roll(1, 0))
    torch.testing.assert_close(matched, losses.contrastive(a, a))
    assert matched < 0.01 < math.log(8) < other
    torch.testing.assert_close(losses.contrastive(a, 100 * a), losses.contrastive(100 * a, a))
    same = torch.ones_like(a).requires_grad_()
    blind = losses.contrastive(same, same)
    torch.testing.assert_close(blind.item(), math.log(8))
    blind.backward()
    assert same.grad.isfinite().all()


def test_contrastive_does_not_learn_from_rounding(dtype):
    """Of invariants that are the same, each computed from coefficients of its own."""
    q, _ = torch.linalg.qr(torch.randn(2, 16, 32, 32, dtype=dtype))
    a, b = (q @ torch.randn(32, 8, dtype=dtype)).unbind()
    a.requires_grad_()
    loss = losses.contrastive(a, b)
    torch.testing.assert_close(loss.item(), math.log(16), atol=0.02, rtol=0)
    assert torch.autograd.grad(loss, a)[0].norm() < 100


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3])
def test_contrastive_learns_from_small_differences_as_from_large_ones(spread):
    base, q = torch.randn(32, 8), torch.linalg.qr(torch.randn(16, 32, 32)).Q
    a = (base + spread * torch.randn(16, 32, 8)).requires_grad_()
    wide = a.detach().double().requires_grad_()
    gradient = torch.autograd.grad(losses.contrastive(a, q @ a.detach()), a)[0].double()
    expected = torch.autograd.grad(losses.contrastive(wide, q.double() @ wide.detach()), wide)[0]
    assert (gradient - expected).norm() < 0.01 * expected.norm()


def test_contrastive_is_its_formula():
    """Of a and b with means of their own: invariants are centred by the mean of both."""
    a = torch.randn(8, 6, 5, dtype=torch.float64)
    b = 2 + a + 0.3 * torch.randn_like(a)
    first, second = (np.stack([(x.T @ x).ravel() for x in view.numpy()]) for view in (a, b))
    common = np.concatenate([first, second]).mean(0)
    first, second = (g / np.linalg.norm(g, axis=1, keepdims=True) for g in (first - common, second - common))
    scores = first @ second.T / 0.5
    terms = [np.log(np.exp(s).sum(1)) - np.diag(s) for s in (scores, scores.T)]
    assert losses.contrastive(a, b, temperature=0.5).item() == pytest.approx(np.mean(terms))


def test_vicreg_sees_neither_maps_nor_size(dtype):
    a = torch.randn(8, 6, 5, dtype=dtype)
    q, _ = torch.linalg.qr(torch.randn(8, 6, 6, dtype=dtype))
    own = losses.vicreg(a, a)
    torch.testing.assert_close(losses.vicreg(a, q @ a), own)
    torch.testing.assert_close(losses.vicreg(a, 100 * a), own)
    assert own + 0.5 < losses.vicreg(a, (q @ a).roll(1, 0))


def test_vicreg_by_hand():
    """Observations with one channel each of four: G varies equally in n − 1 = 3 directions, by √(3/4 · 4/3) = 1."""
    basis = torch.diag_embed(torch.eye(4, dtype=torch.float64))
    assert losses.vicreg(basis, basis).item() == pytest.approx(0, abs=1e-9)
    line = torch.tensor([1.0, 1, 2, 2], dtype=torch.float64)  # all in one plane of two channels: one direction
    a = torch.stack([torch.diag(torch.tensor([1, float(t == 2), 0, 0], dtype=torch.float64)) for t in line])
    assert losses.vicreg(a, a).item() == pytest.approx(math.log(3))
    spread = math.sqrt((2 - math.sqrt(2)) / 3)  # ‖(1, 0) − (1, 1)/√2‖² = 2 − √2, a quarter of it each, over n − 1
    assert losses.vicreg(a, a, spread=2 * spread).item() == pytest.approx(math.log(3) + 0.5)


@pytest.mark.parametrize("spread", [0.3, 0.9])
def test_vicreg_is_its_formula(spread):
    """Of a that vary more than b, and in more directions: spread and directions are those of both."""
    a = torch.randn(8, 6, 5, dtype=torch.float64)
    b = a[:1] + 0.3 * torch.randn(8, 1, 1, dtype=torch.float64) * a[1]
    first, second = (np.stack([x.T @ x / np.linalg.norm(x.T @ x) for x in view.numpy()]) for view in (a, b))
    first, second = ((g - g.mean(0)).reshape(8, -1) for g in (first, second))
    covariances = np.stack([np.cov(first.T), np.cov(second.T)])
    traces, squares = (np.trace(c, axis1=1, axis2=2) for c in (covariances, covariances @ covariances))
    assert traces[0] > 2 * traces[1]
    expected = np.maximum(0, 1 - np.sqrt(traces) / spread).mean() + np.log(7 * squares / traces**2).mean()
    expected += np.square(first - second).sum(1).mean() / (2 * traces.mean())
    assert losses.vicreg(a, b, spread=spread).item() == pytest.approx(expected)


def test_vicreg_of_collapsed_latents_is_one_with_a_finite_gradient(dtype):
    for same in (torch.ones(4, 6, 5, dtype=dtype), torch.zeros(4, 6, 5, dtype=dtype)):
        loss = losses.vicreg(same.requires_grad_(), same)
        assert loss.item() == pytest.approx(1, abs=1e-3)
        loss.backward()
        assert same.grad.isfinite().all()


@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-5])
def test_vicreg_gains_nothing_from_a_collapse(spread, dtype):
    """It does not depend on how little invariants vary, down to rounding, but where their spread is asked for."""
    common, apart = torch.randn(1, 6, 5, dtype=dtype), torch.randn(32, 6, 5, dtype=dtype)
    size = torch.tensor(spread, dtype=dtype, requires_grad=True)
    first, second = (common + size * x for x in (apart, apart + 0.3 * torch.randn(32, 6, 5, dtype=dtype)))
    (slope,) = torch.autograd.grad(losses.vicreg(first, second), size)
    assert slope * spread < 0.05


def test_vicreg_gradient():
    a, b = torch.randn(2, 4, 3, 2, dtype=torch.float64, requires_grad=True).unbind(0)
    assert gradcheck(lambda a, b: losses.vicreg(a, b, spread=2.0), (a.detach().requires_grad_(), b.detach()))


def test_reconstruction_by_hand():
    prediction, target = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 5.0]])
    assert losses.reconstruction(prediction, target).item() == 2
    assert losses.reconstruction(prediction.bfloat16(), target.bfloat16()).dtype == torch.float32
    spectrum = torch.tensor([3 + 4j, 0j])
    assert losses.reconstruction(spectrum, torch.zeros(2) + 0j).item() == 2.5
    assert losses.reconstruction(spectrum, torch.zeros(2) + 0j, norm="l2").item() == 12.5


def test_reconstruction_does_not_broadcast():
    with pytest.raises(ValueError, match=r"prediction \(4, 1, 8, 8\) and target \(4, 8, 8\) differ in shape"):
        losses.reconstruction(torch.zeros(4, 1, 8, 8), torch.zeros(4, 8, 8))


@pytest.mark.parametrize("rank", [1, 2, 32, 256])
def test_multiplicity_extremes(rank, dtype):
    degenerate = losses.multiplicity(torch.full((rank,), 7.0, dtype=dtype))
    assert degenerate.item() == pytest.approx(math.sqrt(rank - 1), abs=1e-3)
    apart = losses.multiplicity(100 * torch.arange(rank, dtype=dtype))
    assert apart.item() == pytest.approx(1e-4 / rank, rel=1e-3)


def test_multiplicity_by_hand_and_its_invariances():
    t = math.exp(-1.0)  # P = [[1, t], [t, 1]], Δ = [[t, −t], [−t, t]], ‖Δ‖ = 2t
    values = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert losses.multiplicity(values).item() == pytest.approx(math.sqrt(4 * t**2 + 1e-8) / 2)
    values = torch.rand(6, dtype=torch.float64)
    torch.testing.assert_close(losses.multiplicity(values + 5), losses.multiplicity(values))
    torch.testing.assert_close(losses.multiplicity(values.flip(0)), losses.multiplicity(values))
    assert losses.multiplicity(3 * values) < losses.multiplicity(values)


def test_multiplicity_gradient():
    assert gradcheck(losses.multiplicity, torch.rand(5, dtype=torch.float64, requires_grad=True))
    for values in (torch.zeros(5), 1000 * torch.arange(5.0)):
        values.requires_grad_()
        losses.multiplicity(values).backward()
        assert values.grad.isfinite().all()


def test_float32_under_autocast():
    tau = torch.linalg.qr(torch.randn(2, 8, 8)).Q
    a, b = torch.randn(2, 2, 8, 5)
    values = torch.rand(8)
    plain = losses.equivariance(a, b, tau=tau), losses.multiplicity(values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (losses.equivariance(a, b, tau=tau), losses.multiplicity(values)) == plain


def test_completion_depends_neither_on_the_axes_of_a_batch_nor_on_the_size_of_latents():
    torch.manual_seed(0)
    seen, whole = torch.randn(2, 2, 3, 5, 4).unbind()
    flat = losses.completion(seen.flatten(0, 1), whole.flatten(0, 1))
    torch.testing.assert_close(losses.completion(seen, whole), flat)
    torch.testing.assert_close(losses.completion(100 * seen, 100 * whole), flat)


@pytest.mark.parametrize("progress", [float, torch.tensor])
def test_a_weight_decays_at_the_end_alone(progress):
    found = [float(losses.decayed(2.0, 0.01, progress(done))) for done in (0.0, 0.5, 0.7, 0.85, 1.0)]
    assert found == pytest.approx([2, 2, 2, 0.2, 0.02])
    assert float(losses.decayed(2.0, 0.01, progress(0.5), share=1.0)) == pytest.approx(0.2)
    assert losses.decayed(2.0, 1.0, progress(1.0)) == 2.0


def test_losses_that_compare_observations_need_them():
    with pytest.raises(ValueError, match="at least 2 observations"):
        losses.completion(torch.rand(1, 4, 3), torch.rand(1, 4, 3))
    with pytest.raises(ValueError, match="at least 3 observations, got 2"):
        losses.vicreg(*torch.randn(2, 2, 4, 3))
    with pytest.raises(ValueError, match="needs two channels or more"):
        losses.vicreg(*torch.randn(2, 3, 4, 1))
    with pytest.raises(ValueError, match="at least one observation"):
        losses.contrastive(torch.rand(0, 4, 3), torch.rand(0, 4, 3))


@pytest.mark.parametrize("size", [1e-12, 1e-7, 1e6])
def test_the_size_of_coefficients_makes_no_difference_to_losses_of_invariants(generator, size):
    a = torch.randn(6, 5, 4, generator=generator, dtype=torch.float64)
    b = a + 0.1 * torch.randn(6, 5, 4, generator=generator, dtype=torch.float64)
    for loss in (losses.contrastive, losses.vicreg):
        torch.testing.assert_close(loss(size * a, size * b), loss(a, b))
        zero = torch.zeros(4, 5, 3, requires_grad=True)
        loss(zero, zero).backward()
        assert zero.grad.isfinite().all()


@pytest.mark.parametrize("loss", [losses.contrastive, losses.vicreg])
@pytest.mark.parametrize("size", [1.0, 1e10, 1e17])
def test_losses_of_large_invariants_whose_squares_overflow(generator, loss, size):
    a, b = torch.randn(2, 6, 5, 4, generator=generator)
    assert loss(size * a, size * b).item() == pytest.approx(loss(a.double(), b.double()).item(), rel=1e-5)


def test_nothing_has_no_mean():
    a = torch.zeros(0, 3, 2)
    with pytest.raises(ValueError, match="nothing to take a mean over"):
        losses.equivariance(a, a, tau=torch.zeros(0, 3, 3))
    with pytest.raises((ValueError, TypeCheckError)):  # they would broadcast
        losses.completion(torch.zeros(1, 4, 3), torch.zeros(5, 4, 3))
