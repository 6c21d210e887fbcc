import pytest
import torch

from niso.methods.block_diagonal import block_diagonal_loss, block_diagonalise, block_order


def planes(count: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Block-diagonal maps of independent rotations of size / 2 planes."""
    angle = 2 * torch.pi * torch.rand(count, size // 2, dtype=dtype)
    maps = torch.zeros(count, size, size, dtype=dtype)
    even = torch.arange(0, size, 2)
    maps[:, even, even] = maps[:, even + 1, even + 1] = angle.cos()
    maps[:, even, even + 1] = angle.sin()
    maps[:, even + 1, even] = -angle.sin()
    return maps


def share_in_planes(v: torch.Tensor) -> float:
    blocks = torch.block_diag(*[torch.ones(2, 2, dtype=v.dtype)] * (v.shape[-1] // 2))
    return float((v * blocks).square().sum() / v.square().sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_common_blocks_of_commuting_rotations_are_found(dtype):
    torch.manual_seed(0)
    blocks = planes(64, 4, dtype)
    mixing = torch.linalg.qr(torch.randn(4, 4, dtype=dtype))[0]
    mixing = mixing + 0.1 * torch.randn(4, 4, dtype=dtype)
    maps = torch.linalg.solve(mixing, blocks @ mixing)
    assert share_in_planes(maps) < 0.9
    bases = [block_diagonalise(maps, seed=seed) for seed in range(6)]  # some starts end in poor minima
    basis = min(bases, key=lambda basis: block_diagonal_loss(maps, basis))
    assert basis.dtype == dtype
    assert share_in_planes(torch.linalg.solve(basis, maps @ basis)) > 0.999  # the blocks lie side by side, too
    assert block_diagonal_loss(maps, basis) < 1.05 * block_diagonal_loss(blocks, torch.eye(4, dtype=dtype))


def test_loss_is_the_trace_norm_of_the_normalised_laplacian():
    torch.manual_seed(0)
    maps, basis = torch.randn(3, 5, 5, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    norms = []
    for m in maps:
        v = (torch.linalg.inv(basis) @ m @ basis).abs()
        a = v.T @ v
        d = torch.diag(a.sum(1) ** -0.5)
        norms.append(torch.linalg.matrix_norm(torch.eye(5, dtype=torch.float64) - d @ a @ d, "nuc"))
    torch.testing.assert_close(block_diagonal_loss(maps, basis), torch.stack(norms).mean())


def test_loss_is_zero_for_diagonal_maps_and_blind_to_permutations():
    identity = torch.eye(4, dtype=torch.float64)
    diagonal = torch.diag_embed(torch.rand(3, 4, dtype=torch.float64) + 0.5)
    assert block_diagonal_loss(diagonal, identity).abs() < 1e-12
    maps = torch.randn(3, 4, 4, dtype=torch.float64)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(block_diagonal_loss(maps, identity), block_diagonal_loss(maps, identity[:, order]))
    assert 0 < block_diagonal_loss(maps, identity) < 3


def test_loss_of_maps_that_lose_a_direction_is_a_number():
    maps = torch.diag(torch.tensor([1.0, 2.0, 0.0]))[None]
    assert block_diagonal_loss(maps, torch.eye(3)).item() == pytest.approx(1)


def test_loss_gradcheck():
    torch.manual_seed(0)
    maps = torch.randn(2, 3, 3, dtype=torch.float64)
    basis = torch.eye(3, dtype=torch.float64) + 0.1 * torch.randn(3, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda u: block_diagonal_loss(maps, u), basis.requires_grad_())


def test_same_seed_same_basis_and_global_generators_are_left_alone():
    maps = planes(16, 4, torch.float32)
    state = torch.get_rng_state()
    first, second = (block_diagonalise(maps, epochs=2, seed=3) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first, block_diagonalise(maps, epochs=2, seed=4))


def test_the_best_epoch_is_kept(monkeypatch):
    monkeypatch.setattr("niso.methods.block_diagonal.LEARNING_RATE", 0.5)  # so that the second one is worse
    torch.manual_seed(0)
    maps = torch.randn(6, 4, 4, dtype=torch.float64)
    first, second, third = (block_diagonalise(maps, epochs) for epochs in (1, 2, 3))
    assert torch.equal(first, second) and not torch.equal(second, third)
    assert block_diagonal_loss(maps, third) < block_diagonal_loss(maps, second)


def test_inside_no_grad_too():
    with torch.no_grad():
        basis = block_diagonalise(planes(8, 4, torch.float32), epochs=2)
    assert not basis.requires_grad


def test_order_gathers_blocks():
    torch.manual_seed(0)
    maps, shuffle = planes(16, 8, torch.float64), torch.randperm(8)
    mixed = maps[:, shuffle][:, :, shuffle]
    order = block_order(mixed)
    assert sorted(order.tolist()) == list(range(8))
    assert share_in_planes(mixed[:, order][:, :, order]) == 1
    assert block_order(torch.ones(1, 1, 1)).tolist() == [0]


def test_bad_input_is_named():
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        block_diagonalise(torch.full((2, 3, 3), torch.nan))
    with pytest.raises(ValueError, match="at least one"):
        block_diagonalise(torch.randn(0, 3, 3))
    with pytest.raises(ValueError, match="at least one"):
        block_diagonalise(torch.randn(2, 3, 3), epochs=0)
