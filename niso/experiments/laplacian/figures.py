"""Pictures that the reports of torus and sphere share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso import figures
from niso.experiments.laplacian.experiment import Evaluation, Truth
from niso.report import Picture


def purity(held_out: Evaluation, what: str) -> Picture:
    """How purely every eigenfunction lies in its best true space, which is called `what`."""
    order = held_out.spectrum.eigenvalues.argsort()
    return Picture(
        "purity",
        f"Energy of every eigenfunction in its best true {what}; 1 is a pure harmonic. "
        "An eigenfunction at one half is shared evenly by two of them.",
        figures.energy_histogram(held_out.energy.amax(-1)[order], f"energy in the best true {what}"),
    )


def first_map(
    held_out: Evaluation, values: Float[Tensor, " spaces"], spaces: Int[Tensor, " rank"], what: str
) -> Picture:
    """One τ_Ω, as it is and ordered by the true space that each eigenfunction is matched to.

    Args:
        values: Laplacian eigenvalue of every space.
        spaces: the space of every eigenfunction.
    """
    order = torch.tensor(sorted(range(len(spaces)), key=lambda i: (values[s := spaces[i]], int(s))))
    sizes = torch.unique_consecutive(spaces[order], return_counts=True)[1].tolist()
    return Picture(
        "map",
        "The map τ_Ω solved for one held-out pair: as learned, with the eigenfunctions ordered by the true "
        f"{what} that they were matched to, and the first blocks enlarged. A perfect map is zero outside the outlined "
        "blocks.",
        figures.map_before_after(held_out.tau[0], order, sizes),
    )


def transport(held_out: Evaluation, size: int) -> Picture:
    """Observations, the same moved, and the model's predictions."""
    return Picture(
        "transport",
        "Held-out crops, the same moved at random, and what the model predicts for them: the first row's "
        "coefficients mapped by τ_Ω and turned back into pixels. The last row is the error, on its own scale.",
        figures.image_rows(transported(held_out, size), (-1.0, 1.0)),
    )


def operators(learned: Float[Tensor, "points points"], true: Float[Tensor, "points points"], name: str) -> Picture:
    """Ω beside the true Laplacian."""
    return Picture(
        "operator",
        f"The learned operator Ω and the {name}. Training fixes the eigenspaces of Ω, but its eigenvalues only as "
        "far as they must differ.",
        figures.matrix_pair(learned, true, ("learned Ω", name)),
    )


def eigenvalues(
    held_out: Evaluation, values: Float[Tensor, " spaces"], spaces: Int[Tensor, " rank"], what: str
) -> Picture:
    """Learned eigenvalues against true ones."""
    return Picture(
        "spectrum",
        f"Learned eigenvalues, in ascending order and against the Laplacian eigenvalue of the matched true {what}; "
        "the eigenfunctions of one are joined.",
        figures.spectrum_plot(held_out.spectrum.eigenvalues, values[spaces], spaces),
    )


def nearest_harmonics(
    held_out: Evaluation, truth: Truth, inner: Float[Tensor, " points"], spaces: Int[Tensor, " rank"]
) -> Float[Tensor, "points rank"]:
    """Every learned eigenfunction projected on the true space that it is matched to.

    Args:
        inner: weights of the inner product in which the true functions are orthonormal.
    """
    coefficients = (truth.functions * inner[:, None]).mT @ held_out.spectrum.eigenfunctions.double()
    return truth.functions @ (coefficients * (truth.spaces[:, None] == spaces))


def transported(held_out: Evaluation, size: int, count: int = 8) -> Sequence[tuple[str, Tensor]]:
    """Crops, moved crops, predictions through τ, and errors, of one held-out pair each."""
    spectrum = held_out.spectrum
    predicted = spectrum.unproject(held_out.tau @ spectrum.project(held_out.x))
    count = min(count, len(predicted))
    rows = {"ψ": held_out.x, "Tψ": held_out.tx, "predicted Tψ": predicted, "error": (predicted - held_out.tx)}
    images = {title: z[:count, :, :3].unflatten(1, (size, size)) for title, z in rows.items()}
    images["error"] = images["error"].abs().mean(-1)
    return list(images.items())
