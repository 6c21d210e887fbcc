"""polar, inverse_root: values, exact and damped gradients, degenerate inputs, precision, SVDs that do not converge."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from niso.linalg import full_precision, inverse_root, matmul, polar, polar_factor, span
from niso.linalg.svd import cudagraph_unsafe

# PyTorch loads its forward mode by its own deprecated torch.jit.script
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")


def orthogonal(n, dtype=torch.float64):
    return torch.linalg.qr(torch.randn(n, n, dtype=dtype)).Q


def with_singular_values(values, n=None):
    """A float64 matrix (n, len(values)) with the given singular values, in random directions."""
    k = len(values)
    u = orthogonal(n or k)[:, :k]
    return u @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ orthogonal(k)


def gradient(function, m, upstream):
    m = m.clone().requires_grad_()
    return torch.autograd.grad(function(m), m, upstream)[0]


@given(
    batch=st.lists(st.integers(0, 3), max_size=2),
    n=st.integers(1, 6),
    k=st.integers(1, 6),
    double=st.booleans(),
    special=st.booleans(),
    rank=st.integers(0, 6),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_orthonormal_for_every_shape_rank_and_scale(batch, n, k, double, special, rank, scale):
    dtype = torch.float64 if double else torch.float32
    special = special and n == k
    m = scale * torch.randn(*batch, n, rank, dtype=dtype) @ torch.randn(*batch, rank, k, dtype=dtype)
    m.requires_grad_()
    q = polar(m, special)
    assert q.shape == m.shape and q.dtype == dtype
    gram = q.mT @ q if n >= k else q @ q.mT
    tolerance = 1e-12 if double else 1e-5
    torch.testing.assert_close(gram, torch.eye(min(n, k), dtype=dtype).expand_as(gram), rtol=0, atol=tolerance)
    if special:
        torch.testing.assert_close(torch.linalg.det(q), torch.ones(batch, dtype=dtype), rtol=0, atol=tolerance)
    q.backward(torch.randn_like(q))
    assert m.grad is not None and m.grad.isfinite().all()


def test_nearest_orthogonal_matrix():
    m = torch.randn(5, 5, dtype=torch.float64)
    distance = (polar(m) - m).norm()
    special = (polar(m, special=True) - m).norm()
    for _ in range(200):
        other = orthogonal(5)
        assert distance <= (other - m).norm()
        assert special <= (other * torch.linalg.det(other).sign() - m).norm() + 1e-12  # odd size: −Q flips det


def by_svd(m, special):
    """The polar factor by autograd through the SVD, correct at distinct singular values only."""
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    if special:  # the last direction is turned round where the determinant is −1
        sign = torch.linalg.det((u @ vh).detach()).sign()[..., None, None]
        vh = torch.cat([vh[..., :-1, :], sign * vh[..., -1:, :]], dim=-2)
    return u @ vh


@pytest.mark.parametrize(
    "shape, special",
    [
        ((3, 4, 4), False),
        ((3, 6, 4), False),
        ((3, 4, 6), False),
        ((4, 4), False),
        ((3, 4, 4), True),
        ((2, 3, 5, 5), True),
    ],
)
def test_equals_autograd_through_the_svd_at_distinct_singular_values(shape, special, dtype, tolerance):
    m = torch.randn(shape, dtype=dtype)
    upstream = torch.randn(shape, dtype=dtype)
    torch.testing.assert_close(polar(m, special), by_svd(m, special), rtol=0, atol=tolerance)
    ours = gradient(lambda x: polar(x, special), m, upstream)
    naive = gradient(lambda x: by_svd(x, special), m, upstream)
    torch.testing.assert_close(ours, naive, rtol=0, atol=100 * tolerance * naive.abs().max().item())


CASES = {
    "square": lambda: with_singular_values([3.0, 2.0, 1.0, 0.5]),
    "tall": lambda: with_singular_values([3.0, 2.0, 1.0], n=5),
    "wide": lambda: with_singular_values([3.0, 2.0, 1.0], n=5).mT.contiguous(),
    "repeated": lambda: with_singular_values([2.0, 2.0, 1.0, 1.0]),
    "tall-repeated": lambda: with_singular_values([2.0, 2.0, 2.0], n=5),
    "identity": lambda: torch.eye(4, dtype=torch.float64),
    "batch": lambda: torch.randn(2, 3, 2, dtype=torch.float64),
}


@pytest.mark.parametrize("case", CASES)
def test_gradcheck(case):
    """In both modes, and with batches of gradients and of tangents."""
    m = CASES[case]().requires_grad_()
    assert gradcheck(polar, m, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)


def test_gradcheck_of_a_rotation_at_a_singular_matrix():
    """Smooth across det = 0 in SO(k), where O(k) has a jump."""
    m = with_singular_values([3.0, 2.0, 1.0, 0.0]).requires_grad_()
    assert gradcheck(lambda x: polar(x, True), m, check_forward_ad=True)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradcheck_special_for_both_signs_of_the_determinant(sign):
    m = with_singular_values([3.0, 2.0, 2.0, 0.5])
    m = m * torch.tensor([1.0, 1.0, 1.0, sign * torch.linalg.det(m).sign().item()])
    assert torch.linalg.det(m).sign() == sign
    assert gradcheck(lambda x: polar(x, True), m.requires_grad_())


def test_gradcheck_where_only_the_range_is_seen():
    """polar(b aᵀ) has a free null space for d < k, yet its action on a is a smooth function of a and b."""
    a, b = (torch.randn(5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(lambda a, b: polar(b @ a.mT) @ a, (a, b))


@pytest.mark.parametrize("shape, special", [((4, 4), False), ((4, 4), True), ((6, 3), False)])
def test_damped_gradient_is_that_of_a_damped_svd(shape, special):
    damping = 0.3  # large, so that it matters
    m, g = torch.randn(2, *shape, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(m, full_matrices=False)
    v, sigma = vh.mT, torch.diag(s)
    d = torch.eye(len(s), dtype=s.dtype)
    if special:
        d[-1, -1] = torch.linalg.det(u @ vh).sign()
    difference = s[None, :] ** 2 - s[:, None] ** 2
    f = difference / (difference**2 + damping)
    expected = torch.zeros_like(m)
    for i in range(shape[0]):
        for j in range(shape[1]):
            dm = torch.zeros_like(m)
            dm[i, j] = 1
            p = u.mT @ dm @ v
            du = u @ (f * (p @ sigma + sigma @ p.mT))
            du = du + (dm - u @ u.mT @ dm) @ v @ torch.diag(s / (s**2 + damping))
            dv = v @ (f * (sigma @ p + p.mT @ sigma))
            expected[i, j] = (g * (du @ d @ v.mT + u @ d @ dv.mT)).sum()
    damped = gradient(lambda x: polar(x, special, damping), m, g)
    torch.testing.assert_close(damped, expected)
    exact = gradient(lambda x: polar(x, special), m, g)
    assert (damped - exact).norm() > 0.01 * exact.norm()
    nearly = gradient(lambda x: polar(x, special, 1e-14), m, g)
    torch.testing.assert_close(nearly, exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape, special", [((4, 4), False), ((4, 4), True), ((6, 3), False), ((1, 1), True)])
def test_damped_gradient_does_not_overflow(shape, special):
    m, g = torch.randn(2, *shape)
    plain = gradient(lambda x: polar(x, special, 1e-20), m, g)
    for scale in (2.0**40, 2.0**120):  # of which float32 does not hold the fourth power, nor the square
        large = gradient(lambda x: polar(x, special, 1e-8), scale * m, g)
        torch.testing.assert_close(large * scale, plain, rtol=1e-4, atol=1e-5)


def test_damped_gradient_vanishes_at_equal_singular_values():
    g = torch.randn(4, 4)
    assert gradient(lambda x: polar(x, damping=1e-8), torch.eye(4), g).abs().max() < 1e-3
    assert gradient(polar, torch.eye(4), g).abs().max() > 0.1


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (1, 1)])
@pytest.mark.parametrize("damping", [0.0, 1e-8])
def test_zero_matrix_has_a_finite_gradient(shape, damping, dtype):
    m = torch.zeros(shape, dtype=dtype)
    grad = gradient(lambda x: polar(x, damping=damping), m, torch.randn(shape, dtype=dtype))
    torch.testing.assert_close(grad, torch.zeros_like(m))


def test_scale_invariance(dtype, tolerance):
    m, g = torch.randn(2, 4, 4, dtype=dtype)
    torch.testing.assert_close(polar(m), polar(1e-6 * m), rtol=0, atol=tolerance)
    small, plain = gradient(polar, 1e-6 * m, g), gradient(polar, m, g)
    torch.testing.assert_close(1e-6 * small, plain, rtol=1e-3, atol=100 * tolerance)


@pytest.mark.parametrize("n", [8, 12])
def test_sums_of_singular_values_count_as_zero_up_to_the_rounding_of_all_rows(n, dtype):
    bound = n * torch.finfo(dtype).eps
    for sum_, zero in ((0.9 * bound, True), (1.1 * bound, False)):
        m, g = torch.zeros(2, n, 8, dtype=dtype)
        m[:8] = torch.diag(torch.tensor([1.0] * 6 + [sum_ / 2] * 2, dtype=dtype))
        g[7, 6] = 1.0
        turned = gradient(polar, m, g)
        assert turned[7, 6] == pytest.approx(0.0 if zero else 1 / sum_, rel=1e-4)


def test_a_small_matrix_of_a_batch_does_not_make_a_singular_one_regular(dtype):
    small = torch.finfo(dtype).eps
    m = torch.stack([torch.diag(torch.tensor(d, dtype=dtype)) for d in ([1e-3] * 3, [1e3, small, small])])
    g = torch.randn_like(m)
    alone = torch.stack([gradient(polar, part, upstream) for part, upstream in zip(m, g, strict=True)])
    torch.testing.assert_close(gradient(polar, m, g), alone, rtol=1e-4, atol=1e-6)
    assert alone[1].abs().max() < 1  # nothing is divided by the sum of what counts as zero


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"special=True needs square matrices, got 3×2"):
        polar(torch.randn(3, 2), special=True)
    with pytest.raises(ValueError, match="damping must not be negative"):
        polar(torch.randn(3, 3), damping=-1.0)


# -- higher derivatives and torch.func ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives(case):
    assert gradgradcheck(polar, CASES[case]().requires_grad_(), check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_second_derivatives_of_rotations(sign):
    m = with_singular_values([3.0, 2.0, 2.0, 0.5])
    m[0] *= sign * torch.linalg.det(m).sign()
    assert gradgradcheck(lambda x: polar(x, True), m.requires_grad_(), check_fwd_over_rev=True)


def test_second_derivatives_where_only_the_range_is_seen():
    a, b = (torch.randn(5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradgradcheck(lambda a, b: polar(b @ a.mT) @ a, (a, b), check_fwd_over_rev=True)


@pytest.mark.parametrize("shape, special", [((3, 2, 4, 4), True), ((3, 2, 5, 3), False), ((3, 2, 2, 4), False)])
def test_vmap_equals_the_batch(shape, special, dtype):
    m, g = torch.randn(2, *shape, dtype=dtype)

    def factor(x):
        return polar(x, special)

    expected = factor(m)
    torch.testing.assert_close(vmap(factor)(m), expected, rtol=0, atol=0)
    torch.testing.assert_close(vmap(factor, in_dims=1, out_dims=1)(m), expected, rtol=0, atol=0)
    torch.testing.assert_close(vmap(vmap(factor))(m), expected, rtol=0, atol=0)
    each = vmap(vmap(grad(lambda x, g: (factor(x) * g).sum())))(m, g)
    torch.testing.assert_close(each, gradient(factor, m, g), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(vmap(vmap(grad(lambda x, g: (factor(x) * g).sum())))(m, g), each)
    tangents = vmap(lambda x, dx: jvp(factor, (x,), (dx,))[1])(m, g)
    torch.testing.assert_close(tangents, each, rtol=1e-4, atol=1e-5)  # the derivative is symmetric


@pytest.mark.parametrize("case", CASES)
def test_jacobians_and_hessians_by_every_mode_agree(case):
    m = CASES[case]()
    jacobian = jacrev(polar)(m)
    torch.testing.assert_close(jacfwd(polar)(m), jacobian)
    torch.testing.assert_close(torch.autograd.functional.jacobian(polar, m), jacobian)
    g = torch.randn_like(m)

    def scalar(x):
        return (polar(x) * g).sin().sum()

    expected = torch.autograd.functional.hessian(scalar, m)
    for nested in (hessian(scalar), jacrev(jacrev(scalar)), jacrev(jacfwd(scalar)), jacfwd(jacfwd(scalar))):
        torch.testing.assert_close(nested(m), expected)
    torch.testing.assert_close(vmap(hessian(scalar))(torch.stack([m, m])), torch.stack([expected] * 2))


def test_third_derivatives():
    m, g, direction = torch.randn(3, 3, 3, dtype=torch.float64)
    second = hessian(lambda x: (polar(x) * g).sum())
    step = 1e-5 * direction
    difference = (second(m + step) - second(m - step)) / 2e-5
    torch.testing.assert_close(jvp(second, (m,), (direction,))[1], difference, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((jacrev(second)(m) * direction).sum((-2, -1)), difference, rtol=1e-6, atol=1e-6)


def test_damping_under_torch_func_and_its_second_derivative_refused():
    m, g = torch.randn(2, 4, 4, dtype=torch.float64)

    def scalar(x):
        return (polar(x, damping=0.3) * g).sum()

    expected = gradient(lambda x: polar(x, damping=0.3), m, g)
    torch.testing.assert_close(grad(scalar)(m), expected)
    torch.testing.assert_close(vmap(grad(scalar))(m[None])[0], expected)
    torch.testing.assert_close(jacfwd(scalar)(m), expected)
    leaf = m.clone().requires_grad_()
    (first,) = torch.autograd.grad(scalar(leaf), leaf, create_graph=True)
    torch.testing.assert_close(first, expected)
    with pytest.raises(NotImplementedError, match="second ones need damping=0"):
        first.sum().backward()
    for nested in (hessian(scalar), jacrev(jacrev(scalar)), jacfwd(jacfwd(scalar))):
        with pytest.raises(NotImplementedError, match="second ones need damping=0"):
            nested(m)


def test_torch_func_under_autocast_and_in_half_precision():
    m, g = torch.randn(2, 3, 4, 4)
    half = m.bfloat16()
    each = vmap(grad(lambda x, g: (polar(x) * g).sum()))
    expected = each(half.float(), g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert vmap(polar)(half).dtype == torch.float32
        torch.testing.assert_close(vmap(polar)(m), polar(m), rtol=0, atol=0)
        torch.testing.assert_close(each(half, g), expected.bfloat16())
        tangent = jvp(polar, (m,), (g,))[1]
    torch.testing.assert_close(tangent, jvp(polar, (m,), (g,))[1], rtol=0, atol=0)


# -- precision ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_raised(half):
    m = torch.randn(2, 4, 4).to(half).requires_grad_()
    q = polar(m)
    assert q.dtype == torch.float32
    torch.testing.assert_close(q, polar(m.float()), rtol=0, atol=0)
    q.sum().backward()
    assert m.grad.dtype == half


def test_autocast_changes_nothing_forward_or_backward():
    m, g = torch.randn(2, 3, 8, 8)
    plain, plain_grad = polar(m), gradient(polar, m, g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (m @ m).dtype == torch.bfloat16  # autocast is on
        torch.testing.assert_close(polar(m), plain, rtol=0, atol=0)
        torch.testing.assert_close(gradient(polar, m, g), plain_grad, rtol=0, atol=0)
        torch.testing.assert_close(matmul(m, g), torch.bmm(m.double(), g.double()).float())


def test_the_inverse_root_has_the_same_gradient_under_autocast():
    g, upstream = torch.randn(2, 3, 8, 8)
    g = g @ g.mT + torch.eye(8)
    plain = gradient(inverse_root, g, upstream)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(gradient(inverse_root, g, upstream), plain, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_span_is_that_of_the_columns_which_may_be_alike_or_zero(dtype):
    a = torch.randn(2, 6, 2, dtype=dtype)
    projections = span(torch.cat([a, a[..., :1], 0 * a[..., :1]], dim=-1))
    torch.testing.assert_close(projections, projections @ projections)
    torch.testing.assert_close(projections @ a, a)
    assert [round(value) for value in projections.diagonal(dim1=1, dim2=2).sum(1).tolist()] == [2, 2]
    assert not span(torch.zeros(3, 2, dtype=dtype)).any()


@pytest.mark.parametrize("values", [[3.0, 1.0, 0.5], [1.0, 1.0, 1.0], [2.0, 2.0, 0.1]])
@pytest.mark.parametrize("rows", [5, 3, 2])
def test_gradients_of_a_span_are_exact_also_at_repeated_singular_values(values, rows):
    columns = orthogonal(5)[:rows, :3] @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ orthogonal(3)
    assert gradcheck(span, columns.requires_grad_())


def test_gradients_of_a_span_where_columns_depend_on_each_other_or_are_zero():
    """Exact along changes that leave the rank as it is, and finite."""
    first, mixing = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 2), (2, 4)))
    assert gradcheck(lambda first, mixing: span(first @ mixing), (first, mixing))
    zero = torch.zeros(2, 4, 3, requires_grad=True)
    span(zero).backward(torch.randn(2, 4, 4))
    assert not zero.grad.any()


def test_full_precision_promotes_to_one_dtype():
    @full_precision
    def dtypes(*tensors, other=None):
        return [t.dtype for t in tensors], other

    half, single, double = (torch.ones(1, dtype=d) for d in (torch.bfloat16, torch.float32, torch.float64))
    integer = torch.ones(1, dtype=torch.int64)
    assert dtypes(half, half) == ([torch.float32] * 2, None)
    assert dtypes(half, double, integer) == ([torch.float64] * 2 + [torch.int64], None)
    assert dtypes(single, other="x") == ([torch.float32], "x")
    assert dtypes(half, other=double)[0] == [torch.float64]
    assert dtypes(single, other=half)[1].dtype == torch.float32
    assert dtypes() == ([], None)


# -- SVDs that do not converge -----------------------------------------------------------------------------------------


def failing_svd(monkeypatch, fails):
    """Replace torch.linalg.svd by one that fails where `fails(matrix)`; returns the list of accepted dtypes."""
    svd, accepted = torch.linalg.svd, []

    def replacement(m, full_matrices=True):
        if fails(m):
            raise torch.linalg.LinAlgError("linalg.svd: failed to converge")
        accepted.append((m.ndim, m.dtype))
        return svd(m, full_matrices=full_matrices)

    monkeypatch.setattr(torch.linalg, "svd", replacement)
    return accepted


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 5, 3), (4, 4)])
@pytest.mark.parametrize(
    "fails, used",
    [
        (lambda m: m.ndim > 2, torch.float32),
        (lambda m: m.dtype == torch.float32, torch.float64),
        (lambda m: True, None),
    ],
    ids=["batches", "float32", "always"],
)
def test_fallbacks_give_the_same_polar_factor(monkeypatch, shape, fails, used):
    m, g = torch.randn(shape), torch.randn(shape)
    expected, expected_grad = polar(m), gradient(polar, m, g)
    accepted = failing_svd(monkeypatch, fails)
    scipys, drivers = scipy.linalg.svd, set()
    monkeypatch.setattr(
        scipy.linalg, "svd", lambda *a, **k: (drivers.add(k.get("lapack_driver", "gesdd")), scipys(*a, **k))[1]
    )
    q, grad = polar(m), gradient(polar, m, g)
    assert drivers == ({"gesvd"} if used is None else set())  # not the one that has failed
    assert q.dtype == torch.float32
    assert set(accepted) == (set() if used is None else {(2, used)})
    torch.testing.assert_close(q, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(grad, expected_grad, rtol=1e-3, atol=1e-4)


def test_one_bad_element_costs_the_others_nothing(monkeypatch):
    m = torch.randn(4, 3, 3)
    expected = polar(m)
    accepted = failing_svd(monkeypatch, lambda x: x.ndim > 2 or bool(x.dtype == torch.float32 and (x == m[2]).all()))
    torch.testing.assert_close(polar(m), expected, rtol=0, atol=1e-5)
    assert [d for _, d in accepted] == [torch.float32, torch.float32, torch.float64, torch.float32]


def test_when_nothing_converges_the_matrix_is_named(monkeypatch):
    m = torch.randn(2, 2, 3, 3)
    failing_svd(monkeypatch, lambda x: x.ndim > 2 or bool((x.float() == m[1, 0]).all()))

    def refuse(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(scipy.linalg, "svd", refuse)
    with pytest.raises(torch.linalg.LinAlgError, match=r"no SVD algorithm converges on matrix 2 of 4.*between -?\d"):
        polar(m)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
@pytest.mark.parametrize("special", [False, True])
def test_the_factor_of_nothing_is_nothing(shape, special):
    assert polar(torch.zeros(shape), special).shape == shape


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("batch, bad", [((4,), [1, 3]), ((2, 2), [1, 3]), ((), [0])])
def test_non_finite_input_is_named(value, batch, bad):
    m = torch.randn(*batch, 3, 3)
    flat = m.view(-1, 3, 3)
    for index in bad:
        flat[index, 0, 1] = value
    with pytest.raises(FloatingPointError) as caught:
        polar(m)
    assert str(caught.value) == f"polar: matrices {bad} of {len(flat)} hold NaN or infinite entries"


@pytest.mark.parametrize("shape, special", [((3, 5, 4), False), ((4, 4), True), ((0, 3, 3), False)])
def test_opaque_operator_obeys_the_rules_of_custom_operators(shape, special):
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    m = torch.randn(shape, requires_grad=True)
    torch.library.opcheck(torch.ops.niso.polar, (m, special, 0.0), test_utils=checks)


@pytest.mark.parametrize("share", [0.3, 0.75, 1.5])
def test_one_singular_value_near_the_floor_has_one_derivative(dtype, share):
    """The usual backward pass, the differentiable one and forward mode leave out the same directions."""
    u, v = (torch.linalg.qr(torch.randn(n, 4, dtype=dtype)).Q for n in (40, 4))
    s = torch.tensor([1, 0.5, 0.3, share * torch.finfo(dtype).eps * 40], dtype=dtype)
    m, upstream = (u * s @ v.mT).requires_grad_(), torch.randn(40, 4, dtype=dtype)
    usual = torch.autograd.grad(polar(m), m, upstream)[0]
    again = torch.autograd.grad(polar(m), m, upstream, create_graph=True)[0].detach()
    forward = jvp(polar, (m.detach(),), (upstream,))[1]
    assert (again.norm() < 1e4) == (usual.norm() < 1e4) == (share < 1) == (forward.norm() < 1e4)
    if share < 1:
        torch.testing.assert_close(again, usual, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(forward, usual, rtol=1e-3, atol=1e-3)


# -- compiler ----------------------------------------------------------------------------------------------------------

COMPILED = """
import torch, niso
torch.manual_seed(0)
m, g = torch.randn(2, 3, 4, 4)

