"""Metrics against hand-computed cases and a Monte-Carlo permutation."""

import math

import pytest
import torch

from niso import metrics
from niso.spectrum import Spectrum


def orthogonal(*shape):
    return torch.linalg.qr(torch.randn(*shape, dtype=torch.float64)).Q


def test_equivariance_error_by_hand(dtype):
    tau = torch.eye(2, dtype=dtype).expand(2, 2, 2)
    a = torch.tensor([[[1.0], [2.0]], [[0.0], [3.0]]], dtype=dtype)
    b = torch.tensor([[[1.0], [4.0]], [[4.0], [3.0]]], dtype=dtype)
    torch.testing.assert_close(metrics.equivariance_error(a, b, tau=tau), torch.tensor([4 / 17, 16 / 25], dtype=dtype))
    common = torch.tensor([[[0.0], [3.0]]], dtype=dtype)
    centred = metrics.equivariance_error(a, b, tau=tau, common=common)
    torch.testing.assert_close(centred, torch.tensor([4 / 2, 16 / 16], dtype=dtype))


@pytest.mark.parametrize("size", [1e-36, 3e38])
def test_errors_of_the_smallest_and_the_largest_numbers(size):
    b = size * torch.tensor([[[1.0], [0.5]]])
    torch.testing.assert_close(metrics.transport_error(0.5 * b, b), torch.tensor([0.25]))


def test_centred_error_ignores_a_constant_offset_that_the_plain_one_hides_behind():
    tau = torch.eye(3, dtype=torch.float64).expand(4, 3, 3)
    a, b = torch.randn(2, 4, 3, 2, dtype=torch.float64)
    offset = 100 * torch.ones(1, 3, 1, dtype=torch.float64)
    centred = metrics.equivariance_error(a + offset, b + offset, tau=tau, common=offset)
    torch.testing.assert_close(centred, metrics.equivariance_error(a, b, tau=tau))
    assert (metrics.equivariance_error(a + offset, b + offset, tau=tau) < 1e-2 * centred).all()


def test_relative_errors_do_not_depend_on_the_size_of_latents(dtype):
    (a, b), (tau, other) = torch.randn(2, 3, 4, 2, dtype=dtype), torch.randn(2, 3, 4, 4, dtype=dtype)
    error, composed = metrics.equivariance_error(a, b, tau=tau), metrics.composition_error(tau, tau, other)
    torch.testing.assert_close(error, (tau @ a - b).square().sum((-2, -1)) / b.square().sum((-2, -1)))
    half = {torch.float32: 64, torch.float64: 512}[dtype]
    for size in (2.0 ** (-half - 10), 2.0 ** (half + 10)):  # whose squares are 0 or infinite
        sized = metrics.equivariance_error(size * a, size * b, tau=tau, common=torch.zeros_like(b))
        torch.testing.assert_close(sized, error, rtol=0, atol=0)
    few = metrics.composition_error(size * tau, tau, size * other)
    torch.testing.assert_close(few, composed, rtol=0, atol=0)
    assert not metrics.equivariance_error(a, 0 * b, tau=tau).isfinite().any()


def test_relative_map_error_tells_a_map_of_the_transformation_from_a_map_of_the_pair():
    """Any pair of square latents is fitted by some matrix, which fails on another pair under the same T."""
    (a, other), planted = torch.randn(2, 3, 4, 4, dtype=torch.float64), orthogonal(3, 4, 4)
    b, other_b = planted @ a, planted @ other + torch.randn(3, 4, 4, dtype=torch.float64)
    fitted = torch.linalg.solve(other, other_b, left=False)
    assert (metrics.equivariance_error(other, other_b, tau=fitted) < 1e-15).all()
    assert (metrics.relative_map_error(a, b, tau_other=fitted) > 1e-2).all()
    assert (metrics.relative_map_error(a, b, tau_other=planted) < 1e-15).all()
    common = torch.ones(4, 1, dtype=torch.float64)
    expected = (fitted @ a - b).square().sum((-2, -1)) / (b - common).square().sum((-2, -1))
    torch.testing.assert_close(metrics.relative_map_error(a, b, tau_other=fitted, common=common), expected)


def test_equivariance_error_under_autocast():
    tau, (a, b) = orthogonal(2, 8, 8).float(), torch.randn(2, 2, 8, 5)
    plain = metrics.equivariance_error(a, b, tau=tau)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(metrics.equivariance_error(a, b, tau=tau), plain, rtol=0, atol=0)


