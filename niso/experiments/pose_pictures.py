"""Pictures of a pose run, in the order that its report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from niso import figures
from niso.experiments import map_pictures, pose_evaluation
from niso.experiments.pose_methods import maps_between
from niso.figures.style import GREY, ORANGE, styled
from niso.geometry import se3, trajectory
from niso.model import NeuralIsometry
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.pose import Pose

COUNT = 6
"""Pairs that are shown, and sequences at most."""
SHOWN = (1, 5)
"""Skips at which trajectories are shown."""

Paths = tuple[str, Float[Tensor, "frames 3"], Float[Tensor, "frames 3"]]
"""A title, a true path, and the predicted one as it is aligned with it."""


@torch.no_grad()
def pictures(experiment: Pose) -> list[Picture]:
    """Trajectories, transported frames, maps and the learned spectrum, as far as the method has them."""
    experiment.predictor.eval()
    drawn = trajectories(experiment)
    if experiment.model is not None:
        drawn += [frames(experiment), maps(experiment)]
    if isinstance(experiment.model, NeuralIsometry):
        drawn += spectrum(experiment)
    return drawn


def trajectories(experiment: Pose) -> list[Picture]:
    """True and predicted paths of held-out sequences: the best, the worst, and some in between."""
    drawn = []
    for skip in SHOWN:
        members = experiment.evaluated.members[skip]
        if not members:
            continue
        paths = sorted((_paths(experiment, number, skip) for number in members), key=lambda pair: pair[0])
        kept = [paths[place] for place in _spread(len(paths), COUNT)]
        drawn.append(
            Picture(
                f"trajectories_skip{skip}",
                f"Paths of the camera through held-out sequences, {skip} frames left out between neighbours: the truth "
                "(dashed, from the circle on) and what predicted relative poses compose to, after the similarity that "
                "brings it nearest, reflections allowed. Each is seen along the direction in which the true path is "
                "thinnest. From the smallest error √(3n)·ATE, in the title, to the largest: the last is the failure.",
                draw_paths([path for _, path in kept]),
            )
        )
    return drawn


def _spread(total: int, count: int) -> list[int]:
    """Up to `count` places of `total`, the first and the last among them."""
    count = min(count, total)
    return [round(place * (total - 1) / max(1, count - 1)) for place in range(count)]


def _paths(experiment: Pose, number: int, skip: int) -> tuple[float, Paths]:
    frames, poses = experiment.frames, experiment.frames.poses[number]
    assert poses is not None
    seen = pose_evaluation.features(experiment.predictor, frames, number)
    motions = pose_evaluation.motions(experiment.predictor, seen, skip).double()
    truth = se3.translation(trajectory.subsample(poses, skip))
    predicted = se3.translation(trajectory.compose(motions))
    error = float(trajectory.ate_normalised(predicted, truth))
    aligned = trajectory.aligned(predicted, truth, reflections=True)
    return error, (f"{frames.names[number]}: {error:.2f}", truth, aligned)


@styled
def draw_paths(paths: Sequence[Paths]) -> Figure:
    """Pairs of paths side by side, each in the plane in which the true one is widest."""
    across = min(3, len(paths))
    down = -(-len(paths) // across)
    figure = Figure((10, 3.2 * down + 0.3), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(paths) :]:
        axes.axis("off")
    for axes, (title, truth, predicted) in zip(panels, paths, strict=False):
        centre = truth.mean(0)
        plane = torch.linalg.svd(truth - centre, full_matrices=False).Vh[:2].mT
        true, guess = ((path - centre) @ plane for path in (truth, predicted))
        axes.plot(*guess.mT.tolist(), color=ORANGE, label="predicted")
        axes.plot(*true.mT.tolist(), color="black", linestyle="--", linewidth=1, label="true")
        axes.plot(*true[:1].mT.tolist(), color="black", marker="o", markersize=4)
        axes.set(title=title, aspect="equal")
        axes.margins(0.1)
        axes.grid(True, color=GREY, alpha=0.2)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


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
    caption = "|V| after the block diagonalisation"
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
