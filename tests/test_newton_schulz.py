"""The polar factor by matrix products alone: it is `niso.polar`'s, also where matrices lack rank, and programs compiled
for a GPU have it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import niso
from niso.linalg import newton_schulz


def gradient(function, m, upstream):
    m = m.clone().requires_grad_()
    q = function(m)
    return q.detach(), torch.autograd.grad(q, m, upstream)[0]


def with_singular_values(values, n, dtype):
    values = torch.as_tensor(values, dtype=torch.float64)
    u, v = (torch.linalg.qr(torch.randn(side, len(values), dtype=torch.float64)).Q for side in (n, len(values)))
    return (u * values @ v.mT).to(dtype)


@given(
    batch=st.lists(st.integers(0, 3), max_size=2),
    k=st.integers(1, 40),
    more=st.sampled_from([0, 1, 30]),
    double=st.booleans(),
    rank=st.integers(0, 40),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_orthonormal_for_every_shape_rank_and_scale(batch, k, more, double, rank, scale):
    dtype = torch.float64 if double else torch.float32
    m = scale * (torch.randn(*batch, k + more, rank, dtype=dtype) @ torch.randn(*batch, rank, k, dtype=dtype))
    m.requires_grad_()
    q = newton_schulz.polar(m)
    assert q.shape == m.shape and q.dtype == dtype
    identity = torch.eye(k, dtype=dtype).expand(*batch, k, k)
    torch.testing.assert_close(q.mT @ q, identity, rtol=0, atol=1e-12 if double else 1e-5)
    q.backward(torch.randn_like(q) * min(scale, 1.0))
    assert m.grad is not None and m.grad.isfinite().all()


@pytest.mark.parametrize("condition", [1e1, 1e4])
@pytest.mark.parametrize(("n", "k"), [(40, 40), (90, 36)])
def test_values_and_gradients_are_those_of_the_svd(n, k, condition, dtype):
    m = torch.stack([with_singular_values(torch.logspace(0, -torch.tensor(condition).log10(), k), n, dtype)] * 2)
    m[1] *= 1e3
    upstream = torch.randn_like(m)
    q, d = gradient(newton_schulz.polar, m, upstream)
    exact_q, exact_d = gradient(niso.polar, m.double(), upstream.double())
    tolerance = 1e-6 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(q.double(), exact_q, rtol=0, atol=tolerance)
    for part, exact in zip(d.double(), exact_d, strict=True):
        assert (part - exact).norm() <= tolerance * exact.norm()


@pytest.mark.parametrize(("small", "n"), [(0.0, 40), (0.75, 36)])
def test_gradients_beside_singular_values_that_count_as_zero_or_nearly(small, n):
    """Between a zero and the others nothing is lost; of square matrices sums of two count, not single values."""
    k = 36
    values = torch.linspace(1, 0.5, k)
    values[-2:] = small * k * torch.finfo(torch.float32).eps
    m = torch.zeros(n, k)
    m[:k] = torch.diag(values)
    upstream = torch.zeros(n, k)
    upstream[:k, : k - 2] = torch.randn(k, k - 2)  # towards the small ones, too
    upstream[k - 1, k - 2] = 1.0 if small else 0.0
    _, d = gradient(newton_schulz.polar, m, upstream)
    _, exact = gradient(niso.polar, m, upstream)
    assert (d - exact).norm() <= 1e-2 * exact.norm()


def test_first_derivatives_are_exact():
    assert gradcheck(newton_schulz.polar, torch.randn(2, 6, 5, dtype=torch.float64, requires_grad=True))


def test_directions_that_are_not_determined_have_no_gradient(dtype):
    """Those from null vectors to null vectors, as with `niso.polar`; others have that of the singular vectors."""
    k, rank = 36, 20
    values = torch.zeros(k)
    values[:rank] = torch.linspace(1, 0.1, rank)
    m = with_singular_values(values, k, dtype)
    q, _ = gradient(newton_schulz.polar, m, m)
    _, _, vh = torch.linalg.svd(m.double())
    kept, null = vh[:rank].mT, vh[rank:].mT
    skew = torch.randn(k, k, dtype=torch.float64)
    skew = skew - skew.mT
    tolerance = 1e-3 if dtype == torch.float32 else 1e-8
    for part, determined in (
        (null @ null.mT @ skew @ null @ null.mT, False),
        (kept @ kept.mT @ skew @ kept @ kept.mT, True),
    ):
        _, d = gradient(newton_schulz.polar, m, (q.double() @ part).to(dtype))
        assert (d.norm() > tolerance * part.norm()) == determined, d.norm()
    assert not gradient(newton_schulz.polar, torch.zeros(2, k, k, dtype=dtype), torch.randn(2, k, k, dtype=dtype))[
        1
    ].any()


def test_losses_that_do_not_see_what_is_not_determined_have_the_gradients_of_the_svd():
    """Those of few channels: the factor of b aᵀ lacks rank, and maps that are applied to a alone do not show it."""
    a, b, upstream = torch.randn(3, 2, 40, 5)
    a, b = a.requires_grad_(), b.requires_grad_()
    found, exact = (
        torch.autograd.grad((function(b @ a.mT) @ a * upstream).sum(), (a, b))
        for function in (newton_schulz.polar, niso.polar)
    )
    for part, other in zip(found, exact, strict=True):
        assert (part - other).norm() <= 1e-3 * other.norm()


def test_what_is_not_finite_gives_nan_for_its_matrix_alone():
    m = torch.randn(3, 36, 36)
    m[1, 2, 3] = float("nan")
    assert newton_schulz.polar(m).isfinite().all((-2, -1)).tolist() == [True, False, True]


COMPILED = """
import torch
import niso
from unittest.mock import patch
from niso.linalg import newton_schulz

