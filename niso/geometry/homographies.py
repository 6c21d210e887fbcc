"""Homographies of the square: the group SL(3) by its Lie algebra, distributions on it, and warps of images.

A homography H acts on points (row, column, 1), where row and column lie on linspace(−1, 1, n): the centres of the
outermost pixels are at ±1. Its coefficients x are those of log H = Σ xᵢBᵢ in the basis

    E11 − I/3, E12, E13, E21, E22 − I/3, E23, E31, E32

of sl(3). Distributions: MacDonald, Ramasinghe, Lucey, "Enabling equivariance for arbitrary Lie groups", CVPR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_images, in_single_precision, on_device_of
from niso.geometry.interpolation import interpolated
from niso.linalg import matmul

SCALES = (0.15, 0.35, 0.17, 0.35, 0.15, 0.17, 0.15, 0.15)
"""Standard deviations s of the coefficients in pre-training, in the order of the basis."""

_FAR = 4.0  # bilinear sampling here reads no pixel of an image with 2 pixels or more in each direction
_HORIZON = 1e-6  # relative depth below which a point counts as behind the horizon


class PlaneMaps:
    """Base of homographies and their subgroups, which say what is drawn. See `Homographies` for conventions."""

    unit: ClassVar[str] = "half image sides"  # that the corners move, in the mean

    background: float

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch channels height width"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch channels height width"]:
        """Images under homographies: output pixel p is the image at H⁻¹p by bilinear interpolation.

        Points outside the image are background, and so are points behind the horizon, where the third coordinate of
        H⁻¹p is not positive. No division takes place there, so that values are never infinite or NaN, nor are
        gradients where matrices are finite. (7.8 % of the squares T² of homographies of the pre-training distribution
        have such a corner.) Differentiable in images and matrices. The places H⁻¹p are computed in float32 or the
        precision of the images, under autocast, too. The host never waits for the device.

        Args:
            t: matrices that act on (row, column, 1), see the module. A positive factor makes no difference. A negative
                one puts everything behind the horizon, as does a singular or infinite matrix. The condition number may
                be up to 1e4: beyond, float32 may lose the sign of the determinant.

        Raises:
            ValueError: an image has fewer than 2 rows or columns.
        """
        batch, _, height, width = x.shape
        if min(height, width) < 2:
            raise ValueError(f"a {height}×{width} image is too small for a homography: at least 2×2 pixels are needed")
        t = on_device_of(x, t).to(x.dtype)
        t = t / t.detach().abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(t.dtype).tiny)
        back = PlaneMaps.inverse(self, t)  # without the division of a subgroup's
        nearest = _HORIZON * back.norm(dim=(-2, -1))[:, None, None, None]
        rows = torch.linspace(-1, 1, height, dtype=back.dtype, device=back.device)
        columns = torch.linspace(-1, 1, width, dtype=back.dtype, device=back.device)
        back = back.flip(-2)  # (depth, column, row), the last two in the order of places
        along_rows = back[..., 0, None] * rows
        along_columns = back[..., 1, None] * columns + back[..., 2, None]
        points = along_rows[..., :, None] + along_columns[..., None, :]  # (batch, 3, height, width)
        depth, plane = points[:, :1], points[:, 1:]
        seen = depth > nearest
        places = (plane / depth.where(seen, 1)).where(seen, _FAR).clamp(-_FAR, _FAR)
        places = places.permute(0, 2, 3, 1).expand(batch, height, width, 2)
        return interpolated(x, places, self.background, corners=True)

    def compose(
        self, second: Float[Tensor, "batch 3 3"], first: Float[Tensor, "batch 3 3"]
    ) -> Float[Tensor, "batch 3 3"]:
        return matmul(second, first)

    def inverse(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
        """No solver. Up to a positive factor where the determinant is not ±1; 0 for a singular matrix."""
        a, b, c = t.unbind(-2)
        adjugate = torch.stack((b.cross(c, dim=-1), c.cross(a, dim=-1), a.cross(b, dim=-1)), dim=-1)
        return adjugate * (a * adjugate[..., 0]).sum(-1)[..., None, None].sign()

    def strength(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, " batch"]:
        """Mean distance |Hp − p| by which the corners p = (±1, ±1) move; infinite if one goes behind the horizon."""
        corners = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=t.dtype, device=t.device)
        moved = corners @ t[..., :2].mT + t[:, None, :, 2]  # (batch, 4, 3)
        depth = moved[..., 2:]
        distance = (moved[..., :2] / depth.where(depth > 0, 1) - corners).norm(dim=-1)
        return distance.where(depth[..., 0] > 0, torch.inf).mean(-1)

    def corner_displacement(self, t: Float[Tensor, "batch 3 3"], side: int) -> Float[Tensor, " batch"]:
        """The strength in pixels of images of side × side pixels."""
        return (side - 1) / 2 * self.strength(t)


@dataclass(frozen=True)
class Homographies(PlaneMaps):
    """Random homographies of images; see `niso.geometry.action.Action`.

    They are a local group: what a homography moves out of the image is lost to the next one, and what it moves behind
    the horizon becomes background. Observations are (batch, channels, height, width). Transformations are (batch, 3, 3)
    matrices of determinant 1, in float64 as sampled.

    Attributes:
        background: value around the image; −1 is black where pixels lie in [−1, 1].
        deviation: factor on the standard deviations of the coefficients, `SCALES`.
    """

    background: float = -1.0
    deviation: float = 1.0

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> Homographies:
        """Of images; ValueError for others, or for images of one row or column."""
        check_images(kind, shape)
        return cls()

    def test_distribution(self) -> Homographies:
        """Those of the published test set, which are smaller; of a subclass, which draws others, itself."""
        return WalkedHomographies(self.background, self.deviation) if type(self) is Homographies else self

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        return matrix(sample_coefficients(count, generator, self.deviation))


class WalkedHomographies(Homographies):
    """`Homographies` of the published test distribution, see `walk_coefficients`. Observations are the same."""

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        return matrix(walk_coefficients(count, generator, self.deviation))


def algebra(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 3 3"]:
    """Σ xᵢBᵢ, the traceless matrix with these coefficients."""
    x = coefficients.unbind(-1)
    third = (x[0] + x[4]) / 3
    rows = (x[0] - third, x[1], x[2], x[3], x[4] - third, x[5], x[6], x[7], -third)
    return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))


def coefficients_of(element: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 8"]:
    """Inverse of `algebra`: the coefficients of a traceless matrix; its trace is ignored."""
    m = element.flatten(-2).unbind(-1)
    return torch.stack((m[0] - m[8], m[1], m[2], m[3], m[4] - m[8], m[5], m[6], m[7]), dim=-1)


def matrix(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 3 3"]:
    """H = expm(Σ xᵢBᵢ), of determinant 1; matrix(−x) is its inverse, matrix(2x) its square.

    On CUDA, `torch.linalg.matrix_exp` makes the host wait; in a training step, compute the few matrices on the CPU.
    """
    return torch.linalg.matrix_exp(algebra(coefficients))


def sample_coefficients(
    count: int, generator: torch.Generator | None = None, deviation: float = 1.0
) -> Float[Tensor, "count 8"]:
    """Coefficients of the pre-training distribution N(0, s²), s = SCALES times a factor, in float64."""
    noise = torch.randn(count, 8, generator=generator, dtype=torch.float64, device="cpu")
    return noise * (deviation * torch.tensor(SCALES, dtype=torch.float64, device="cpu"))


def walk_coefficients(
    count: int, generator: torch.Generator | None, deviation: float = 1.0
) -> Float[Tensor, "count 8"]:
    """Coefficients of the test distribution, by exactly the published random walk, in float64.

    It starts at x₀ ~ N(0, (s/2)²), always moves to x' = x + N(0, (s/2)²), and then stops with probability
    min(1, dvol(−x')/dvol(−x)). 99.1 % of the walks stop after their first move, so the result is nearly N(0, s²/2),
    narrower than `sample_coefficients` by √2.
    """
    position = 0.5 * sample_coefficients(count, generator, deviation)
    walking = torch.arange(count, device="cpu")
    while len(walking):
        before = position[walking]
        after = before + 0.5 * sample_coefficients(len(walking), generator, deviation)
        position[walking] = after
        chance = torch.rand(len(walking), generator=generator, dtype=torch.float64, device="cpu")
        walking = walking[chance >= dvol(-after) / dvol(-before)]
    return position


def ad(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch 8 8"]:
    """Matrix of the adjoint ad_v: w ↦ [v, w] = vw − wv on coefficients, so that ad(v) @ w = −ad(w) @ v."""
    v = algebra(coefficients)[..., None, :, :]
    basis = algebra(torch.eye(8, dtype=v.dtype, device=v.device))
    return coefficients_of(v @ basis - basis @ v).mT


def dvol(coefficients: Float[Tensor, "*batch 8"]) -> Float[Tensor, "*batch"]:
    """Volume density of the exponential map at v, |det Σ_{i<10} (−ad_v)ⁱ/(i+1)!|, with ten terms as published.

    The whole series gives the product of (1 − e^(−λ))/λ over the roots λ of v, the differences of its eigenvalues. The
    roots are pairs ±λ, therefore dvol(v) = dvol(−v).
    """
    negative = -ad(coefficients)
    identity = torch.eye(8, dtype=negative.dtype, device=negative.device)
    series = identity.expand_as(negative)
    for i in range(9, 0, -1):  # Horner: 1 + a/2 (1 + a/3 (… (1 + a/10)))
        series = identity + negative @ series / (i + 1)
    return torch.linalg.det(series).abs()