@pytest.mark.parametrize("uniform", [True, False])
def test_eigenspace_energy_of_a_complete_set_sums_to_one(uniform):
    points = 9
    mass = torch.ones(points, dtype=torch.float64) if uniform else 0.2 + torch.rand(points, dtype=torch.float64)
    root = mass.sqrt()[:, None]
    truth = orthogonal(points, points) / root  # M-orthonormal
    spaces = torch.tensor([0, 1, 1, 2, 2, 2, 3, 3, 3])
    for space in range(4):  # any basis of a subspace will do
        chosen = spaces == space
        truth[:, chosen] = truth[:, chosen] @ torch.randn(int(chosen.sum()), int(chosen.sum()), dtype=torch.float64)
    phi = orthogonal(points, points)[:, :5] / root
    energy = metrics.eigenspace_energy(mass, phi, truth, spaces)
    assert energy.shape == (5, 4)
    assert (energy >= 0).all()
    torch.testing.assert_close(energy.sum(-1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(metrics.eigenspace_energy(3 * mass, -2 * phi, truth, spaces), energy)


def test_eigenspace_energy_by_hand():
    mass = torch.tensor([1.0, 1.0, 4.0])
    truth = torch.eye(3)
    phi = torch.tensor([[3.0, 0.0], [4.0, 0.0], [0.0, 0.5]])
    energy = metrics.eigenspace_energy(mass, phi, truth, torch.tensor([0, 1, 1]))
    torch.testing.assert_close(energy, torch.tensor([[9 / 25, 16 / 25], [0.0, 1.0]], dtype=torch.float64))
    skipped = metrics.eigenspace_energy(mass, phi, truth, torch.tensor([0, 2, 2]))  # no column of space 1
    torch.testing.assert_close(skipped[:, [0, 2]], energy)
    assert (skipped[:, 1] == 0).all()


def test_eigenspace_energy_uses_the_mass():
    mass, truth = torch.tensor([1.0, 3.0]), torch.eye(2)
    energy = metrics.eigenspace_energy(mass, torch.ones(2, 1), truth, torch.tensor([0, 1]))
    torch.testing.assert_close(energy, torch.tensor([[0.25, 0.75]], dtype=torch.float64))


def test_block_energy_by_hand(dtype):
    tau = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [0.0, 0.0, 1.0]], dtype=dtype)
    share, chance = metrics.block_energy(tau, torch.tensor([0, 0, 1]))
    assert share.item() == pytest.approx(7 / 16)
    assert chance.item() == pytest.approx((3 + 13 / 3) / 16)  # a third of the six off-diagonal places


@pytest.mark.parametrize("spaces", [[0, 0, 1, 1, 1, 2, 3], [0] * 7, list(range(7))])
def test_block_energy_chance_is_the_mean_over_permutations(spaces):
    tau, spaces = torch.randn(2, 7, 7), torch.tensor(spaces)
    _, chance = metrics.block_energy(tau, spaces)
    draws = torch.stack([metrics.block_energy(tau, spaces[torch.randperm(7)])[0] for _ in range(2000)])
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - chance).abs() <= 4 * error + 1e-9).all()


def test_block_energy_of_block_diagonal_and_rank_one():
    tau = torch.block_diag(orthogonal(2, 2), orthogonal(3, 3))
    share, _ = metrics.block_energy(tau[None], torch.tensor([0, 0, 1, 1, 1]))
    assert share.tolist() == pytest.approx([1.0])
    share, chance = metrics.block_energy(torch.ones(1, 1), torch.tensor([0]))
    assert (share.item(), chance.item()) == (1, 1)


def test_constant_part_is_all_of_a_constant_and_nothing_of_what_has_no_mean():
    mass = 0.2 + torch.rand(6, dtype=torch.float64)
    root = mass.sqrt()[:, None]
    spectrum = Spectrum(mass, orthogonal(6, 6) / root, torch.arange(6.0))
    constant = torch.tensor([2.0, -1.0, 0.5]).double().expand(3, 6, 3)
    torch.testing.assert_close(metrics.constant_part(spectrum, constant), spectrum.project(constant))
    z = torch.randn(3, 6, 3, dtype=torch.float64)
    z = z - (mass[:, None] * z).sum(1, keepdim=True) / mass.sum()
    torch.testing.assert_close(metrics.constant_part(spectrum, z + constant), spectrum.project(constant))


