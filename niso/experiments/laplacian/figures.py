"""Figures that the reports of torus and sphere share."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso import figures
from niso.experiments.laplacian.experiment import MASKS, LaplacianResult
from niso.report import Picture


def purity(result: LaplacianResult, space: str) -> Picture:
    """How purely every eigenfunction lies in its best true space; `space` names these."""
    order = result.held_out.spectrum.eigenvalues.argsort()
    return Picture(
        "purity",
        f"Energy of every eigenfunction in its best true {space}; 1 is a pure harmonic. An eigenfunction at one half "
        "may be shared evenly by two of them; one near 0 is in none of those the rank holds. The line is the mean.",
        figures.energy_histogram(result.held_out.energy.amax(-1)[order], f"energy in the best true {space}"),
    )


def first_map(result: LaplacianResult, space: str) -> Picture:
    """One τ_Ω, as it is and ordered by the true space that each eigenfunction is matched to."""
    values, spaces = result.values, result.held_out.spaces
    order = torch.tensor(sorted(range(len(spaces)), key=lambda i: (values[s := spaces[i]], int(s))))
    sizes = torch.unique_consecutive(spaces[order], return_counts=True)[1].tolist()
    return Picture(
        "map",
        "The map τ_Ω solved for one held-out pair: as learned, with the eigenfunctions ordered by the true "
        f"{space} that they were matched to, and the first blocks enlarged. A perfect map is zero outside the outlined "
        "blocks.",
        figures.map_before_after(result.held_out.tau[0], order, sizes),
    )


def transport(result: LaplacianResult, count: int = 8) -> Picture:
    """Observations, the same moved, and the model's predictions."""
    held_out, spectrum = result.held_out, result.held_out.spectrum
    predicted = spectrum.unproject(held_out.tau @ spectrum.project(held_out.x))
    rows = {"ψ": held_out.x, "Tψ": held_out.tx, "predicted Tψ": predicted, "error": predicted - held_out.tx}
    images = {title: z[:count, :, :3].unflatten(1, result.grid) for title, z in rows.items()}
    images["error"] = images["error"].abs().mean(-1)
    return Picture(
        "transport",
        "Held-out crops, the same moved at random, and what the model predicts for them: the first row's "
        "coefficients mapped by τ_Ω and turned back into pixels. The last row is the error, on a scale of its own.",
        figures.image_rows(list(images.items()), (-1.0, 1.0)),
    )


def map_errors(result: LaplacianResult) -> Picture:
    """What the operator is worth: errors of maps that are solved from few crops, with its mask and without."""
    labels = ("orthogonal maps that nearly commute with Ω", "orthogonal maps without the operator")
    curves = [result.curves[key] for key in MASKS]
    bands = [
        figures.Band(label, np.array(curve["x"]), np.array(curve["y"]), colour=number)
        for number, (label, curve) in enumerate(zip(labels, curves, strict=True))
    ]
    picture = figures.bands(bands, curves[0]["x_label"], curves[0]["y_label"], curves[0]["logarithmic"])
    return Picture(
        "map_errors",
        "Errors of maps on crops that they were not solved from. A map that commutes with Ω is found from as many "
        "channels as its largest eigenspace has dimensions. One without the operator takes as many channels as there "
        "are eigenfunctions; from fewer it is 0 on what they do not show. What ends at the lower edge is below it.",
        picture,
    )


def operators(result: LaplacianResult, name: str) -> Picture:
    """Ω beside the true Laplacian."""
    learned = result.held_out.spectrum.operator()
    return Picture(
        "operator",
        f"The learned operator Ω and the {name}. Training fixes the eigenspaces of Ω, but its eigenvalues only as "
        "far as they must differ.",
        figures.matrix_pair(learned, result.laplacian, ("learned Ω", name)),
    )


def eigenvalues(result: LaplacianResult, space: str) -> Picture:
    """Learned eigenvalues against true ones."""
    spaces = result.held_out.spaces
    return Picture(
        "spectrum",
        f"Learned eigenvalues, in ascending order and against the Laplacian eigenvalue of the matched true {space}; "
        "the eigenfunctions of one are joined.",
        figures.spectrum_plot(result.held_out.spectrum.eigenvalues, result.values[spaces], spaces),
    )


def nearest_harmonics(result: LaplacianResult, inner: Float[Tensor, " points"]) -> Float[Tensor, "points rank"]:
    """Every learned eigenfunction projected on the true space that it is matched to.

    Args:
        inner: weights of the inner product in which the true functions are orthonormal.
    """
    truth, held_out = result.truth, result.held_out
    coefficients = (truth.functions * inner[:, None]).mT @ held_out.spectrum.eigenfunctions.double()
    return truth.functions @ (coefficients * (truth.spaces[:, None] == held_out.spaces))
