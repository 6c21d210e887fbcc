"""Trajectories from relative poses of frames that are one, two, … apart: robust averages on SE(3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from scipy.linalg import solveh_banded
from torch import Tensor

from niso.geometry import se3, so3
from niso.geometry.trajectories import compose, relative_poses

ROUNDS = 5
"""Rounds of reweighting."""
GROWTH = 1.5
"""Errors of relative poses are taken to grow as the distance of their frames to this power: chosen on validation clips,
on which they grow a little more slowly than the distance."""

LEAST = 0.1
"""Share of the root mean square of the residuals below which none is an outlier, though half of them be 0."""

WINDOW, MARGIN = 1_000, 100
"""Steps of a window of long trajectories, and further ones on either side of it that are averaged with them. Where
relative poses contradict each other, X shrinks from frame to frame, after many below the smallest number there is."""


def averaged(motions: Mapping[int, Float[Tensor, "_pairs 4 4"]]) -> Float[Tensor, "frames 4 4"]:
    """The trajectory that agrees best with relative poses, some of which may be far off: those of neighbours where
    frames up to five apart or more are given.

    Rotations come first: X minimises Σ w ‖XᵢRᵢⱼ − Xⱼ‖² over all matrices, and the rotations next to them are taken.
    Positions then minimise Σ w |pⱼ − pᵢ − Xᵢtᵢⱼ|². Both problems are linear, with banded matrices. The weights w fall
    with the residuals as those of a Cauchy distribution, in a few rounds. Long trajectories are averaged in windows
    that overlap.

    Args:
        motions: by the distance of two frames, 1 among them: the pose of frame i + distance as frame i sees it, for
            all i = 0, 1, …

    Returns:
        Poses from the identity on, in float64 on the CPU; with the distance 1 alone, those of `compose`.

    Raises:
        ValueError: no motions between neighbours, or one that is not finite.
    """
    steps = {apart: part.detach().double().cpu() for apart, part in sorted(motions.items()) if len(part)}
    if steps and 1 not in steps:
        raise ValueError(
            f"motions between neighbours are needed, got those of frames {', '.join(map(str, steps))} apart"
        )
    if not all(part.isfinite().all() for part in steps.values()):
        raise ValueError("a motion is not finite")
    if set(steps) <= {1}:
        return compose(steps.get(1, torch.empty(0, 4, 4, dtype=torch.float64, device="cpu")))
    last = len(steps[1])
    if last < WINDOW + 2 * MARGIN:
        return _averaged(steps)
    parts = list[Tensor]()
    for start in range(0, last, WINDOW):
        low, high = max(start - MARGIN, 0), min(start + WINDOW + MARGIN, last)
        within = {apart: part[low : max(low, high + 1 - apart)] for apart, part in steps.items()}
        window = _averaged({apart: part for apart, part in within.items() if len(part)})
        parts.append(relative_poses(window)[start - low :][:WINDOW])
    return compose(torch.cat(parts))


def _averaged(steps: Mapping[int, Float[Tensor, "_pairs 4 4"]]) -> Float[Tensor, "frames 4 4"]:
    first = torch.cat([torch.arange(len(part), device="cpu") for part in steps.values()])
    apart = torch.cat([torch.full((len(part),), apart, device="cpu") for apart, part in steps.items()])
    second, expected, motion = first + apart, apart.double() ** GROWTH, torch.cat(list(steps.values()))
    rotation, identity = se3.rotation(motion), torch.eye(3, dtype=motion.dtype, device="cpu")

    def turn(weights: Tensor) -> tuple[Tensor, Tensor]:
        columns = _linear(first, second, rotation.mT, torch.zeros_like(rotation), identity, weights)
        found = so3.special_procrustes(columns.mT)
        return found, so3.rotmat_geodesic_distance(found[first] @ rotation, found[second])

    turned = _reweighted(turn, expected)
    moved = turned[first] @ se3.translation(motion)[..., None]

    def move(weights: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like(moved[:, :1, :1])
        places = _linear(first, second, one, moved.mT, torch.zeros_like(moved[0].mT), weights)[:, 0]
        return places, (places[second] - places[first] - moved[..., 0]).norm(dim=-1)

    return se3.pose(turned, _reweighted(move, expected))


def _reweighted(
    solve: Callable[[Tensor], tuple[Tensor, Tensor]], expected: Float[Tensor, " edges"]
) -> Float[Tensor, "frames ..."]:
    """Solutions by weights that depend on the residuals of the last one."""
    weights = expected.square().reciprocal()
    for _ in range(ROUNDS):
        found, residuals = solve(weights)
        relative = residuals / expected
        scale = relative.median().maximum(LEAST * relative.square().mean().sqrt())
        outlying = relative / scale.clamp_min(torch.finfo(scale.dtype).tiny)  # where all are 0
        weights = (expected.square() * (1 + outlying.square())).reciprocal()
    return found


def _linear(
    first: Int[Tensor, " edges"],
    second: Int[Tensor, " edges"],
    transport: Float[Tensor, "edges rows rows"],
    offset: Float[Tensor, "edges rows columns"],
    start: Float[Tensor, "rows columns"],
    weights: Float[Tensor, " edges"],
) -> Float[Tensor, "frames rows columns"]:
    """Y with the least Σ w ‖Y_second − transport Y_first − offset‖² of which the first is `start`."""
    frames, reach, rows = int(second.max()) + 1, int((second - first).max()), len(start)
    weight, weighted = weights[:, None, None], weights[:, None, None] * transport
    normal = start.new_zeros(frames, reach + 1, rows, rows)  # equations: the block of row i + j and column i at i, j
    normal[first, second - first] = -weighted
    normal[:, 0].index_add_(0, first, weighted.mT @ transport)
    normal[:, 0].index_add_(0, second, weight * torch.eye(rows, dtype=start.dtype, device="cpu"))
    right = start.new_zeros(frames, *start.shape)
    right.index_add_(0, first, -weighted.mT @ offset).index_add_(0, second, weight * offset)
    right[1 : reach + 1] -= normal[0, 1:] @ start
    columns = normal[1:].movedim(-1, 1).flatten(2)  # of each unknown frame, from its first row down
    band = start.new_zeros(columns.shape[-1], frames - 1, rows)  # from the diagonal down
    for column in range(rows):
        band[: len(band) - column, :, column] = columns[:, column, column:].mT
    found = solveh_banded(band.flatten(1).numpy(), right[1:].flatten(0, 1).numpy(), lower=True)
    return torch.cat((start[None], torch.from_numpy(found).unflatten(0, (-1, rows))))
