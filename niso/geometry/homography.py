"""Homographies of the square: the group SL(3) by its Lie algebra, its sampling distributions, and image warps.

A homography H acts on points (row, column, 1) with row and column on linspace(−1, 1, n), the centres of the outermost
pixels at ±1. Its coefficients x are those of log H = Σ xᵢBᵢ in the basis

    E11 − I/3, E12, E13, E21, E22 − I/3, E23, E31, E32

of sl(3). Distributions: MacDonald, Ramasinghe, Lucey, "Enabling equivariance for arbitrary Lie groups", CVPR 2022.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

SCALES = (0.15, 0.35, 0.17, 0.35, 0.15, 0.17, 0.15, 0.15)
"""Standard deviations s of the pre-training coefficients, in the basis' order."""

_FAR = 4.0  # a place that bilinear sampling with zeros outside [−1, 1] never reads, for 2 pixels and more
_HORIZON = 1e-6  # relative depth below which a point counts as behind the horizon


@lru_cache
def _scales(dtype: torch.dtype, device: torch.device) -> Float[Tensor, " 8"]:
    with torch.inference_mode(False):  # cached: usable in training, whoever asked first
        return torch.tensor(SCALES, dtype=dtype, device=device)


def algebra(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 3 3"]:
    """Σ xᵢBᵢ: the traceless matrix of these coefficients."""
    x = coefficients.unbind(-1)
    third = (x[0] + x[4]) / 3
    rows = (x[0] - third, x[1], x[2], x[3], x[4] - third, x[5], x[6], x[7], -third)
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def coefficients_of(element: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 8"]:
    """Inverse of `algebra`: the coefficients of a traceless matrix; a trace is ignored."""
    m = element.flatten(-2).unbind(-1)
    return torch.stack((m[0] - m[8], m[1], m[2], m[3], m[4] - m[8], m[5], m[6], m[7]), dim=-1)


def matrix(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 3 3"]:
    """H = expm(Σ xᵢBᵢ), of determinant 1; matrix(−x) is its inverse, matrix(2x) its square.

    On CUDA, `torch.linalg.matrix_exp` makes the host wait: for a training step make the few matrices on the CPU.
    """
    return torch.linalg.matrix_exp(algebra(coefficients))


def sample_coefficients(
    count: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 8"]:
    """Coefficients of the pre-training distribution N(0, s²), s = SCALES; torch's global generator by default."""
    noise = torch.randn(count, 8, generator=generator, dtype=dtype, device=device)
    return noise * _scales(dtype, noise.device)


def walk_coefficients(
    count: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 8"]:
    """Coefficients of the test distribution, exactly by the published random walk.

    From x₀ ~ N(0, (s/2)²): move x' = x + N(0, (s/2)²), always, then stop with probability min(1, dvol(−x')/dvol(−x)).
    99.2 % stop after their first move, so that the outcome is nearly N(0, s²/2), narrower than `sample_coefficients`
    by √2. Not differentiable and not for every training step: the host waits for the number of walks still going.
    """

    def normal(size: int) -> Tensor:
        return 0.5 * sample_coefficients(size, generator, dtype, device)

    position = normal(count)
    walking = torch.arange(count, device=position.device)
    while len(walking):
        before = position[walking]
        after = before + normal(len(walking))
        position[walking] = after
        chance = torch.rand(len(walking), generator=generator, dtype=dtype, device=device)
        walking = walking[chance >= dvol(-after) / dvol(-before)]
    return position


def ad(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 8 8"]:
    """Adjoint ad_v: w ↦ [v, w] = vw − wv on coefficients, so that ad(v) @ w = −ad(w) @ v."""
    v = algebra(coefficients)[..., None, :, :]
    basis = algebra(torch.eye(8, dtype=v.dtype, device=v.device))
    return coefficients_of(v @ basis - basis @ v).mT


def dvol(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch"]:
    """|det Σ_{i<10} (−ad_v)ⁱ/(i+1)!|: volume density of the exponential map at v, by the published ten terms.

    Without truncation it is Π over the roots λ of v (differences of its eigenvalues) of (1 − e^(−λ))/λ; roots come
    as ±λ, therefore dvol(v) = dvol(−v).
    """
    negative = -ad(coefficients)
    identity = torch.eye(8, dtype=negative.dtype, device=negative.device)
    series = identity.expand_as(negative)
    for i in range(9, 0, -1):  # Horner: 1 + a/2 (1 + a/3 (… (1 + a/10)))
        series = identity + negative @ series / (i + 1)
    return torch.linalg.det(series).abs()


def warp(
    images: Float[Tensor, "batch channels height width"],
    matrices: Float[Tensor, "#batch 3 3"],
    background: float = 0.0,
) -> Float[Tensor, "batch channels height width"]:
    """Images under homographies: output pixel p is the image at H⁻¹p, bilinearly, and `background` outside of it.

    A left action: warping by A, then by B, is warping by B A up to interpolation. Differentiable in images and
    matrices. Points behind the horizon (third coordinate of H⁻¹p not positive) are background; nothing is divided
    there, so that neither values nor gradients are ever infinite or NaN. (Under T² of the pre-training distribution
    7.8 % of the homographies have such a corner.) Under autocast the places are computed in the matrices' own
    precision. The host never waits.

    Args:
        matrices: acting on (row, column, 1), see the module; one, or one for each image. A positive factor makes no
            difference; a negative one puts everything behind the horizon, as a singular or infinite matrix does.
            Their condition number may be up to 1e5.
        background: value around the image, e.g. −1 for black where pixels lie in [−1, 1].

    Raises:
        ValueError: an image has fewer than 2 rows or columns.
    """
    batch, _, height, width = images.shape
    if min(height, width) < 2:
        raise ValueError(f"a {height}×{width} image is too small for a homography: at least 2×2 pixels are needed")
    a, b, c = matrices.unbind(-2)
    inverse = torch.stack((b.cross(c, dim=-1), c.cross(a, dim=-1), a.cross(b, dim=-1)), dim=-1)  # up to a factor > 0
    inverse = inverse * (a * inverse[..., 0]).sum(-1)[..., None, None].sign()
    nearest = _HORIZON * inverse.norm(dim=(-2, -1))[:, None, None, None]
    rows = torch.linspace(-1, 1, height, dtype=inverse.dtype, device=inverse.device)
    columns = torch.linspace(-1, 1, width, dtype=inverse.dtype, device=inverse.device)
    inverse = inverse.flip(-2)  # (depth, column, row): the last two in grid_sample's order
    along_rows = inverse[..., 0, None] * rows
    along_columns = inverse[..., 1, None] * columns + inverse[..., 2, None]
    points = along_rows[..., :, None] + along_columns[..., None, :]  # (batch, 3, height, width)
    depth, plane = points[:, :1], points[:, 1:]
    seen = depth > nearest
    places = (plane / depth.where(seen, 1)).where(seen, _FAR).clamp(-_FAR, _FAR)
    places = places.to(images.dtype).permute(0, 2, 3, 1).expand(batch, height, width, 2)
    sampled = torch.nn.functional.grid_sample(
        images - background, places, mode="bilinear", padding_mode="zeros", align_corners=True
    )
    return sampled + background


def strength(matrices: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch"]:
    """How far a homography moves the image: mean distance |Hp − p| of the four corners p = (±1, ±1).

    In half image sides; in pixels after multiplication with (n − 1)/2. Infinite if a corner goes behind the horizon.
    """
    corners = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=matrices.dtype, device=matrices.device)
    moved = corners @ matrices[..., :2].mT + matrices[..., None, :, 2]  # (*batch, 4, 3)
    depth = moved[..., 2:]
    distance = (moved[..., :2] / depth.where(depth > 0, 1) - corners).norm(dim=-1)
    return distance.where(depth[..., 0] > 0, torch.inf).mean(-1)