def value_and_gradient(polar):
    x = m.clone().requires_grad_()
    q = polar(x, True)
    q.backward(g)
    return q.detach(), x.grad

compiled = torch.compile(niso.polar, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(value_and_gradient(compiled), value_and_gradient(niso.polar), rtol=1e-4, atol=1e-5)

tangent = lambda m: torch.func.jvp(niso.polar, (m,), (g,))[1]  # left uncompiled: an operator would lose it
torch.testing.assert_close(torch.compile(tangent, backend="aot_eager")(m), tangent(m))

root = lambda g: niso.inverse_root(g @ g.mT + torch.eye(4))
x, y = (m.clone().requires_grad_() for _ in range(2))
compiled = torch.compile(root, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(x), root(y))
(compiled(x) * g).sum().backward(), (root(y) * g).sum().backward()
torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
tangent, spd = lambda m: torch.func.jvp(niso.inverse_root, (m,), (g,))[1], m @ m.mT + torch.eye(4)
torch.testing.assert_close(torch.compile(tangent, backend="aot_eager")(spd), tangent(spd))

class Root(torch.nn.Module):
    def forward(self, g):
        return niso.inverse_root(g)

project = lambda m: niso.linalg.span(m[..., :2])
x, y = (m.clone().requires_grad_() for _ in range(2))
compiled = torch.compile(project, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(x), project(y))
(compiled(x) * g).sum().backward(), (project(y) * g).sum().backward()
torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
torch.library.opcheck(torch.ops.niso.svd, (m[..., :2],)), torch.library.opcheck(torch.ops.niso.svd, (m[..., :2, :],))

exported = torch.export.export(Root(), (torch.eye(4),)).module()
torch.testing.assert_close(exported(4 * torch.eye(4)), torch.eye(4) / 2)
for program in exported, torch.compile(niso.inverse_root, backend="aot_eager"):
    try:
        program(-torch.eye(4))
    except torch.linalg.LinAlgError:
        continue
    raise AssertionError
print("done")
"""


@pytest.mark.slow
def test_compile(outside):
    assert outside(COMPILED).endswith("done\n")


def test_singular_value_signs_flip_only_the_last():
    u, vh = orthogonal(3)[None], orthogonal(3)[None]
    signs = polar_factor._signs(u, vh)
    assert signs[0, :2].tolist() == [1, 1]
    assert torch.linalg.det(u * signs[:, None, :] @ vh).item() == pytest.approx(1)


def test_the_number_of_threads_is_given_back(monkeypatch):
    threads, seen = torch.get_num_threads(), []
    svd = torch.linalg.svd
    monkeypatch.setattr(torch.linalg, "svd", lambda *a, **k: (seen.append(torch.get_num_threads()), svd(*a, **k))[1])
    try:
        torch.set_num_threads(2)
        polar(torch.randn(3, 4, 4))
        assert seen == [1] and torch.get_num_threads() == 2
        with pytest.raises(FloatingPointError):
            polar(torch.full((2, 2), math.nan))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def positive_definite(values):
    q = orthogonal(len(values))
    return q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.mT


@given(values=st.lists(st.sampled_from([1e-3, 0.5, 1.0, 2.0, 300.0]), min_size=1, max_size=6))
def test_inverse_root_is_the_inverse_of_the_root(values):
    g = positive_definite(values)
    root = inverse_root(g)
    torch.testing.assert_close(root @ g @ root, torch.eye(len(values)).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(root, root.mT)
    assert (torch.linalg.eigvalsh(root) > 0).all()


@pytest.mark.parametrize("values", [[3.0, 0.5, 1.0], [2.0, 2.0, 2.0, 1.0], [1.0, 1.0 + 1e-12, 4.0], [0.7]])
def test_gradients_of_inverse_root_also_at_repeated_eigenvalues(values):
    def symmetric(g):
        return inverse_root((g + g.mT) / 2)

    g = torch.stack([positive_definite(values), positive_definite(values)]).requires_grad_()
    assert gradcheck(symmetric, g)
    assert gradgradcheck(symmetric, g)


@pytest.mark.parametrize("again", [False, True])
def test_gradients_of_inverse_root_are_symmetric(again, generator):
    """Whatever is made of it, as only one triangle is read; also where they are to be differentiated."""
    factor, weights = torch.randn(2, 3, 5, 5, generator=generator, dtype=torch.float64)
    g = (factor @ factor.mT + torch.eye(5, dtype=torch.float64)).requires_grad_()
    (gradient,) = torch.autograd.grad((weights * inverse_root(g)).sum(), g, create_graph=again)
    torch.testing.assert_close(gradient, gradient.mT)
    symmetric = (weights + weights.mT) / 2
    torch.testing.assert_close(gradient, torch.autograd.grad((symmetric * inverse_root(g)).sum(), g)[0])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")  # torch.func.jvp
def test_inverse_root_under_torch_func(generator):
    """Under vmap, in both modes, and twice; also at repeated eigenvalues."""
    factor, weights = torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    g = factor @ factor.mT + torch.eye(4, dtype=torch.float64)
    g[0] = positive_definite([2.0, 2.0, 2.0, 1.0])

    def scalar(g):
        return (inverse_root((g + g.mT) / 2) * weights[0]).sum()

    torch.testing.assert_close(vmap(inverse_root)(g), inverse_root(g))
    torch.testing.assert_close(vmap(jacfwd(inverse_root))(g), vmap(jacrev(inverse_root))(g))
    expected = torch.autograd.functional.hessian(scalar, g[0])
    for nested in (hessian(scalar), jacrev(jacrev(scalar)), jacfwd(jacfwd(scalar))):
        torch.testing.assert_close(nested(g[0]), expected)
    torch.testing.assert_close(vmap(hessian(scalar))(g)[0], expected)


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_gradients_of_inverse_root_at_any_scale(scale, generator):
    factor, upstream = torch.randn(2, 5, 5, generator=generator)
    g = factor @ factor.mT + torch.eye(5)
    expected = gradient(inverse_root, g.double(), upstream.double()) * scale**-1.5
    found = gradient(inverse_root, g * scale, upstream).double()
    assert (found - expected).norm() <= 1e-4 * expected.norm()


def test_inverse_root_refuses_what_is_not_positive_definite():
    for g in (
        torch.zeros(2, 2),
        torch.diag(torch.tensor([1.0, -1.0])),
        torch.ones(3, 3),
        torch.full((2, 2), torch.nan),
        torch.diag(torch.tensor([1.0, 1e-8])),  # rounding of the first may be all of the second
    ):
        with pytest.raises(torch.linalg.LinAlgError):
            inverse_root(g)


def test_operators_need_no_tag_that_an_older_torch_lacks(monkeypatch):
    """`custom_op` of torch 2.6 takes no `tags`, whatever is in them."""
    monkeypatch.delattr(torch.Tag, "cudagraph_unsafe", raising=False)
    assert cudagraph_unsafe() == {}
