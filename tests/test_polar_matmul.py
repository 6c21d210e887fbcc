"""polar by matrix products: against the SVD, at every condition and rank, and through the compiler."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from niso import linalg
from niso.linalg import choose_backend, polar
from niso.polar_matmul import FAST, STABLE, coefficients


def by_products(m):
    return polar(m, backend="matmul")


def gradient(function, m, upstream):
    m = m.clone().requires_grad_()
    return torch.autograd.grad(function(m), m, upstream)[0]


def conditioned(condition, n, k, batch=(), dtype=torch.float64):
    """Matrices whose singular values lie evenly, in logarithm, from 1 down to 1/condition."""
    u, v = (torch.linalg.qr(torch.randn(*batch, size, k, dtype=torch.float64)).Q for size in (n, k))
    s = torch.logspace(0, -torch.tensor(float(condition)).log10().item(), k, dtype=torch.float64)
    return (u * s @ v.mT).to(dtype)


@given(
    batch=st.lists(st.integers(0, 3), max_size=2),
    n=st.integers(1, 12),
    k=st.integers(1, 12),
    double=st.booleans(),
    rank=st.integers(0, 12),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
)
def test_orthonormal_for_every_shape_rank_and_scale(batch, n, k, double, rank, scale):
    dtype = torch.float64 if double else torch.float32
    m = scale * torch.randn(*batch, n, rank, dtype=dtype) @ torch.randn(*batch, rank, k, dtype=dtype)
    m.requires_grad_()
    q = by_products(m)
    assert q.shape == m.shape and q.dtype == dtype
    gram = q.mT @ q if n >= k else q @ q.mT
    identity = torch.eye(min(n, k), dtype=dtype).expand_as(gram)
    torch.testing.assert_close(gram, identity, rtol=0, atol=1e-12 if double else 1e-5)
    q.backward(torch.randn_like(q))
    assert m.grad is not None and m.grad.isfinite().all()


@given(
    condition=st.sampled_from([1.0, 10.0, 1e3, 1e6]),
    n=st.integers(1, 40),
    k=st.integers(1, 40),
    batch=st.sampled_from([(), (1,), (2, 3)]),
    double=st.booleans(),
)
def test_equals_the_svd_in_float64(condition, n, k, batch, double):
    """Also for float32 input: to 1e-5 at condition 1e6, where the SVD in float32 is wrong by more than 1e-4."""
    dtype = torch.float64 if double else torch.float32
    m = conditioned(condition, max(n, k), min(n, k), batch, dtype)
    m = m.mT.contiguous() if n < k else m
    expected = polar(m.double(), backend="svd")
    error = (by_products(m).double() - expected).abs().max().item()
    assert error <= (1e-14 * condition * 40 if double else 1e-5)


@pytest.mark.parametrize("shape", [(4, 8, 8), (1, 32, 32), (2, 100, 16), (2, 16, 100), (3, 1, 1), (5, 1)])
@pytest.mark.parametrize("condition", [1.0, 10.0, 1e3])
def test_the_gradient_is_that_of_the_svd(shape, condition, dtype):
    *batch, n, k = shape
    m = conditioned(condition, max(n, k), min(n, k), batch, dtype)
    m = m.mT.contiguous() if n < k else m
    g = torch.randn(shape, dtype=dtype)
    ours = gradient(by_products, m, g)
    exact = gradient(lambda x: polar(x, backend="svd"), m.double(), g.double())
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13 * condition
    assert (ours - exact).norm() <= tolerance * max(exact.norm().item(), 1e-3)


@pytest.mark.parametrize(
    "m",
    [
        pytest.param(lambda: conditioned(10, 4, 4), id="square"),
        pytest.param(lambda: conditioned(10, 5, 3), id="tall"),
        pytest.param(lambda: conditioned(10, 5, 3).mT.contiguous(), id="wide"),
        pytest.param(lambda: conditioned(1, 4, 4), id="repeated"),
        pytest.param(lambda: torch.eye(4, dtype=torch.float64), id="identity"),
    ],
)
def test_gradcheck(m):
    assert gradcheck(by_products, m().requires_grad_())


def test_gradcheck_where_only_the_range_is_seen():
    """The usual case: fewer channels than the rank, so that b aᵀ is singular; what τ does to a is smooth still."""
    a, b = (torch.randn(5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(lambda a, b: by_products(b @ a.mT) @ a, (a, b))


@pytest.mark.parametrize("rank, channels", [(16, 4), (40, 1), (64, 32)])
def test_singular_covariances_act_as_with_the_svd(rank, channels, dtype):
    a, b = torch.randn(2, 3, rank, channels, dtype=dtype)
    g = torch.randn_like(a)
    grads, moved = [], []
    for backend in ("svd", "matmul"):
        inputs = [x.clone().requires_grad_() for x in (a, b)]
        moved.append(polar(inputs[1] @ inputs[0].mT, backend=backend) @ inputs[0])
        grads.append(torch.autograd.grad(moved[-1], inputs, g))
    tolerance = 1e-3 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(moved[1], moved[0], rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(*grads[::-1], strict=True):
        assert (ours - theirs).norm() <= tolerance * theirs.norm()


@pytest.mark.parametrize("m", [torch.zeros(6, 6), torch.diag(torch.tensor([3.0, 2.0] + [0.0] * 30))])
def test_null_spaces_aligned_with_the_axes(m, dtype, tolerance):
    m = m.to(dtype)
    q = by_products(m)
    torch.testing.assert_close(q.mT @ q, torch.eye(len(m), dtype=dtype), rtol=0, atol=tolerance)
    g = torch.randn_like(m)
    inside = m.diagonal() == 0
    grad = gradient(by_products, m, g)[inside][:, inside]
    assert grad.abs().max() <= 1e-3  # not unique there: zero, up to rounding


def test_the_completion_does_not_jump():
    m = torch.randn(8, 3, dtype=torch.float64) @ torch.randn(3, 8, dtype=torch.float64)
    single, moved = m.float(), (m + 1e-9 * torch.randn(8, 8, dtype=torch.float64) @ m).float()
    assert torch.equal(by_products(single), by_products(single.clone()))
    assert (by_products(single) - by_products(moved)).abs().max() < 2


@pytest.mark.parametrize("lowest", [1e-20, 1e-8, 0.3, 0.99])
@pytest.mark.parametrize("cushion", [FAST, STABLE])
def test_the_iteration_takes_every_value_to_one(lowest, cushion):
    x = torch.logspace(torch.tensor(lowest).log10().item(), 0, 1000, dtype=torch.float64)
    for a, b in coefficients(lowest * 0.999, cushion):
        x = a * x + b * x**3
        assert x.max() <= 1 + 1e-12
    torch.testing.assert_close(x, torch.ones_like(x), rtol=0, atol=1e-14)


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_the_rule(monkeypatch):
    m = torch.randn(2, 40, 40)
    assert choose_backend(m, False, 0.0) == "svd"  # the CPU's SVD is faster
    monkeypatch.setitem(linalg.MATMUL_ABOVE, "cpu", 32)
    assert choose_backend(m, False, 0.0) == "matmul"
    assert choose_backend(m, True, 0.0) == "svd"
    assert choose_backend(m, False, 1e-8) == "svd"
    assert choose_backend(m[..., :32], False, 0.0) == "svd"
    assert choose_backend(m, False, 0.0, "svd") == "svd"
    assert torch.equal(polar(m), by_products(m))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_takes_products_and_agrees():
    m, g = torch.randn(2, 3, 48, 48)
    assert choose_backend(m.cuda(), False, 0.0) == "matmul"
    torch.testing.assert_close(polar(m.cuda()).cpu(), by_products(m), rtol=0, atol=1e-6)
    torch.testing.assert_close(gradient(polar, m.cuda(), g.cuda()).cpu(), gradient(by_products, m, g))
    assert polar(torch.full((40, 40), math.nan, device="cuda")).isnan().all()  # nothing was looked at


def test_wrong_arguments():
    m = torch.randn(3, 3)
    for options in ({"special": True}, {"damping": 1e-8}):
        with pytest.raises(ValueError, match='"matmul" has no special=True and no damping'):
            polar(m, backend="matmul", **options)
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        torch.autograd.grad(by_products(m.requires_grad_()).sum(), m, create_graph=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_input_is_named(value):
    m = torch.randn(4, 3, 3)
    m[[1, 3], 0, 1] = value
    with pytest.raises(FloatingPointError, match=r"polar: matrices \[1, 3\] of 4 hold NaN or infinite entries"):
        by_products(m)


def test_autocast_changes_nothing_forward_or_backward():
    m, g = torch.randn(2, 3, 8, 8)
    plain, plain_grad = by_products(m), gradient(by_products, m, g)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (m @ m).dtype == torch.bfloat16  # autocast is on
        torch.testing.assert_close(by_products(m), plain, rtol=0, atol=0)
        torch.testing.assert_close(gradient(by_products, m, g), plain_grad, rtol=0, atol=0)
    half = m.bfloat16()
    assert by_products(half).dtype == torch.float32


def test_opaque_operators_obey_the_rules_of_custom_operators():
    tests = ("test_schema", "test_faketensor")
    for shape in [(3, 5, 4), (4, 4), (0, 3, 3)]:
        m, q, g = torch.randn(3, *shape)
        torch.library.opcheck(torch.ops.niso.polar_factor, (m,), test_utils=tests)
        torch.library.opcheck(torch.ops.niso.polar_gradient, (g, m, q), test_utils=tests)


COMPILED = """
import torch, niso
torch.manual_seed(0)
polar = torch.compile(niso.polar, fullgraph=True, backend="aot_eager")
m = torch.randn(3, 4, 4, requires_grad=True)
n = m.detach().clone().requires_grad_()
g = torch.randn(3, 4, 4)
q, r = polar(m, backend="matmul"), niso.polar(n, backend="svd")
q.backward(g), r.backward(g)
torch.testing.assert_close(q, r, rtol=0, atol=1e-5)
torch.testing.assert_close(m.grad, n.grad, rtol=1e-3, atol=1e-4)

class Module(torch.nn.Module):
    def forward(self, m):
        return niso.polar(m, backend="matmul")

exported = torch.export.export(Module(), (torch.randn(2, 4, 4),)).module()
m = torch.randn(2, 4, 4)
torch.testing.assert_close(exported(m), niso.polar(m), rtol=0, atol=1e-5)
print("done")
"""


@pytest.mark.slow
def test_compile_and_export():
    """In a process of its own: jaxtyping's import hook, on in this suite, does not go with torch.compile."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip().endswith("done"), done.stderr[-4000:]
