import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from niso.networks.spectral_head import Diffusion, SpectralHead, SpectralHeadConfig
from niso.testing import assert_equivariant

TOLERANCE = {torch.float32: 5e-4, torch.float64: 1e-10}
SMALL = SpectralHeadConfig(channels=6, invariant_channels=4, times=3, hidden=8)


def orthogonal(size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0].to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_maps_that_commute_with_the_operator_change_nothing(layers, dtype):
    torch.manual_seed(0)
    eigenvalues = torch.tensor([0.5, 1, 1, 1, 3, 3], dtype=dtype)
    config = SpectralHeadConfig(layers=layers, channels=6, invariant_channels=4, times=3, hidden=8)
    head = SpectralHead(5, 3, eigenvalues, config).to(dtype).eval()
    a = torch.randn(4, 6, 5, dtype=dtype)
    tau = torch.block_diag(*(orthogonal(size, dtype) for size in (1, 3, 2)))
    assert_equivariant(head, a, lambda a: tau @ a, tolerance=TOLERANCE[dtype])
    mixing = orthogonal(6, dtype)  # it does not commute with the operator
    assert (head(mixing @ a) - head(a)).abs().max() > 1e-3


def test_diffusion_is_the_heat_semigroup():
    torch.manual_seed(0)
    eigenvalues, a = torch.rand(6).double(), torch.randn(2, 6, 3).double()
    torch.testing.assert_close(Diffusion(3, longest=2.0).log_times.exp(), torch.tensor([0.02, 0.2, 2.0]))
    diffuse = Diffusion(3, longest=1.0).double()
    twice = diffuse(diffuse(a, eigenvalues), eigenvalues)
    with torch.no_grad():
        diffuse.log_times += torch.log(torch.tensor(2.0))
    torch.testing.assert_close(diffuse(a, eigenvalues), twice)
    assert torch.autograd.gradcheck(diffuse, (a.requires_grad_(), eigenvalues.requires_grad_()))


def test_its_features_are_inner_products_after_diffusion():
    head = SpectralHead(3, 2, torch.rand(5), SMALL).double()
    seen = []
    head.standardise.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    a = torch.randn(2, 5, 3).double()
    head(a)
    layer = head.layers[0](torch.cat([a, head.diffusions[0](a, head.eigenvalues)], dim=-1))
    v, rows = head.vectors(layer), torch.triu_indices(4, 4)
    kernels = [
        torch.ones(5).double(),
        *(torch.exp(-t * head.eigenvalues) for t in head.soft_eigenspaces.log_times.exp()),
    ]
    expected = [(v.mT @ (kernel[:, None] * v))[:, rows[0], rows[1]] / 5 for kernel in kernels]
    torch.testing.assert_close(seen[0], torch.cat(expected, dim=-1))


def test_adding_a_constant_to_the_eigenvalues_changes_nothing():
    a, eigenvalues = torch.randn(2, 4, 3), torch.rand(4)
    heads = []
    for values in (eigenvalues, eigenvalues + 1):
        torch.manual_seed(0)
        heads.append(SpectralHead(3, 2, values, SMALL).eval())
    torch.testing.assert_close(heads[0](a), heads[1](a))


@settings(max_examples=10, deadline=None)
@given(
    rank=st.integers(1, 5),
    inputs=st.integers(1, 3),
    classes=st.integers(1, 3),
    times=st.integers(1, 3),
    batch=st.integers(2, 4),
)
def test_any_size(rank, inputs, classes, times, batch):
    config = SpectralHeadConfig(channels=3, invariant_channels=2, times=times, hidden=4)
    head = SpectralHead(inputs, classes, torch.rand(rank), config)
    scores = head(torch.randn(batch, rank, inputs))
    assert scores.shape == (batch, classes) and scores.isfinite().all()
    scores.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters() if p.numel())


@pytest.mark.parametrize(("inputs", "classes", "rank"), [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_what_is_empty_is_refused(inputs, classes, rank):
    message = r"(inputs|classes) must be at least 1, got 0|eigenvalues must be \(rank,\), not \(0,\)"
    with pytest.raises(ValueError, match=message):
        SpectralHead(inputs, classes, torch.rand(rank))


def test_what_hardly_varies_is_not_lost_under_autocast():
    head = SpectralHead(8, 3, torch.arange(16.0)).eval()
    a = torch.randn(1, 16, 8) + 1e-3 * torch.randn(6, 16, 8)
    expected = head(a)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head(a), expected)
