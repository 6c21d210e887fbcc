"""Pictures of a torus run, in the order that its report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from niso import figures
from niso.experiments.laplacian import figures as shared
from niso.geometry.domains import torus
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.laplacian.torus import Torus

SPACE = "frequency plane"


@torch.no_grad()
def pictures(experiment: Torus) -> list[Picture]:
    """Eigenfunctions, operator, maps, transported images, spectrum and mass of a trained model."""
    size, held_out = experiment.config.size, experiment.held_out()
    grid, spectrum, truth = (size, size), held_out.spectrum, torus.harmonics(size)
    order = spectrum.eigenvalues.argsort()
    nearest = shared.nearest_harmonics(held_out, truth, torch.ones(size * size), held_out.spaces)
    values, operator, laplacian = experiment.space_eigenvalues(), spectrum.operator(), torus.laplacian(size)
    return [
        Picture(
            "eigenfunctions",
            "Learned eigenfunctions in ascending eigenvalue (left), and beside each its projection on the true "
            "frequency plane that holds most of its energy (right). Where the two agree, the harmonic was found; "
            "within a plane sine and cosine are free to turn.",
            figures.eigenfunction_mosaic(
                spectrum.eigenfunctions[:, order], grid, spectrum.eigenvalues[order], nearest[:, order]
            ),
        ),
        shared.purity(held_out, SPACE),
        shared.first_map(held_out, values, held_out.spaces, SPACE),
        shared.transport(held_out, size),
        shared.operators(operator, laplacian, "toric Laplacian"),
        shared.eigenvalues(held_out, values, held_out.spaces, SPACE),
        Picture(
            "stencil",
            "The same two operators as stencils: the mean response to an impulse in the centre.",
            figures.kernel_pair(operator, laplacian, grid, ("learned Ω", "toric Laplacian")),
        ),
        Picture(
            "mass",
            "Learned mass. The torus looks the same everywhere, so the true one is uniform.",
            figures.mass_map(spectrum.mass, grid),
        ),
    ]
