"""Pictures of trajectories of held-out sequences, and of what fails most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from niso.experiments.pose.trajectories import by_error, paths, spread
from niso.figures.style import GREY, ORANGE, styled
from niso.geometry import trajectories as trajectory
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.pose.experiment import Pose

COUNT = 6
"""Sequences and pairs shown, at most."""
WORST = 3
"""Sequences that are shown with their frames, at most."""
SHOWN = (1, 5)
"""Skips at which trajectories are shown."""

Paths = tuple[str, Float[Tensor, "frames 3"], Float[Tensor, "frames 3"]]
"""A title, a true path, and the predicted one as it is aligned with it."""
Strip = Float[np.ndarray, "_frames _height _width 3"]
"""Frames of a sequence, 0 … 1."""


def trajectories(experiment: Pose) -> list[Picture]:
    """True and predicted paths of held-out sequences: the best, the worst, and some in between."""
    return [
        Picture(
            f"trajectories_skip{skip}",
            f"Paths of the camera through held-out sequences, {skip} frames left out between neighbours: the truth "
            "(dashed, from the circle on) and what predicted relative poses compose to, after the similarity that "
            "brings it nearest, reflections allowed. Each is seen along the direction in which the true path is "
            "thinnest. From the smallest error √(3n)·ATE, in the title, to the largest.",
            draw_paths([_paths(experiment, number, skip) for number in spread(members, COUNT)]),
        )
        for skip in SHOWN
        if (members := by_error(experiment, skip))
    ]


def failures(experiment: Pose) -> list[Picture]:
    """Held-out sequences, and pairs of frames, with the largest errors."""
    skip = next((skip for skip in SHOWN if experiment.evaluation.errors.get(skip)), None)
    if skip is None:
        return []
    worst = by_error(experiment, skip)[: -WORST - 1 : -1]
    left_out = f"{skip} frame{'s' * (skip != 1)} left out between neighbours"
    pairs = sorted((_worst_pair(experiment, number, skip) for number in by_error(experiment, skip)), reverse=True)
    return [
        Picture(
            "failures",
            f"Failure cases: the held-out sequences with the largest errors √(3n)·ATE, {left_out}. Paths as above, and "
            "frames from the first to the last one.",
            draw_failures([(_paths(experiment, number, skip), _strip(experiment, number)) for number in worst]),
        ),
        Picture(
            "failures_pairs",
            "Failure cases: of each held-out sequence the pair of frames (one above the other) whose rotation is "
            f"furthest from the truth, {left_out}; the worst of them.",
            draw_pairs(
                [
                    (
                        f"{experiment.frames.names[number]}\nturned {turned:.0f}°\noff by {error:.0f}°",
                        _frames(experiment, number, torch.tensor([place, place + 1]) * (skip + 1)),
                    )
                    for error, turned, number, place in pairs[:COUNT]
                ]
            ),
        ),
    ]


def _paths(experiment: Pose, number: int, skip: int) -> Paths:
    poses, found = experiment.frames.poses[number], experiment.evaluation
    assert poses is not None
    error = found.errors[skip][number].ate_normalised
    return f"{experiment.frames.names[number]}: {error:.2f}", *paths(found.motions[skip][number], poses, skip)


def _worst_pair(experiment: Pose, number: int, skip: int) -> tuple[float, float, int, int]:
    """Largest error of a rotation in a sequence, the true angle (degrees), the sequence, and the pair's place."""
    poses, predicted = experiment.frames.poses[number], experiment.evaluation.motions[skip][number]
    assert poses is not None
    truth = trajectory.relative_poses(trajectory.subsample(poses, skip)).double()
    errors = trajectory.rotation_errors(predicted.double(), truth)
    place = int(errors.argmax())
    turned = trajectory.rotation_errors(truth[place], torch.eye(4, dtype=truth.dtype))
    return float(errors[place]), float(turned), number, place


def _strip(experiment: Pose, number: int) -> Strip:
    """Some frames of a sequence, the first and the last of those evaluated among them."""
    last = min(trajectory.FRAMES, int(experiment.frames.lengths[number])) - 1
    return _frames(experiment, number, torch.linspace(0, last, COUNT).round().long())


def _frames(experiment: Pose, number: int, chosen: Tensor) -> Strip:
    images = experiment.frames.read(torch.full_like(chosen, number), chosen)
    return (images.permute(0, 2, 3, 1).cpu().numpy() / 255).astype(np.float64)


@styled
def draw_paths(shown: Sequence[Paths]) -> Figure:
    """Pairs of paths side by side, each in the plane in which the true one is widest."""
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure((10, 3.2 * down + 0.3), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.axis("off")
    for axes, one in zip(panels, shown, strict=False):
        _draw_path(axes, one)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


@styled
def draw_failures(rows: Sequence[tuple[Paths, Strip]]) -> Figure:
    """A row for each sequence: its paths, and frames of it."""
    figure = Figure((10, 2.3 * len(rows) + 0.2), layout="constrained")
    widths = [2.2, *(1.0 for _ in rows[0][1])]
    cells = figure.subplots(len(rows), len(widths), squeeze=False, width_ratios=widths)
    for (first, *others), (one, strip) in zip(cells, rows, strict=True):
        _draw_path(first, one)
        for axes, image in zip(others, strip, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
    cells[0][0].legend(frameon=False, fontsize=8)
    return figure


@styled
def draw_pairs(columns: Sequence[tuple[str, Strip]]) -> Figure:
    """A column for each pair of frames, the title above it."""
    figure = Figure((1.65 * len(columns), 4.0), layout="constrained")
    cells = figure.subplots(2, len(columns), squeeze=False)
    for column, (title, pair) in zip(cells.T, columns, strict=True):
        for axes, image in zip(column, pair, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
        column[0].set_title(title, fontsize=8)
    return figure


def _draw_path(axes: Axes, shown: Paths) -> None:
    title, truth, predicted = shown
    centre = truth.mean(0)
    plane = torch.linalg.svd(truth - centre, full_matrices=False).Vh[:2].mT
    true, guess = ((path - centre) @ plane for path in (truth, predicted))
    axes.plot(*guess.mT.tolist(), color=ORANGE, label="predicted")
    axes.plot(*true.mT.tolist(), color="black", linestyle="--", linewidth=1, label="true")
    axes.plot(*true[:1].mT.tolist(), color="black", marker="o", markersize=4)
    axes.set(title=title, aspect="equal")
    axes.margins(0.1)
    axes.grid(True, color=GREY, alpha=0.2)
