"""Simultaneous block diagonalisation of latent maps after training, as NFT does it (Koyama et al. 2023)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.linalg import full_precision

BATCH, LEARNING_RATE = 32, 0.1
"""Maps of a step, and Adam's learning rate, as published."""


@full_precision
def block_diagonal_loss(maps: Float[Tensor, "count n n"], basis: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
    """How far V = U⁻¹ M U are from block diagonal: the mean trace norm of normalised graph Laplacians.

    With A = |V|ᵀ|V| and D = diag(row sums of A), the Laplacian D^(-1/2) (D − A) D^(-1/2) is positive semi-definite, so
    that its trace norm is its trace, n − Σᵢ Aᵢᵢ/Dᵢᵢ: no SVD is needed. 0 for diagonal maps, at most n − 1, and blind
    to permutations of the basis.
    """
    v = torch.linalg.solve(basis, maps @ basis).abs()
    degree = (v.mT @ v.sum(-1, keepdim=True))[..., 0]  # row sums of A, without A
    share = v.square().sum(-2) / degree.clamp_min(torch.finfo(v.dtype).tiny)
    return (1 - share).sum(-1).mean()


def block_diagonalise(
    maps: Float[Tensor, "count n n"],
    epochs: int = 50,
    seed: int = 0,
) -> Float[Tensor, "n n"]:
    """One change of basis U for which all U⁻¹ M U are as block diagonal as Adam makes them, blocks sorted.

    The loss has poor local minima in which blocks have traded halves, and already for planted commuting rotations of
    R⁶ a single start mostly ends in one; the published procedure makes one start.

    Args:
        maps: matrices M that act on the right, H₀ M ≈ H₁; latents become H U. For maps τ on the left pass `τ.mT`.
        seed: of the start, a random orthogonal matrix, and of the order of batches; torch's global generators are left
            alone.

    Returns:
        U after the epoch whose loss over all maps was lowest, with columns in `block_order`.

    Raises:
        ValueError: no maps, or `epochs` below 1.
        FloatingPointError: maps that are not finite.
    """
    if min(len(maps), epochs) < 1:
        raise ValueError("block diagonalisation needs at least one map and epoch")
    if not maps.isfinite().all():
        raise FloatingPointError("block diagonalisation: some maps hold NaN or infinite entries")
    maps = maps.detach().to(torch.promote_types(maps.dtype, torch.float32))
    generator = torch.Generator().manual_seed(seed)
    best = _fit(maps, epochs, generator)
    return best[:, block_order(torch.linalg.solve(best, maps @ best))]


@torch.enable_grad()
def _fit(maps: Tensor, epochs: int, generator: torch.Generator) -> Tensor:
    """The best basis after an epoch of one descent from a random orthogonal matrix."""
    start = torch.randn(maps.shape[1:], generator=generator, dtype=torch.float64, device="cpu")
    basis = torch.linalg.qr(start)[0].to(maps).requires_grad_()
    optimizer = torch.optim.Adam([basis], lr=LEARNING_RATE)
    best, best_loss = basis.detach().clone(), float("inf")
    for _ in range(epochs):
        for index in torch.randperm(len(maps), generator=generator, device="cpu").split(BATCH):
            optimizer.zero_grad()
            block_diagonal_loss(maps[index.to(maps.device)], basis).backward()
            optimizer.step()
        loss = block_diagonal_loss(maps, basis.detach()).item()
        if loss < best_loss:
            best, best_loss = basis.detach().clone(), loss
    return best


def block_order(maps: Float[Tensor, "count n n"]) -> Int[Tensor, " n"]:
    """A permutation that puts indices coupled by the maps side by side, for plots.

    Leaves of average linkage, the coupling of two indices being the cosine of their columns in |V|, mean over maps.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import
    from scipy.spatial.distance import squareform

    if maps.shape[-1] < 2:
        return torch.arange(maps.shape[-1], device=maps.device)
    columns = torch.nn.functional.normalize(maps.detach().double().abs(), dim=-2)
    distance = 1 - (columns.mT @ columns).mean(0).clamp(0, 1)
    pairs = squareform(distance.cpu().numpy(), checks=False)
    order = leaves_list(linkage(pairs, "average", optimal_ordering=True))
    return torch.as_tensor(order, dtype=torch.long, device=maps.device)
