import pytest
import torch

from niso.networks.eigenspace_head import EigenspaceHead, EigenspaceHeadConfig, soft_eigenspaces
from niso.testing import assert_equivariant

SMALL = EigenspaceHeadConfig(eigenspaces=3, hidden=8)


def orthogonal(size: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0].to(dtype)


def test_maps_that_commute_with_the_operator_change_nothing(dtype):
    eigenvalues = torch.tensor([0.5, 1, 1, 1, 3, 3], dtype=dtype)
    head = EigenspaceHead(5, 3, eigenvalues, SMALL).to(dtype)
    a = torch.randn(8, 6, 5, dtype=dtype)
    head(a)  # takes mean and deviation
    head.eval()
    tau = torch.block_diag(*(orthogonal(size, dtype) for size in (1, 3, 2)))
    assert_equivariant(head, a, lambda a: tau @ a, tolerance=5e-4 if dtype == torch.float32 else 1e-10)
    mixing = orthogonal(6, dtype)  # it does not commute with the operator
    assert (head(mixing @ a) - head(a)).abs().max() > 1e-3


@pytest.mark.parametrize("rank", [1, 2, 32])
def test_soft_eigenspaces_share_every_eigenvalue(rank):
    shares = soft_eigenspaces(torch.rand(rank), 6)
    assert shares.shape == (min(6, rank), rank)
    torch.testing.assert_close(shares.sum(0), torch.ones(rank))
    assert soft_eigenspaces(torch.ones(4), 2).isfinite().all()


def test_soft_eigenspaces_are_as_wide_as_their_mean_gap():
    shares = soft_eigenspaces(torch.linspace(0, 1, 5), 2)  # centred at ¼ and ¾
    torch.testing.assert_close(shares[:, 1], torch.tensor([0.0, -1.0]).softmax(0))


def test_soft_eigenspaces_do_not_know_which_end_is_up():
    eigenvalues = torch.tensor([0.0, 0.3, 1.0, 2.0, 5.0])
    shares, mirrored = (soft_eigenspaces(values, 3) for values in (eigenvalues, -eigenvalues))
    torch.testing.assert_close(mirrored, shares.flip(0))


def test_its_features_are_inner_products_in_soft_eigenspaces(dtype):
    head, a = EigenspaceHead(4, 3, torch.rand(6, dtype=dtype), SMALL).to(dtype), torch.randn(8, 6, 4, dtype=dtype)
    seen = []
    head.standardise.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    head(a)
    rows, columns = torch.triu_indices(4, 4)
    products = [(a.mT @ (share[:, None] * a))[:, rows, columns] for share in head.shares]
    torch.testing.assert_close(seen[0], torch.cat(products, dim=-1))


def test_invariants_that_hardly_vary_are_told_apart_also_in_half_precision():
    torch.manual_seed(0)
    common, labels = torch.randn(6, 4), torch.arange(64) % 2
    other = common + 1e-3 * torch.randn(6, 4)
    a = torch.stack([other if label else common for label in labels])
    head = EigenspaceHead(4, 2, torch.rand(6), SMALL)
    seen = []
    head.scores.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = head(a)
    assert scores.dtype == torch.float32
    assert seen[0].std(0, correction=0).median() > 0.99
    apart = (scores[labels == 1].mean(0) - scores[labels == 0].mean(0)).abs().max()
    assert apart > 10 * scores[labels == 0].std(0).max()


@pytest.mark.parametrize(("inputs", "classes", "rank"), [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_what_is_empty_is_refused(inputs, classes, rank):
    message = r"(inputs|classes) must be at least 1, got 0|eigenvalues must be \(rank,\), not \(0,\)"
    with pytest.raises(ValueError, match=message):
        EigenspaceHead(inputs, classes, torch.rand(rank))


def test_a_head_may_be_in_half_precision():
    head = EigenspaceHead(6, 10, torch.arange(8.0)).eval().bfloat16()
    assert head(torch.randn(4, 8, 6).bfloat16()).dtype == torch.bfloat16