torch.manual_seed(0)
m = torch.randn(2, 36, 34, dtype=torch.float64, requires_grad=True)
torch.library.opcheck(torch.ops.niso.polar_by_products, (m,))
torch.library.opcheck(torch.ops.niso.polar_by_products_gradient, (m.detach(), m.detach(), niso.polar(m.detach())))

a, b = (torch.randn(2, 40, 60, dtype=torch.float64, requires_grad=True) for _ in range(2))
eigenvalues = torch.linspace(0, 2, 40, dtype=torch.float64)
used = []

def maps(a, b):
    return niso.isometric_map(a, b, eigenvalues).pow(3).sum()

plain = torch.autograd.grad(maps(a, b), (a, b))
with patch.object(newton_schulz, "pays", lambda m, special, damping: True):
    graphs = []
    def keep(graph, _):
        graphs.append(graph)
        return graph
    compiled = torch.compile(maps, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(a, b), (a, b))
    torch.compiler.reset()
    torch.compile(maps, fullgraph=True, backend=keep)(a, b)
assert "polar_by_products" in graphs[0].code and "niso.polar.default" not in graphs[0].code
for here, there in zip(found, plain, strict=True):
    torch.testing.assert_close(here, there)
print("done")
"""


@pytest.mark.slow
def test_programs_compiled_for_a_gpu_take_it(outside):
    assert outside(COMPILED).endswith("done\n")


@pytest.mark.parametrize(
    ("device", "shape", "special", "damping", "expected", "dtype"),
    [
        ("cuda", (2, 64, 64), False, 0.0, True, torch.float32),
        ("cuda", (300, 33), False, 0.0, True, torch.float32),
        ("cuda", (2, 64, 64), False, 0.0, False, torch.float64),
        ("cuda", (2, 32, 32), False, 0.0, False, torch.float32),
        ("cuda", (2, 64, 64), True, 0.0, False, torch.float32),
        ("cuda", (2, 64, 64), False, 1e-8, False, torch.float32),
        ("cpu", (2, 64, 64), False, 0.0, False, torch.float32),
    ],
)
def test_where_it_pays(device, shape, special, damping, expected, dtype):
    class Matrix:
        """A matrix on a device that may not be there."""

        def __init__(self):
            self.device, self.shape, self.dtype = torch.device(device), shape, dtype

    assert newton_schulz.pays.__wrapped__(Matrix(), special, damping) is expected
