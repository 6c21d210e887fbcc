"""Solvers: planted isometries, commutation with Λ, duality of directions, limits and gradients."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, vmap

import niso
from niso.functional_map import eigenvalue_blocks

# PyTorch loads its forward mode by its own deprecated torch.jit.script
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")

MULTIPLICITIES = [(1, 1, 1, 1, 1, 1), (3, 1, 2), (2, 2, 2), (6,), (1, 3, 1, 1)]


def orthogonal(n):
    return torch.linalg.qr(torch.randn(n, n, dtype=torch.float64)).Q


def spectrum_with(multiplicities, gap=1.0, shuffled=False):
    """Eigenvalues with the given multiplicities, `gap` apart, and a random orthogonal map that commutes with them."""
    values = torch.cat([torch.full((m,), gap * i, dtype=torch.float64) for i, m in enumerate(multiplicities)])
    tau = torch.block_diag(*[orthogonal(m) for m in multiplicities])
    order = torch.randperm(len(values)) if shuffled else torch.arange(len(values))
    return values[order], tau[order][:, order]


def as_spectrum(values):
    n = len(values)
    return niso.Spectrum(torch.ones(n, dtype=values.dtype), torch.eye(n, dtype=values.dtype), values)


@pytest.mark.parametrize("multiplicities", MULTIPLICITIES)
@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_planted_isometry_is_recovered(multiplicities, mask, batch, dtype, tolerance):
    values, planted = spectrum_with(multiplicities, gap=60.0, shuffled=True)
    a = torch.randn(*batch, 6, 20, dtype=torch.float64)
    b = planted @ a
    tau = niso.isometric_map(a.to(dtype), b.to(dtype), values.to(dtype), mask=mask)
    assert tau.dtype == dtype and tau.shape == (*batch, 6, 6)
    torch.testing.assert_close(tau, planted.to(dtype).expand_as(tau), rtol=0, atol=10 * tolerance)
    niso.testing.assert_isometry(tau, as_spectrum(values), tolerance=10 * tolerance)


@given(
    rank=st.integers(1, 6),
    channels=st.integers(0, 6),
    batch=st.lists(st.integers(0, 3), max_size=2),
    mask=st.sampled_from(["soft", "exact", None]),
    special=st.booleans(),
)
def test_orthogonal_for_every_shape(rank, channels, batch, mask, special):
    a, b = torch.randn(2, *batch, rank, channels, dtype=torch.float64)
    values = torch.randint(0, 3, (rank,)).double()
    tau = niso.isometric_map(a, b, values, mask=mask, special=special)
    assert tau.shape == (*batch, rank, rank)
    if tau.numel():
        niso.testing.assert_isometry(tau, as_spectrum(values) if mask == "exact" else None, tolerance=1e-10)
    if special:
        torch.testing.assert_close(torch.linalg.det(tau), torch.ones(batch, dtype=torch.float64))


@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("special", [False, True])
def test_the_reverse_map_is_the_transpose(mask, special, dtype, tolerance):
    a, b = torch.randn(2, 3, 6, 9, dtype=dtype)
    values = torch.tensor([0, 0, 0, 1, 1, 2], dtype=dtype)
    forth = niso.isometric_map(a, b, values, mask, special)
    back = niso.isometric_map(b, a, values, mask, special)
    torch.testing.assert_close(forth, back.mT, rtol=0, atol=20 * tolerance)


@pytest.mark.parametrize("channels", [1, 2, 9])
def test_exact_map_is_the_best_commuting_one_also_for_few_channels(channels):
    values, _ = spectrum_with((3, 1, 2), shuffled=True)
    a, b = torch.randn(2, 6, channels, dtype=torch.float64)
    tau = niso.isometric_map(a, b, values, mask="exact")
    niso.testing.assert_isometry(tau, as_spectrum(values), tolerance=1e-12)
    blocks = values[:, None] == values[None, :]
    assert (tau[~blocks] == 0).all()
    best = (tau @ a - b).norm()
    for _ in range(200):
        raw = torch.where(blocks, torch.randn(6, 6, dtype=torch.float64), 0)
        other = niso.polar(raw)
        assert (other[~blocks].abs() < 1e-9).all()
        assert best <= (other @ a - b).norm() + 1e-12


def test_one_projection_of_the_masked_matrix_is_the_same_at_full_rank_only():
    """Why the exact solver goes block by block: in eq. 18 null spaces of different blocks may mix."""
    values, _ = spectrum_with((3, 3))
    blocks = (values[:, None] == values[None, :]).double()
    a, b = torch.randn(2, 6, 9, dtype=torch.float64)
    once = niso.polar(blocks * niso.cross_covariance(a, b))
    torch.testing.assert_close(once, niso.isometric_map(a, b, values, "exact"))

    line = torch.eye(6, dtype=torch.float64)[:, [0]]  # rank 1 in the first block, 0 in the second
    mixed = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q  # as good a null space as any
    once = line @ line.mT + torch.nn.functional.pad(mixed, (1, 0, 1, 0))
    exact = niso.isometric_map(line, line, values, "exact")
    assert (once @ line - line).norm() < 1e-12 and (exact @ line - line).norm() < 1e-12
    niso.testing.assert_isometry(exact, as_spectrum(values))
    with pytest.raises(AssertionError, match="τΛ"):
        niso.testing.assert_isometry(once, as_spectrum(values))


def test_soft_map_tends_to_the_exact_one_as_gaps_grow():
    a, b = torch.randn(2, 6, 9, dtype=torch.float64)
    errors = []
    for gap in (1.0, 4.0, 16.0, 64.0):
        values, _ = spectrum_with((3, 1, 2), gap)
        soft, exact = (niso.isometric_map(a, b, values, mask) for mask in ("soft", "exact"))
        errors.append((soft - exact).norm().item())
    assert errors[0] > 1e-2 and errors[-1] < 1e-12
    assert all(later < earlier for earlier, later in pairwise(errors))


def test_soft_map_is_procrustes_for_equal_eigenvalues():
    a, b = torch.randn(2, 5, 8, dtype=torch.float64)
    values = torch.full((5,), 3.0, dtype=torch.float64)
    torch.testing.assert_close(niso.isometric_map(a, b, values), niso.isometric_map(a, b, values, mask=None))


def test_soft_mask_entries():
    mask = niso.multiplicity_mask(torch.tensor([0.0, 1.0, 3.0]))
    e = torch.e
    expected = torch.tensor([[1, 1 / e, e**-3], [1 / e, 1, e**-2], [e**-3, e**-2, 1]])
    torch.testing.assert_close(mask, expected)
    assert niso.multiplicity_mask(torch.rand(3).bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_no_mask_or_classical_map_of_eigenvalues_that_are_not_finite(wrong, dtype):
    good, bad = torch.arange(3, dtype=dtype), torch.tensor([0.0, 1.0, wrong], dtype=dtype)
    a = torch.randn(3, 4, dtype=dtype)
    calls = [
        lambda: niso.multiplicity_mask(bad),
        lambda: niso.commuting_map(a, a, bad, good),
        lambda: niso.commuting_map(a, a, good, bad),
    ]
    for call in calls:
        with pytest.raises(FloatingPointError, match="eigenvalues hold NaN or infinite entries"):
            call()
    assert vmap(niso.multiplicity_mask)(good[None]).shape == (1, 3, 3)  # where they cannot be looked at


def test_exact_maps_of_batched_eigenvalues_are_refused():
    a, values = torch.randn(2, 3, 4), torch.arange(3.0)
    with pytest.raises(NotImplementedError, match=r"^torch\.func\.vmap cannot batch the eigenvalues of exact maps$"):
        vmap(lambda v: niso.isometric_map(a, a, v, "exact"))(values[None])
    assert vmap(lambda a: niso.isometric_map(a, a, values, "exact"))(a).shape == (2, 3, 3)


@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("special", [False, True])
def test_gradients(mask, special):
    a, b = (torch.randn(4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    values = torch.tensor([0.0, 0.0, 1.0, 2.5], dtype=torch.float64)
    assert gradcheck(lambda a, b: niso.isometric_map(a, b, values, mask, special), (a, b))
    if mask == "soft":
        distinct = torch.tensor([0.0, 0.4, 1.0, 2.5], dtype=torch.float64, requires_grad=True)
        assert gradcheck(lambda v: niso.isometric_map(a, b, v, mask, special), distinct)


@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("special", [False, True])
def test_torch_func(mask, special):
    """Under vmap, in both modes, and twice."""
    a, b = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    values = torch.tensor([0.0, 0.0, 1.0, 2.5], dtype=torch.float64)

    def solve(a, b, values=values):
        return niso.isometric_map(a, b, values, mask, special)

    def scalar(a, b):
        return solve(a, b)[0].sum()

    torch.testing.assert_close(vmap(solve)(a, b), solve(a, b))
    torch.testing.assert_close(vmap(solve, in_dims=(0, None))(a, b[0]), solve(a, b[0].expand_as(a)))
    for argument in range(2):
        backward = vmap(jacrev(solve, argument))(a, b)
        torch.testing.assert_close(vmap(jacfwd(solve, argument))(a, b), backward)
        leaf = [a[1].clone().requires_grad_(), b[1].clone().requires_grad_()]
        (expected,) = torch.autograd.grad(scalar(*leaf), leaf[argument])
        torch.testing.assert_close(vmap(grad(scalar, argument))(a, b)[1], expected)
    distinct = torch.tensor([0.0, 0.4, 1.0, 2.5], dtype=torch.float64)
    over_values = [mode(solve, 2)(a, b, distinct) for mode in (jacrev, jacfwd)]
    torch.testing.assert_close(*over_values)
    torch.testing.assert_close(vmap(hessian(scalar))(a, b)[2], hessian(scalar)(a[2], b[2]))
    assert gradgradcheck(scalar, (a[0].requires_grad_(), b[0].requires_grad_()))


def test_equivariance_under_a_change_of_basis():
    """Solved in rotated bases, the unmasked map is the same map: Q_b τ Q_aᵀ."""
    a, b = torch.randn(2, 5, 8, dtype=torch.float64)
    qa, qb, values = orthogonal(5), orthogonal(5), torch.zeros(5, dtype=torch.float64)
    plain = niso.isometric_map(a, b, values, None)
    torch.testing.assert_close(niso.isometric_map(qa @ a, qb @ b, values, None), qb @ plain @ qa.mT)


def test_covariances_add_up():
    a, b = torch.randn(2, 3, 5, 2, dtype=torch.float64)
    values = torch.arange(5).double()
    stacked = [x.transpose(0, 1).flatten(1) for x in (a, b)]  # the same pairs as channels of one
    total = niso.cross_covariance(a, b).sum(0)
    torch.testing.assert_close(total, niso.cross_covariance(*stacked))
    torch.testing.assert_close(niso.isometric_map_from_covariance(total, values), niso.isometric_map(*stacked, values))


def test_damping_reaches_the_gradient():
    a, b = torch.randn(2, 4, 6)
    values = torch.tensor([0.0, 0.0, 1.0, 2.0])
    for mask in ("soft", "exact", None):
        grads = []
        for damping in (0.0, 10.0):
            x = a.clone().requires_grad_()
            (niso.isometric_map(x, b, values, mask, damping=damping)[0].sum()).backward()
            grads.append(x.grad)
        assert (grads[0] - grads[1]).norm() > 1e-3 * grads[0].norm()


@pytest.mark.parametrize("mask", ["soft", "exact", None])
def test_float32_under_autocast_and_for_half_inputs(mask):
    a, b = torch.randn(2, 3, 6, 8)
    values = torch.tensor([0.0, 0, 1, 1, 2, 3])
    plain = niso.isometric_map(a, b, values, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = niso.isometric_map(a, b, values, mask)
        assert niso.cross_covariance(a, b).dtype == torch.float32
    torch.testing.assert_close(inside, plain, rtol=0, atol=0)
    half = niso.isometric_map(a.bfloat16(), b.bfloat16(), values, mask)
    torch.testing.assert_close(half, niso.isometric_map(a.bfloat16().float(), b.bfloat16().float(), values, mask))
    assert niso.isometric_map(a.double(), b.double(), values, mask).dtype == torch.float64


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_eigenvalues_that_are_not_finite_are_refused(wrong):
    """They would otherwise join all eigenvalues in one block."""
    a, b = torch.randn(2, 4, 6)
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        niso.isometric_map(a, b, torch.tensor([0.0, 1.0, 2.0, wrong]), "exact")


@pytest.mark.parametrize("mask", ["soft", "exact", None])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_covariances_that_are_not_finite_are_refused_wherever_that_is(mask, wrong):
    covariance, values = torch.eye(3).repeat(2, 1, 1), torch.tensor([0.0, 1.0, 2.0])
    covariance[1, 0, 2] = wrong  # outside of all blocks
    with pytest.raises(FloatingPointError, match=r"matrices \[1\] of 2 hold NaN or infinite"):
        niso.isometric_map_from_covariance(covariance, values, mask)


def test_a_commuting_map_of_nothing_is_zero():
    a, values = torch.zeros(4, 6), torch.tensor([0.0, 1.0, 2.0, 5.0])
    assert (niso.commuting_map(a, torch.randn(4, 6), values, values) == 0).all()


def test_eigenvalue_blocks():
    values = torch.tensor([2.0, 0.0, 2.0 + 1e-7, 5.0, 0.0, 2.0])
    blocks = {tuple(sorted(row)) for group in eigenvalue_blocks(values) for row in group.tolist()}
    assert blocks == {(3,), (1, 4), (0, 2, 5)}
    assert [tuple(g.shape) for g in eigenvalue_blocks(values)] == [(1, 1), (1, 2), (1, 3)]
    coarse = eigenvalue_blocks(values, tolerance=1.0)
    assert [tuple(g.shape) for g in coarse] == [(1, 6)]
    assert [tuple(g.shape) for g in eigenvalue_blocks(values.round(), tolerance=0.0)] == [(1, 1), (1, 2), (1, 3)]
    small = torch.tensor([0.0, 5e-7, 0.1])  # and absolute for small ones
    assert [tuple(g.shape) for g in eigenvalue_blocks(small)] == [(1, 1), (1, 2)]
    large = torch.tensor([1e6, 1e6 + 0.5])  # the tolerance is relative for large spectra
    assert [tuple(g.shape) for g in eigenvalue_blocks(large)] == [(1, 2)]


@pytest.mark.parametrize("channels", [3, 12])
def test_least_squares(channels):
    a = torch.randn(2, 5, channels, dtype=torch.float64)
    planted = torch.randn(5, 5, dtype=torch.float64)
    b = planted @ a
    tau = niso.least_squares_map(a, b, ridge=1e-12)
    torch.testing.assert_close(tau @ a, b, rtol=0, atol=1e-6)
    if channels >= 5:
        torch.testing.assert_close(tau, planted.expand_as(tau), rtol=0, atol=1e-6)
    ridge = 0.3
    tau = niso.least_squares_map(a, b, ridge=ridge)
    gram = a @ a.mT
    r = ridge * gram.diagonal(dim1=-2, dim2=-1).mean(-1)
    residual = (tau @ a - b) @ a.mT + r[:, None, None] * tau  # the normal equations
    torch.testing.assert_close(residual, torch.zeros_like(residual), rtol=0, atol=1e-10)


def test_least_squares_under_torch_func():
    a, b = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(vmap(niso.least_squares_map)(a, b), niso.least_squares_map(a, b))
    backward = vmap(jacrev(niso.least_squares_map))(a, b)
    for x, y, expected in zip(a, b, backward, strict=True):  # not vmap(jacfwd), which torch.linalg.solve gets wrong
        torch.testing.assert_close(jacfwd(niso.least_squares_map)(x, y), expected)


def test_least_squares_without_a_ridge_need_as_many_channels_as_the_rank():
    a = torch.eye(3)[:, :2]
    with pytest.raises(torch.linalg.LinAlgError):
        niso.least_squares_map(a, a, ridge=0.0)


def test_least_squares_of_zero_is_zero(dtype):
    zero = torch.zeros(5, 3, dtype=dtype)
    assert niso.least_squares_map(zero, zero).abs().max() == 0


def test_unknown_mask():
    a = torch.randn(3, 4)
    with pytest.raises((ValueError, TypeCheckError), match="mask"):
        niso.isometric_map(a, a, torch.zeros(3), mask="hard")


def test_the_classical_map_recovers_a_diagonal_map_and_obeys_the_commutator():
    values = torch.arange(6.0).double()
    signs = torch.tensor([1.0, -1, 1, 1, -1, 1]).double()
    a = torch.randn(2, 6, 4).double()
    found = niso.commuting_map(a, signs[:, None] * a, values, values, weight=1.0)
    torch.testing.assert_close(found, torch.diag(signs).expand(2, 6, 6), atol=1e-4, rtol=0)
    b = torch.randn(2, 6, 4).double()  # Laplacians are negative in some conventions
    torch.testing.assert_close(niso.commuting_map(a, b, -values, -values), niso.commuting_map(a, b, values, values))
    full = torch.randn(6, 9).double()
    target = torch.randn(5, 6).double()
    close = niso.commuting_map(full, target @ full, values, values[:5], weight=1e-9)
    torch.testing.assert_close(close, target, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="weight must be positive, got 0"):
        niso.commuting_map(full, full, values, values, weight=0.0)


def test_unconstrained_maps_are_solved_in_float64():
    """Two functions on forty eigenfunctions: the Gram matrix is singular up to its regulariser."""
    torch.manual_seed(0)
    values = torch.arange(7.0).repeat_interleave(torch.tensor([1, 3, 5, 7, 9, 11, 4]))
    a, b = torch.randn(2, 40, 2).unbind()
    a[:, 0] *= 1e3
    wide = a.double(), b.double()
    for found, exact in (
        (niso.least_squares_map(a, b), niso.least_squares_map(*wide)),
        (niso.commuting_map(a, b, values, values), niso.commuting_map(*wide, values.double(), values.double())),
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, exact.float())


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_maps_of_nothing_are_zero_with_finite_gradients(dtype, share):
    a = torch.full((2, 3, 4), share * torch.finfo(dtype).tiny ** 0.5, dtype=dtype)
    a[1] = torch.randn(3, 4, dtype=dtype)
    a.requires_grad_()
    b = torch.randn(2, 3, 4, dtype=dtype)
    values = torch.arange(3, dtype=dtype)
    for tau in (niso.least_squares_map(a, b), niso.commuting_map(a, b, values, values)):
        (gradient,) = torch.autograd.grad(tau.sum(), a)
        assert not tau[0].any() and tau[1].any() and gradient.isfinite().all()


@pytest.mark.parametrize("size", [1e-13, 1e9])
def test_maps_do_not_depend_on_the_unit_of_coefficients(dtype, size):
    a, b = torch.randn(2, 5, 3, 4, dtype=dtype)
    values = torch.arange(3, dtype=dtype)
    for solve in (niso.least_squares_map, lambda a, b: niso.commuting_map(a, b, values, values)):
        torch.testing.assert_close(solve(size * a, size * b), solve(a, b))


@pytest.mark.parametrize("which", [0, 1])
def test_maps_of_nan_are_nan_and_those_of_others_are_not(dtype, which):
    views = torch.randn(2, 5, 3, 4, dtype=dtype)
    views[which, 2, 0, 0] = torch.nan
    values = torch.arange(3, dtype=dtype)
    for tau in (niso.least_squares_map(*views), niso.commuting_map(*views, values, values)):
        assert tau.isnan().flatten(1).any(1).tolist() == [False, False, True, False, False]
