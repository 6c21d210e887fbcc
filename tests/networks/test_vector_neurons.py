import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from niso.networks.invariants import inner_products
from niso.networks.vector_neurons import (
    SmoothVectorNeuron,
    VectorLinear,
    VectorNeuron,
    VectorNeuronConfig,
    VectorNeuronHead,
    VectorNorm,
)
from niso.testing import assert_equivariant

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
VARIANTS = ["paper", "released"]


def orthogonal(size: int, dtype: torch.dtype, determinant: int) -> torch.Tensor:
    q = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]
    q[:, 0] *= determinant * torch.linalg.det(q).sign()
    return q.to(dtype)


def small(variant: str, **kwargs: object) -> VectorNeuronConfig:
    return VectorNeuronConfig(variant, channels=6, invariant_channels=4, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize("layer", [VectorLinear, VectorNeuron, SmoothVectorNeuron, VectorNorm])
def test_layers_are_equivariant(layer, determinant, dtype):
    torch.manual_seed(0)
    module = (layer(5) if layer is VectorNorm else layer(5, 7)).to(dtype)
    tau = orthogonal(8, dtype, determinant)
    x = torch.randn(3, 8, 5, dtype=dtype)
    assert_equivariant(module, x, lambda x: tau @ x, lambda y: tau @ y, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize("variant", VARIANTS)
def test_head_is_invariant(variant, determinant, dtype):
    torch.manual_seed(0)
    head = VectorNeuronHead(32, 10, VectorNeuronConfig(variant, expansion=1)).to(dtype)
    tau = torch.stack([orthogonal(32, dtype, determinant) for _ in range(4)])
    x = torch.randn(4, 32, 32, dtype=dtype)
    assert_equivariant(head, x, lambda x: tau @ x, tolerance=TOLERANCE[dtype])
    flip = torch.diag(torch.tensor([-1.0] + [1.0] * 31, dtype=dtype))
    assert_equivariant(head, x, lambda x: flip @ x, tolerance=TOLERANCE[dtype])
    with pytest.raises(AssertionError):  # other maps are seen
        assert_equivariant(head, x, lambda x: 1.5 * x, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("variant", VARIANTS)
def test_inner_products_are_divided_by_the_rank_in_the_paper_alone(variant):
    head, a = VectorNeuronHead(5, 3, small(variant)), torch.randn(2, 7, 5)
    features = inner_products(head.vectors(a)) / (7 if variant == "paper" else 1)
    torch.testing.assert_close(head(a), head.scores(features))


@settings(max_examples=15, deadline=None)
@given(
    rank=st.integers(1, 6),
    inputs=st.integers(1, 4),
    classes=st.integers(1, 4),
    layers=st.integers(1, 3),
    batch=st.integers(1, 3),
    variant=st.sampled_from(VARIANTS),
)
def test_any_size(rank, inputs, classes, layers, batch, variant):
    head = VectorNeuronHead(inputs, classes, small(variant, layers=layers)).double()
    x = torch.randn(batch, rank, inputs, dtype=torch.float64)
    assert head(x).shape == (batch, classes)
    tau = orthogonal(rank, torch.float64, -1)
    assert_equivariant(head, x, lambda x: tau @ x, tolerance=1e-10)


def test_neuron_is_the_published_formula():
    torch.manual_seed(0)
    neuron = VectorNeuron(3, 4, leak=0.2).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    p, d = x @ neuron.feature.weight.T, x @ neuron.direction.weight.T
    inner = (p * d).sum(1, keepdim=True)
    assert (inner < 0).any() and (inner > 0).any()
    cut = torch.where(inner >= 0, p, p - inner * d / (d.square().sum(1, keepdim=True) + 1e-6))
    torch.testing.assert_close(neuron(x), 0.2 * p + 0.8 * cut)
    torch.testing.assert_close(VectorNeuron.forward(_with_leak(neuron, 1.0), x), p)


def _with_leak(neuron: VectorNeuron, leak: float) -> VectorNeuron:
    neuron.leak = leak
    return neuron


def test_smooth_neuron_and_norm_are_the_released_formulas():
    torch.manual_seed(0)
    neuron, norm = SmoothVectorNeuron(3, 4).double(), VectorNorm(3).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    q, r = x @ neuron.feature.weight.T, x @ neuron.direction.weight.T
    silu = torch.nn.functional.silu(-(q * r).sum(1, keepdim=True))
    torch.testing.assert_close(neuron(x), q + silu * r / (r.square().sum(1, keepdim=True) + 1e-6))
    expected = x / (x.square().mean(1, keepdim=True) + 1e-6 + 1e-3).sqrt()
    torch.testing.assert_close(norm(x), expected, rtol=1e-6, atol=1e-6)


def test_parameter_counts():
    def count(head):
        return sum(p.numel() for p in head.parameters())

    assert VectorNeuronConfig().invariants == 2080
    assert count(VectorNeuronHead(32, 10)) == 2 * 32 * 128 + 2 * 128 * 128 + 128 * 64 + 2081 * 10 == 69_962
    vectors = (33 + 3 * 32 * 128) + (129 + 2 * 128 * 128) + (129 + 2 * 128 * 64)
    dense = 2081 * 8320 + 8321 * 10
    assert count(VectorNeuronHead(32, 10, VectorNeuronConfig("released"))) == vectors + dense


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_finite_also_at_zero(variant, dtype):
    head = VectorNeuronHead(5, 3, small(variant)).to(dtype)
    for x in (torch.randn(2, 4, 5, dtype=dtype), torch.zeros(2, 4, 5, dtype=dtype)):
        x.requires_grad_()
        head.zero_grad()
        head(x).square().sum().backward()
        assert x.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in head.parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradcheck(variant):
    torch.manual_seed(0)
    head = VectorNeuronHead(3, 2, VectorNeuronConfig(variant, 1, channels=3, invariant_channels=2)).double()
    assert torch.autograd.gradcheck(head, torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_learns_what_no_rotation_changes(variant):
    """Two classes of vector pairs, at a right angle or not, in random position: only the angle tells them apart."""
    torch.manual_seed(0)
    head = VectorNeuronHead(2, 2, small(variant))
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    labels = torch.arange(64) % 2
    templates = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0, 0.7], [0.0, 0.7], [0.0, 0.0]]])
    for _ in range(150):
        turns = torch.linalg.qr(torch.randn(64, 3, 3))[0]
        loss = torch.nn.functional.cross_entropy(head(turns @ templates[labels]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    turns = torch.linalg.qr(torch.randn(64, 3, 3))[0]
    assert (head(turns @ templates[labels]).argmax(-1) == labels).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"variant": "deng"}, "variant"),
        ({"layers": 0}, "layers"),
        ({"channels": 0}, "channels"),
        ({"invariant_channels": 0}, "invariant_channels"),
        ({"expansion": 0}, "expansion"),
        ({"leak": 1.5}, "leak"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):  # the tests' own type check may be first
        VectorNeuronConfig(**bad)


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="inputs must be at least 1, got 0"):
        VectorNeuronHead(0, 10)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_what_hardly_varies_is_not_lost_under_autocast(variant):
    head = VectorNeuronHead(8, 3, VectorNeuronConfig(variant))
    a = torch.randn(1, 16, 8) + 1e-3 * torch.randn(6, 16, 8)
    expected = head(a)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head(a), expected)
    assert head.bfloat16()(a.bfloat16()).dtype == torch.bfloat16  # asked for
