"""Solvers for the functional map τ_Ω between the coefficients a, b of two observations: τ a ≈ b.

All maps run from the first argument to the second; the inverse of an orthogonal one is its transpose.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_choice, check_number, check_tensors, choices_of
from niso.linalg import full_precision, matmul, polar
from niso.linalg.svd import check_finite

_REGULAR = 1e-9
"""Ridge from which a aᵀ + r I is never singular: for rank 1000, rounding in float64 changes it by 2e-10 at most."""

_NOT_FINITE = "eigenvalues hold NaN or infinite entries"

Mask = Literal["soft", "exact"] | None
"""Which maps are admitted: softly masked by eigenvalue pairs, exactly Λ-commuting, or all orthogonal ones."""

MASKS = choices_of(Mask)


@full_precision
def isometric_map(
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    eigenvalues: Float[Tensor, " rank"],
    mask: Mask = "soft",
    special: bool = False,
    damping: float = 0.0,
) -> Float[Tensor, "*batch rank rank"]:
    """Orthogonal map τ that takes a to b and (nearly) commutes with the eigenvalues.

    - `mask="soft"`: polar(P ∘ b aᵀ) with P = exp(−|λᵢ − λⱼ|) (paper eq. 8), which lets gradients reach Λ. τ commutes
      as far as eigenvalues are apart, unless several have more eigenfunctions than there are channels: what channels
      leave open is then mixed at any distance;
    - `mask="exact"`: the minimiser of ‖τ a − b‖ over orthogonal τ with τΛ = Λτ, one Procrustes problem for
      each distinct eigenvalue (paper eq. 7 and 14–17). Neighbours that differ by at most 1e-6 · max(1, λ_max) count as
      one eigenvalue: where the largest is 1e6, so do 0 and 0.5. `exact_isometric_map` takes another tolerance;
    - `mask=None`: the minimiser over all orthogonal τ, the paper's ablation "w/o Ω".

    It works under `torch.func` and has derivatives of any order, like `niso.polar`. Products of coefficients must be
    numbers of their precision: in float32, coefficients below about 1e-15 lose digits, and maps of those below 1e-22
    mean nothing.

    Args:
        a, b: coefficients ΦᵀM E(ψ) and ΦᵀM E(Tψ) in the eigenbasis.
        eigenvalues: diagonal of Λ, in any order; their values are not read where `mask` is None.
        special: rotations only, det τ = +1; "exact" applies it to every block.
        damping: damping of the derivative, see `niso.polar`.
        mask: which maps are admitted, see above.

    Returns:
        Orthogonal maps τ with τ a ≈ b, one for each pair.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, an unknown mask, or a negative damping.
        FloatingPointError: a covariance b aᵀ, or an eigenvalue that is read, is NaN or infinite.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"), eigenvalues=(eigenvalues, "rank"))
    return isometric_map_from_covariance(cross_covariance(a, b), eigenvalues, mask, special, damping)


def cross_covariance(
    a: Float[Tensor, "*batch rank channels"], b: Float[Tensor, "*batch rank channels"]
) -> Float[Tensor, "*batch rank rank"]:
    """b aᵀ, which determines the orthogonal map of a pair; its sum over pairs determines the map that they share.

    Args:
        a, b: coefficients of an observation and of the transformed one.

    Returns:
        One matrix for each pair.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"))
    return matmul(b, a.mT)


@full_precision
def isometric_map_from_covariance(
    covariance: Float[Tensor, "*batch rank rank"],
    eigenvalues: Float[Tensor, " rank"],
    mask: Mask = "soft",
    special: bool = False,
    damping: float = 0.0,
) -> Float[Tensor, "*batch rank rank"]:
    """`isometric_map` from b aᵀ, or from the sum of b aᵀ over pairs that share their transformation.

    Args:
        covariance: b aᵀ, or its sum.
        eigenvalues, mask, special, damping: as in `isometric_map`.

    Returns:
        Orthogonal maps τ, one for each matrix.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, an unknown mask, or a negative damping.
        FloatingPointError: a covariance, or an eigenvalue that is read, is NaN or infinite.
    """
    check_tensors(covariance=(covariance, "* rank rank"), eigenvalues=(eigenvalues, "rank"))
    check_choice("mask", mask, MASKS)
    if mask is None:
        return polar(covariance, special, damping)
    if mask == "soft":
        return polar(soft_mask(eigenvalues) * covariance, special, damping)
    return exact_isometric_map(covariance, eigenvalues, special=special, damping=damping)


@full_precision
def multiplicity_mask(eigenvalues: Float[Tensor, " rank"]) -> Float[Tensor, "rank rank"]:
    """Soft multiplicity mask P = exp(−|λᵢ − λⱼ|) (paper eq. 8).

    Args:
        eigenvalues: diagonal of Λ, in any order.

    Returns:
        Entries in [0, 1]: 1 where two eigenvalues are equal, 0 where float32 has nothing smaller, from about 104 on.

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: eigenvalues that are not (rank,).
        FloatingPointError: one is NaN or infinite; on a CPU, neither in compiled code nor under `torch.func`.
    """
    check_tensors(eigenvalues=(eigenvalues, "rank"))
    _check_finite(eigenvalues)
    return soft_mask(eigenvalues)


def soft_mask(eigenvalues: Float[Tensor, " rank"]) -> Float[Tensor, "rank rank"]:
    """`multiplicity_mask` for training steps, where polar or the loop finds what is not finite."""
    return torch.exp(-(eigenvalues[:, None] - eigenvalues[None, :]).abs())


def _check_finite(eigenvalues: Float[Tensor, " rank"]) -> None:
    """FloatingPointError for NaN or infinite eigenvalues, where looking at them is possible and the host need not wait
    for a GPU."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return
    if eigenvalues.device.type == "cpu" and not eigenvalues.isfinite().all():
        raise FloatingPointError(_NOT_FINITE)


