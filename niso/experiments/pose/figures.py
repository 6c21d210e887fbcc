"""Pictures of a pose run, in the order that its report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from niso import figures
from niso.experiments import map_figures as map_pictures
from niso.experiments.pose.paths import failures, trajectories
from niso.experiments.pose.predictors import maps_between
from niso.methods import NeuralFourierTransform
from niso.model import NeuralIsometry
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.pose.experiment import Pose

COUNT = 6
"""Pairs that are shown."""


@torch.no_grad()
def pictures(experiment: Pose) -> list[Picture]:
    """Trajectories, failures, transported frames, maps and the learned spectrum, as far as the method has them."""
    experiment.predictor.eval()
    drawn = [*trajectories(experiment), *failures(experiment)]
    if experiment.model is not None:
        drawn += [frames(experiment), maps(experiment)]
    if isinstance(experiment.model, NeuralIsometry):
        drawn += spectrum(experiment)
    return drawn


def frames(experiment: Pose) -> Picture:
    """Held-out pairs of frames, and what the model makes of them."""
    model = experiment.model
    assert model is not None
    x, tx = next(experiment.held_out(COUNT))
    a, tau = model.encode(x), model.map_between(x, tx)
    rows = [("ψ", x), ("Tψ", tx), ("D E(ψ)", model.decode(a)), ("D τ E(ψ)", model.decode(tau @ a))]
    return Picture(
        "frames",
        "Two frames of held-out sequences, the reconstruction of the first, and the second as it is predicted from the "
        "first by the map τ solved from the pair.",
        figures.image_rows([(title, view.float().cpu().permute(0, 2, 3, 1)) for title, view in rows], (-1.0, 1.0)),
    )


def maps(experiment: Pose) -> Picture:
    """Maps between frames further and further apart."""
    model = experiment.model
    assert model is not None
    order = torch.arange(experiment.config.rank)
    fourier = isinstance(model, NeuralFourierTransform)
    caption = "|V| after the block diagonalisation" if fourier else "|τ| between the latent points"
    if isinstance(model, NeuralIsometry):
        order = model.spectrum().eigenvalues.argsort().cpu()
        caption = "|τ_Ω|, the eigenfunctions in ascending eigenvalue"
    members = experiment.test
    sequence = members[torch.arange(COUNT) % len(members)]
    rows = []
    for skip in (0, 3, 9):
        second = (experiment.frames.lengths[sequence] - 1).clamp_max(skip + 1)
        views = (experiment.frames(sequence, frame) for frame in (torch.zeros_like(second), second))
        tau = maps_between(model, *(model.encode(view) for view in views)).cpu().abs()
        if len(order) == tau.shape[-1]:
            tau = tau[:, order][:, :, order]
        rows.append((f"skip {skip}", tau.clamp_max(map_pictures.LARGEST)))
    return Picture(
        "maps",
        f"{caption}, between the first frame of held-out sequences (a column each) and a later one, 0, 3 and 9 frames "
        f"left out between them. Entries above {map_pictures.LARGEST:g} are cut off.",
        figures.image_rows(rows),
    )


def spectrum(experiment: Pose) -> list[Picture]:
    """Eigenfunctions, eigenvalue mask, and mass."""
    model = experiment.model
    assert isinstance(model, NeuralIsometry)
    mass, functions, eigenvalues = (part.cpu() for part in model.spectrum())
    order = eigenvalues.argsort()
    drawn = [
        Picture(
            "eigenfunctions",
            "Functions on the latent grid that latents are projected to, in ascending eigenvalue, row by row.",
            figures.eigenfunction_mosaic(functions[:, order], experiment.grid, eigenvalues[order]),
        ),
        Picture(
            "mass",
            "Learned mass on the latent grid, as its deviation from the mean.",
            figures.mass_map(mass, experiment.grid),
        ),
    ]
    if model.mask is not None:
        x, tx = next(experiment.held_out(COUNT))
        drawn.insert(1, map_pictures.mask(model, x, tx, "a few held-out pairs"))
    return drawn