def test_matched_spaces_fill_no_space_beyond_its_dimension():
    energy = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]])
    assert metrics.matched_spaces(energy, torch.tensor([1, 2])).tolist() == [0, 1, 1]
    assert metrics.matched_spaces(energy, torch.tensor([2, 2])).tolist() == [0, 0, 1]
    assert metrics.matched_spaces(energy[:1], torch.tensor([1, 2])).tolist() == [0]
    assert metrics.matched_spaces(energy[:2], torch.tensor([1, 4])).tolist() == [0, 1]  # fewer than dimensions
    assert metrics.matched_spaces(energy, torch.tensor([0, 3])).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="3 eigenfunctions do not fit into subspaces of 2 dimensions"):
        metrics.matched_spaces(energy, torch.tensor([1, 1]))
    with pytest.raises(ValueError, match="must not be negative"):
        metrics.matched_spaces(energy, torch.tensor([5, -1]))


def test_clusters_of_eigenvalues():
    labels = metrics.clusters(torch.tensor([5.0, 0.0, 0.6, 5.1, 1.2]))
    assert labels.tolist() == [1, 0, 0, 1, 0]
    assert metrics.clusters(torch.tensor([0.0, 0.6]), gap=0.5).tolist() == [0, 1]
    assert metrics.clusters(torch.tensor([0.0, 1.0, 2.5]), gap=1.0).tolist() == [0, 0, 1]
    assert metrics.clusters(torch.ones(2), gap=0.0).tolist() == [0, 0]
    assert metrics.is_cluster(labels, torch.tensor([True, False, False, True, False]))
    assert not metrics.is_cluster(labels, torch.tensor([True, False, False, False, False]))
    assert not metrics.is_cluster(labels, torch.tensor([True, True, False, True, False]))
    assert not metrics.is_cluster(labels, torch.zeros(5, dtype=torch.bool))
    assert metrics.is_cluster(torch.tensor([0, 1, 1]), torch.tensor([True, False, False]))


def test_principal_angles_by_hand(dtype):
    mass = torch.tensor([1.0, 4.0, 1.0], dtype=dtype)
    first, second = torch.tensor([[1.0], [0.0], [0.0]], dtype=dtype), torch.tensor([[1.0], [0.5], [0.0]], dtype=dtype)
    torch.testing.assert_close(
        metrics.principal_angles(mass, first, second), torch.tensor([math.pi / 4], dtype=torch.float64)
    )
    plane = torch.eye(3, dtype=dtype)[:, 1:]
    angles = metrics.principal_angles(mass, plane, second)
    torch.testing.assert_close(angles, torch.tensor([math.pi / 4], dtype=torch.float64))


def test_principal_angles_are_ascending_symmetric_and_accurate_when_small():
    mass = 0.2 + torch.rand(8, dtype=torch.float64)
    true, tilt = torch.randn(8, 3, dtype=torch.float64), 1e-10 * torch.randn(8, 3, dtype=torch.float64)
    other = torch.randn(8, 3, dtype=torch.float64)
    angles = metrics.principal_angles(mass, other, true)
    assert (angles.diff() >= 0).all() and angles.max() <= math.pi / 2
    torch.testing.assert_close(angles, metrics.principal_angles(mass, true @ torch.randn(3, 3).double(), other))
    assert 1e-12 < metrics.principal_angles(mass, true + tilt, true).max() < 1e-8
    assert metrics.principal_angles(mass, true, true).max() < 1e-14
    torch.testing.assert_close(metrics.principal_angles(mass, 1e-12 * other, true), angles)  # whatever their unit


def test_dependent_functions_have_no_angles_and_nothing_else_is_made_up():
    functions = torch.randn(6, 3)
    with pytest.raises(ValueError, match="linearly independent"):
        metrics.principal_angles(torch.ones(6), torch.ones(6, 2), functions)
    with pytest.raises(ValueError, match="3 functions at 2 points are linearly dependent"):
        metrics.principal_angles(torch.ones(2), functions[:2], functions[:2])
    with pytest.raises(ValueError, match="must be finite"):
        metrics.clusters(torch.tensor([0.0, math.nan, 3.0]))
    with pytest.raises(ValueError, match="numbered from 0"):
        metrics.eigenspace_energy(torch.ones(6), functions, functions, torch.tensor([0, -1, 1]))
    energy, dimensions = torch.eye(3), torch.ones(3, dtype=torch.long)
    assert metrics.matched_spaces(energy.bfloat16(), dimensions).tolist() == [0, 1, 2]
    with torch.device("meta"):  # a program's default
        spaces = metrics.matched_spaces(energy, dimensions)
    assert spaces.tolist() == [0, 1, 2]