@full_precision
def exact_isometric_map(
    covariance: Float[Tensor, "*batch rank rank"],
    eigenvalues: Float[Tensor, " rank"],
    tolerance: float = 1e-6,
    special: bool = False,
    damping: float = 0.0,
) -> Float[Tensor, "*batch rank rank"]:
    """Block-diagonal Procrustes solution ⊕ polar(Bᵢ Aᵢᵀ), with one block for each distinct eigenvalue (paper eq. 17).

    Each block is projected separately. One projection of the whole masked matrix (eq. 18 and 21) is equivalent only
    where at most one block lacks full rank; otherwise null spaces mix and τ no longer commutes with Λ.

    The partition into blocks is read on the host. It is a constant for derivatives, `torch.func.vmap` may batch the
    covariance but not the eigenvalues, and torch.export and fullgraph compilation refuse it.

    Args:
        covariance: b aᵀ, or its sum over pairs.
        eigenvalues: diagonal of Λ, in any order.
        tolerance: neighbours in the sorted spectrum that differ by at most `tolerance · max(1, λ_max)` count as
            one eigenvalue.
        special: rotations in every block; the block of a simple eigenvalue is then +1.
        damping: damping of the derivative, see `niso.polar`.

    Returns:
        Orthogonal maps that commute with Λ, one for each matrix.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, or a negative tolerance or damping.
        FloatingPointError: an eigenvalue, or an entry of a covariance, is NaN or infinite; under `torch.func` entries
            outside the blocks are not looked at.
        NotImplementedError: eigenvalues that `torch.func.vmap` batches.
    """
    check_tensors(covariance=(covariance, "* rank rank"), eigenvalues=(eigenvalues, "rank"))
    check_number("tolerance", tolerance)
    if not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()):  # polar sees blocks alone
        check_finite(covariance, "exact_isometric_map")
    tau = torch.zeros_like(covariance)
    for indices in eigenvalue_blocks(eigenvalues, tolerance):
        block = covariance[..., indices[:, :, None], indices[:, None, :]]  # (*batch, blocks of this size, m, m)
        tau[..., indices[:, :, None], indices[:, None, :]] = polar(block, special, damping)
    return tau


def eigenvalue_blocks(eigenvalues: Float[Tensor, " rank"], tolerance: float = 1e-6) -> list[Tensor]:
    """Indices of equal eigenvalues, as one (count, multiplicity) tensor for each multiplicity that occurs.

    Raises:
        FloatingPointError: one is NaN or infinite.
        NotImplementedError: `torch.func.vmap` batches them.
    """
    values, order = eigenvalues.detach().sort()
    try:
        finite = bool(values.isfinite().all())
    except RuntimeError:
        if not torch._C._are_functorch_transforms_active():
            raise
        raise NotImplementedError("torch.func.vmap cannot batch the eigenvalues of exact maps") from None
    if not finite:
        raise FloatingPointError(_NOT_FINITE)
    gap = tolerance * values[-1].clamp_min(1.0)
    starts = torch.cat([values.new_ones(1, dtype=torch.bool), values.diff() > gap]).nonzero().flatten()
    sizes = torch.cat([starts, starts.new_tensor([len(values)])]).diff()
    return [
        order[starts[sizes == size][:, None] + torch.arange(int(size), device=order.device)] for size in sizes.unique()
    ]


