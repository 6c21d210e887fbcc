"""Pictures of a torus run, in the order that its report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from niso import figures
from niso.geometry import torus
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.torus import Evaluation, Torus


@torch.no_grad()
def pictures(experiment: Torus) -> list[Picture]:
    """Eigenfunctions, operator, maps, transported images, spectrum and mass of a trained model."""
    size, held_out = experiment.config.size, experiment.held_out()
    grid, spectrum, truth = (size, size), held_out.spectrum, torus.harmonics(size)
    order = spectrum.eigenvalues.argsort()
    nearest = nearest_harmonics(held_out, truth)
    best = held_out.energy.amax(-1)
    planes = torch.zeros(held_out.energy.shape[1], dtype=torch.float64)
    planes[truth.spaces] = truth.eigenvalues
    by_plane = torch.tensor(sorted(range(len(order)), key=lambda i: (planes[s := held_out.spaces[i]], int(s))))
    sizes = torch.unique_consecutive(held_out.spaces[by_plane], return_counts=True)[1].tolist()
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
        Picture(
            "purity",
            "Energy of every eigenfunction in its best true plane; 1 is a pure harmonic. "
            "An eigenfunction at one half is shared evenly by two frequencies.",
            figures.energy_histogram(best[order], "energy in the best true plane"),
        ),
        Picture(
            "map",
            "The map τ_Ω solved for one held-out pair under a random shift: as learned, with the eigenfunctions "
            "ordered by the true plane that they were matched to, and the first blocks enlarged. A perfect map is "
            "zero outside the outlined blocks.",
            figures.map_before_after(held_out.tau[0], by_plane, sizes),
        ),
        Picture(
            "transport",
            "Held-out crops, the same under random shifts, and what the model predicts for them: the first row's "
            "coefficients mapped by τ_Ω and turned back into pixels. The last row is the error, on its own scale.",
            figures.image_rows(transported(held_out, size), (-1.0, 1.0)),
        ),
        Picture(
            "operator",
            "The learned operator Ω and the toric Laplacian. Training fixes the eigenspaces of Ω, but its "
            "eigenvalues only as far as they must differ.",
            figures.matrix_pair(spectrum.operator(), torus.laplacian(size), ("learned Ω", "toric Laplacian")),
        ),
        Picture(
            "spectrum",
            "Learned eigenvalues, in ascending order and against the Laplacian eigenvalue of the matched true plane; "
            "the eigenfunctions of one plane are joined.",
            figures.spectrum_plot(spectrum.eigenvalues, planes[held_out.spaces], held_out.spaces),
        ),
        Picture(
            "stencil",
            "The same two operators as stencils: the mean response to an impulse in the centre.",
            figures.kernel_pair(spectrum.operator(), torus.laplacian(size), grid, ("learned Ω", "toric Laplacian")),
        ),
        Picture(
            "mass",
            "Learned mass. The torus looks the same everywhere, so the true one is uniform.",
            figures.mass_map(spectrum.mass, grid),
        ),
    ]


def nearest_harmonics(held_out: Evaluation, truth: torus.Harmonics) -> Float[Tensor, "points rank"]:
    """Every learned eigenfunction projected on its best true plane."""
    coefficients = truth.functions.mT @ held_out.spectrum.eigenfunctions.double()
    return truth.functions @ (coefficients * (truth.spaces[:, None] == held_out.spaces))


def transported(held_out: Evaluation, size: int, count: int = 8) -> list[tuple[str, Tensor]]:
    """Crops, shifted crops, predictions through τ, and errors, of one held-out pair each."""
    spectrum = held_out.spectrum
    predicted = spectrum.unproject(held_out.tau @ spectrum.project(held_out.x))
    count = min(count, len(predicted))
    rows = {"ψ": held_out.x, "Tψ": held_out.tx, "predicted Tψ": predicted, "error": (predicted - held_out.tx)}
    images = {title: z[:count, :, :3].unflatten(1, (size, size)) for title, z in rows.items()}
    images["error"] = images["error"].abs().mean(-1)
    return list(images.items())
