"""Trajectories from relative poses of frames that are one, two, … apart: robust averages on SE(3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import roma
import scipy.sparse
import torch
from jaxtyping import Float, Int
from scipy.sparse.linalg import spsolve
from torch import Tensor

from niso.geometry import se3
from niso.geometry.trajectories import compose

ROUNDS = 5
"""Rounds of reweighting."""
GROWTH = 1.5
"""Errors of relative poses are taken to grow as the distance of their frames to this power: chosen on validation clips,
on which they grow a little more slowly than the distance."""

LEAST = 0.1
"""Share of the root mean square of the residuals below which none is an outlier, though half of them be 0."""

_TINY = 1e-12


def averaged(motions: Mapping[int, Float[Tensor, "_pairs 4 4"]]) -> Float[Tensor, "frames 4 4"]:
    """The trajectory that agrees best with relative poses, some of which may be far off: those of neighbours where
    frames up to five apart or more are given.

    Rotations come first: X minimises Σ w ‖XᵢRᵢⱼ − Xⱼ‖² over all matrices, and the rotations next to them are taken.
    Positions then minimise Σ w |pⱼ − pᵢ − Xᵢtᵢⱼ|². Both problems are linear and sparse. The weights w fall with the
    residuals as those of a Cauchy distribution, in a few rounds.

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
        return compose(steps.get(1, torch.empty(0, 4, 4, dtype=torch.float64)))
    first = torch.cat([torch.arange(len(part)) for part in steps.values()])
    apart = torch.cat([torch.full((len(part),), apart) for apart, part in steps.items()])
    second, expected, motion = first + apart, apart.double() ** GROWTH, torch.cat(list(steps.values()))
    rotation, identity = se3.rotation(motion), torch.eye(3, dtype=motion.dtype)

    def turn(weights: Tensor) -> tuple[Tensor, Tensor]:
        columns = _linear(first, second, rotation.mT, torch.zeros_like(rotation), identity, weights)
        found = roma.special_procrustes(columns.mT)
        return found, roma.rotmat_geodesic_distance(found[first] @ rotation, found[second])

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
        scale = relative.median().maximum(LEAST * relative.square().mean().sqrt()).clamp_min(_TINY)
        outlying = relative / scale
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
    frames, edges, rows = int(second.max()) + 1, len(first), len(start)
    row = rows * torch.arange(edges)[:, None, None] + torch.arange(rows)[:, None]
    column = rows * torch.stack((first, second))[..., None, None] + torch.arange(rows)
    values = torch.stack((-transport, torch.eye(rows, dtype=transport.dtype).expand_as(transport)))
    row, column = (part.expand_as(values).flatten() for part in (row, column))
    matrix = scipy.sparse.csr_matrix((values.flatten(), (row, column)), shape=(rows * edges, rows * frames))
    known, unknown = matrix[:, :rows], matrix[:, rows:]
    weighted = unknown.T @ scipy.sparse.diags(weights.repeat_interleave(rows).numpy())
    found = spsolve((weighted @ unknown).tocsc(), weighted @ (offset.flatten(0, 1).numpy() - known @ start.numpy()))
    return torch.cat((start[None], torch.from_numpy(np.asarray(found)).reshape(frames - 1, rows, -1)))
