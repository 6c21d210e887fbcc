"""Pictures of τ_Ω and of what constrains it that several experiments share."""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor

from niso import figures
from niso.functional_map import multiplicity_mask
from niso.methods import NeuralFourierTransform, OrthogonalAutoencoder
from niso.model import NeuralIsometry
from niso.report import Picture

LARGEST = 3.0
"""Entries of unconstrained maps, which may have any size, are cut off at it in pictures."""


def same_transformation(
    model: NeuralIsometry | NeuralFourierTransform | OrthogonalAutoencoder,
    pairs: tuple[Shaped[Tensor, "batch ..."], ...],
    thing: str,
    transformation: str,
) -> Picture:
    """Maps of two observations under each of a few transformations.

    Args:
        pairs: ψ, Tψ, other observations, and T of these.
        thing, transformation: what they are called.
    """
    x, tx, other, t_other = pairs
    first, second = model.map_between(x, tx).cpu(), model.map_between(other, t_other).cpu()
    if isinstance(model, NeuralIsometry):
        order = model.spectrum().eigenvalues.argsort().cpu()
        first, second = (tau[:, order][:, :, order] for tau in (first, second))
        caption = "|τ_Ω|, the eigenfunctions in ascending eigenvalue"
    elif isinstance(model, OrthogonalAutoencoder):
        caption = "|τ| between the latent points"
    else:
        first, second = first.clamp(-LARGEST, LARGEST), second.clamp(-LARGEST, LARGEST)
        caption = f"|V| after the block diagonalisation, entries cut off at {LARGEST:g}"
    return Picture(
        "maps",
        f"{caption}. A column is one {transformation}; the rows are two {thing}s that it was applied to. Where the "
        "maps know the transformation alone, the rows are alike.",
        figures.image_rows([(f"a {thing}", first.abs()), (f"another {thing}", second.abs())]),
    )


def mask(model: NeuralIsometry, x: Tensor, tx: Tensor, pairs: str) -> Picture:
    """The mask of eigenvalues beside maps under it; `pairs` says what these are a mean over."""
    eigenvalues = model.spectrum().eigenvalues.cpu()
    order = eigenvalues.argsort()
    tau = model.map_between(x, tx).cpu().abs().mean(0)[order][:, order]
    return Picture(
        "mask",
        "The mask exp(−|λᵢ − λⱼ|) that maps are solved under, eigenvalues ascending: blocks near one are eigenspaces "
        f"whose functions may mix. Beside it |τ_Ω|, the mean over {pairs}.",
        figures.matrix_pair(multiplicity_mask(eigenvalues[order]), tau, ("mask", "mean |τ_Ω|")),
    )
