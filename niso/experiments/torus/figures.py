"""Figures of a torus result, in the order that its report shows them."""

from __future__ import annotations

import torch

from niso import figures
from niso.experiments.laplacian import figures as shared
from niso.experiments.laplacian.experiment import LaplacianResult
from niso.report import Picture

SPACE = "frequency plane"


def eigenfunctions(result: LaplacianResult) -> Picture:
    """Learned eigenfunctions beside the nearest true harmonics."""
    spectrum = result.held_out.spectrum
    order = spectrum.eigenvalues.argsort()
    nearest = shared.nearest_harmonics(result, torch.ones(len(spectrum.mass)))
    return Picture(
        "eigenfunctions",
        "Learned eigenfunctions in ascending eigenvalue, and for each its projection on the true frequency plane that "
        "it is matched to, on the same scale: faint where little of it lies there. Where the two agree, the harmonic "
        "was found; within a plane sine and cosine are free to turn.",
        figures.eigenfunction_mosaic(
            spectrum.eigenfunctions[:, order], result.grid, spectrum.eigenvalues[order], nearest[:, order]
        ),
    )


def stencil(result: LaplacianResult) -> Picture:
    """Ω and the true Laplacian as stencils."""
    operator = result.held_out.spectrum.operator()
    return Picture(
        "stencil",
        "The same two operators as stencils: the mean response to an impulse in the centre.",
        figures.kernel_pair(operator, result.laplacian, result.grid, ("learned Ω", "toric Laplacian")),
    )


def mass(result: LaplacianResult) -> Picture:
    """The learned mass."""
    return Picture(
        "mass",
        "Learned mass. The torus looks the same everywhere, so the true one is uniform.",
        figures.mass_map(result.held_out.spectrum.mass, result.grid),
    )


FIGURES = (
    eigenfunctions,
    lambda result: shared.purity(result, SPACE),
    lambda result: shared.first_map(result, SPACE),
    shared.transport,
    shared.map_errors,
    lambda result: shared.operators(result, "toric Laplacian"),
    lambda result: shared.eigenvalues(result, SPACE),
    stencil,
    mass,
)