def _scaled(
    a: Float[Tensor, "*batch from channels"], b: Float[Tensor, "*batch to channels"]
) -> tuple[Tensor, Tensor, Float[Tensor, "*batch 1 1"]]:
    """Coefficients in float64, both divided by the size of a, on which no map depends, and the mean of the diagonal of
    a aᵀ. Where a is 0, or so small that gradients would overflow, it is 0 without a gradient, and so are maps."""
    faint = torch.finfo(a.dtype).tiny ** 0.5
    a, b = a.double(), b.double()
    size = torch.linalg.vector_norm(a.detach(), dim=(-2, -1), keepdim=True)
    faded = size <= faint  # not where it is NaN, which maps must be then
    size = size.where(~faded, 1)
    a = (a / size).where(~faded, 0)
    return a, b / size, a.square().sum(-1).mean(-1)[..., None, None]


@full_precision
def least_squares_map(
    a: Float[Tensor, "*batch rank channels"], b: Float[Tensor, "*batch rank channels"], ridge: float = 1e-6
) -> Float[Tensor, "*batch rank rank"]:
    """Unconstrained map b aᵀ (a aᵀ + r I)⁻¹, the minimiser of ‖τ a − b‖² + r ‖τ‖², solved in float64.

    Args:
        a, b: coefficients of an observation and of the transformed one.
        ridge: r as a share of the mean diagonal entry of a aᵀ; it keeps the system regular where channels < rank.

    Returns:
        Maps τ with τ a ≈ b, one for each pair.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, or a negative ridge.
        LinAlgError: (of torch.linalg) no ridge, and a matrix a aᵀ that is singular, as of fewer channels than the
            rank, where rounding does not hide it.

    Source: the functional maps of Ovsjanikov et al. 2012, without their regularisers.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"))
    check_number("ridge", ridge)
    dtype = a.dtype
    a, b, mean = _scaled(a, b)  # in float32 the normal equations have no correct digits along small singular values
    gram = a @ a.mT
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    regular = gram + (ridge * mean + (mean == 0)) * identity
    covariance = cross_covariance(a, b)
    if ridge >= _REGULAR:  # whether the system is singular need not be looked at: the host would wait for a GPU
        return torch.linalg.solve_ex(regular, covariance, left=False).result.to(dtype)
    return torch.linalg.solve(regular, covariance, left=False).to(dtype)


@full_precision
def commuting_map(
    a: Float[Tensor, "*batch from channels"],
    b: Float[Tensor, "*batch to channels"],
    eigenvalues: Float[Tensor, " from"],
    other_eigenvalues: Float[Tensor, " to"],
    weight: float = 1e-2,
) -> Float[Tensor, "*batch to from"]:
    """The classical functional map between two surfaces: C a ≈ b that nearly commutes with their Laplacians.

    The minimiser of ‖C a − b‖² + w ‖Λ′C − CΛ‖², row by row, with both terms relative to the size of a and of the
    largest |eigenvalue|, in float64. Ovsjanikov et al., "Functional maps: a flexible representation of maps between
    shapes", 2012.

    Args:
        a, b: coefficients of the same functions in the bases of the two surfaces.
        eigenvalues, other_eigenvalues: Λ of the basis of a, and Λ′ of that of b.
        weight: w, positive.

    Returns:
        Maps C from the first basis to the second.

    Raises:
        TypeError: an argument is not a tensor of floating-point numbers, or a weight not a number.
        ValueError: shapes that do not fit, or a weight that is not positive and finite.
        FloatingPointError: an eigenvalue is NaN or infinite; on a CPU, neither in compiled code nor under `torch.func`.
    """
    check_tensors(
        a=(a, "* from channels"),
        b=(b, "* to channels"),
        eigenvalues=(eigenvalues, "from"),
        other_eigenvalues=(other_eigenvalues, "to"),
    )
    check_number("weight", weight, positive=True)
    _check_finite(eigenvalues)
    _check_finite(other_eigenvalues)
    dtype = a.dtype
    a, b, size = _scaled(a, b)
    eigenvalues, other_eigenvalues = eigenvalues.double(), other_eigenvalues.double()
    gram, mean = a @ a.mT, size[..., None]
    both = torch.cat([eigenvalues, other_eigenvalues])
    largest = both.abs().max().clamp_min(torch.finfo(a.dtype).tiny)  # Laplacians may be negative
    apart = ((other_eigenvalues[:, None] - eigenvalues[None, :]) / largest).square()
    identity = torch.eye(len(eigenvalues), dtype=a.dtype, device=a.device)
    regular = gram[..., None, :, :] + mean * (weight * torch.diag_embed(apart) + 1e-9 * identity)
    regular = regular + (mean == 0) * identity
    return torch.linalg.solve(regular, (b @ a.mT)[..., None])[..., 0].to(dtype)
