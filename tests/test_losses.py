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
    assert losses.equivariance(tau, a, b, "forward").item() == 3
    assert losses.equivariance(tau, a, b).item() == 6
    assert losses.equivariance(tau, a, tau @ a).item() == 0


def test_equivariance_is_a_mean_over_the_batch(dtype):
    tau = torch.linalg.qr(torch.randn(4, 3, 3, dtype=dtype)).Q
    a, b = torch.randn(2, 4, 3, 5, dtype=dtype)
    each = torch.stack([losses.equivariance(*one) for one in zip(tau, a, b, strict=True)])
    torch.testing.assert_close(losses.equivariance(tau, a, b), each.mean())


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
    plain = losses.equivariance(tau, a, b), losses.multiplicity(values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (losses.equivariance(tau, a, b), losses.multiplicity(values)) == plain
