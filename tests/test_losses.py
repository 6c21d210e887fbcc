"""Loss terms against hand-computed values."""

import math

import pytest
import torch
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


def test_reconstruction_by_hand():
    prediction, target = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 5.0]])
    assert losses.reconstruction(prediction, target).item() == 2
    assert losses.reconstruction(prediction.bfloat16(), target.bfloat16()).dtype == torch.float32


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
