"""How well each degree ℓ of the spherical harmonics was found."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from niso import metrics
from niso.experiments.laplacian.experiment import HeldOut
from niso.geometry.domains import sphere
from niso.linalg import polar
from niso.results import Curve
from niso.spectrum import Spectrum


class ByDegree(NamedTuple):
    """How well each degree ℓ was found, of those that any eigenfunction is matched to.

    Attributes:
        degrees, sizes: ℓ, and how many eigenfunctions are matched to it: 2ℓ + 1 where the rank suffices.
        spaces: the degree that each eigenfunction is matched to.
        energy: mean energy of these eigenfunctions in the true space of degree ℓ.
        angle: largest principal angle between their span and that space, in degrees of arc.
        agreement: ⟨τ, D⟩ / size, 1 where the block is the Wigner-D matrix.
        character_error: root mean square of trace τ_ℓ − χ_ℓ, which no choice of a basis changes.
        aligned: Q τ Qᵀ in the basis of the true harmonics, where Q is, for each degree, the polar factor of the inner
            products of true and learned functions: nothing of it is fitted to τ.
        wigner: D, of the rotations that were applied.
    """

    degrees: Int[Tensor, " degrees"]
    sizes: Int[Tensor, " degrees"]
    spaces: Int[Tensor, " rank"]
    energy: Float[Tensor, " degrees"]
    angle: Float[Tensor, " degrees"]
    agreement: Float[Tensor, " degrees"]
    character_error: Float[Tensor, " degrees"]
    aligned: Float[Tensor, "pairs true true"]
    wigner: Float[Tensor, "pairs true true"]

    @property
    def whole(self) -> Bool[Tensor, " degrees"]:
        """Whether all 2ℓ + 1 functions of a degree are matched: the rank may cut one, whose trace is no character."""
        return self.sizes == 2 * self.degrees + 1

    @property
    def mean_agreement(self) -> float:
        """⟨τ, D⟩ / rank of the whole maps."""
        return ((self.agreement * self.sizes).sum() / self.sizes.sum()).item()


def by_degree(
    held_out: HeldOut, truth: sphere.Harmonics, band: int, functions: Float[Tensor, "points true"] | None = None
) -> ByDegree:
    """How well each degree was found.

    Args:
        band: the bandwidth of the true functions.
        functions: the true ones at the points of the spectrum, by default those of the grid.
    """
    spectrum, spaces = held_out.spectrum, held_out.spaces
    functions = truth.functions if functions is None else functions
    degrees, sizes = spaces.unique(return_counts=True)
    inner = (functions * spectrum.mass.double()[:, None]).mT @ spectrum.eigenfunctions.double()
    align = torch.zeros_like(inner)
    energy, angle = [], []
    for ell in degrees:
        true, members = truth.spaces == ell, spaces == ell
        align[true[:, None] & members] = polar(inner[true][:, members]).flatten()
        energy.append(held_out.energy[members, ell].mean())
        parts = spectrum.eigenfunctions[:, members], functions[:, true]
        angle.append(metrics.principal_angles(spectrum.mass, *parts).max().rad2deg())
    aligned = align @ held_out.tau.double() @ align.mT
    wigner = sphere.wigner_d(held_out.motions.double(), band)
    same = (truth.spaces == degrees[:, None]).double()
    traces = aligned.diagonal(dim1=-2, dim2=-1) @ same.mT
    characters = sphere.characters(held_out.motions.double(), band)[:, degrees]
    return ByDegree(
        degrees,
        sizes,
        spaces,
        torch.stack(energy),
        torch.stack(angle),
        ((aligned * wigner).sum(-1) @ same.mT).mean(0) / sizes,
        (traces - characters).square().mean(0).sqrt(),
        aligned,
        wigner,
    )


def degree_metrics(spectrum: Spectrum, by: ByDegree, truth: sphere.Harmonics) -> dict[str, float]:
    """Metrics of the sphere alone."""
    from scipy.stats import spearmanr  # slow to import

    clusters = metrics.clusters(spectrum.eigenvalues)
    means = [spectrum.eigenvalues[by.spaces == ell].mean().item() for ell in by.degrees]
    whole = by.whole.tolist()
    blocks = [w and metrics.is_cluster(clusters, by.spaces == ell) for w, ell in zip(whole, by.degrees, strict=True)]
    errors = by.character_error[by.whole] if any(whole) else by.character_error
    return {
        "eigenspace_energy_worst_degree": by.energy.min().item(),
        "blocks_found": sum(blocks) / len(blocks),
        "principal_angle": by.angle.mean().item(),
        "principal_angle_worst": by.angle.max().item(),
        "wigner_agreement": by.mean_agreement,
        "character_error": errors.square().mean().sqrt().item(),
        "eigenvalue_order": float(spearmanr(by.degrees, means).statistic) if len(means) > 1 else 1.0,
        "mass_cosine": torch.cosine_similarity(spectrum.mass.double(), truth.weights, dim=0).item(),
    }


def curves(by: ByDegree) -> dict[str, Curve]:
    """How well each degree was found."""
    labels = {
        "eigenspace_energy": (by.energy, "energy in the true space"),
        "principal_angle": (by.angle, "largest principal angle (degrees of arc)"),
        "wigner_agreement": (by.agreement, "agreement with Wigner-D"),
        "character_error": (by.character_error, "character error"),
    }
    return {
        name: {
            "x": by.degrees.double().tolist(),
            "y": values.tolist(),
            "count": by.sizes.tolist(),
            "x_label": "degree ℓ",
            "y_label": label,
        }
        for name, (values, label) in labels.items()
    }
