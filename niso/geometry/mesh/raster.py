"""Functions on the vertices of a mesh as images: sampled at an equirectangular grid of its map to the sphere."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from niso.geometry.domains import equirectangular
from niso.geometry.domains.equirectangular import Layout

_CONSTANT = 0.01  # deviation of a function, relative to its root mean square, below which it has nothing to lose


def rasterise(
    directions: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
    values: Float[np.ndarray, "vertices channels"],
    height: int,
    width: int,
    layout: Layout,
) -> Float[np.ndarray, "channels height width"]:
    """Functions on a mesh, interpolated linearly at the points of an equirectangular grid.

    Args:
        directions: places of the vertices on the unit sphere.
        values: of the functions at the vertices.
        layout: places of the grid's points, see `geometry.domains.equirectangular`.
    """
    points = equirectangular.directions(height, width, layout).numpy()
    weights = interpolation(directions, faces, points.reshape(-1, 3))
    return np.ascontiguousarray((weights @ values).T).reshape(-1, height, width)


def recovered(
    image: Float[np.ndarray, "channels height width"],
    directions: Float[np.ndarray, "vertices 3"],
    values: Float[np.ndarray, "vertices channels"],
    areas: Float[np.ndarray, " vertices"],
    layout: Layout,
) -> float | None:
    """What a grid keeps of functions on a mesh: R² of the grid's values, read back at the vertices by interpolation.

    1 − Σ aᵢ (f̂ᵢ − fᵢ)² / Σ aᵢ (fᵢ − f̄)² with the areas aᵢ of the vertices, averaged over the channels that are not
    constant; None if all are. Where a map makes much of a surface small, its functions fall between the points of the
    grid, and R² may be negative.
    """
    places = torch.from_numpy(directions)[None, None]
    seen = equirectangular.sample(torch.from_numpy(image.astype(np.float64))[None], places, layout)[0, :, 0].numpy().T
    share = areas / areas.sum()
    variance = share @ np.square(values - share @ values)
    varies = variance > _CONSTANT**2 * (share @ np.square(values))
    if not varies.any():
        return None
    return float(np.mean(1 - (share @ np.square(seen - values))[varies] / variance[varies]))


def interpolation(
    vertices: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
    points: Float[np.ndarray, "points 3"],
) -> csr_array:
    """The sparse (points, vertices) matrix that interpolates functions on a mesh at its points closest to given ones.

    Rows are barycentric weights: non-negative, adding up to 1, at most three of them.
    """
    import igl  # here: training on prepared shapes does without it

    corners = np.ascontiguousarray(faces, dtype=np.int64)
    _, closest, projected = igl.point_mesh_squared_distance(
        points, np.ascontiguousarray(vertices, dtype=np.float64), corners
    )
    weights = _barycentric(vertices[corners[closest]], projected)
    rows = np.repeat(np.arange(len(points)), 3)
    shape = (len(points), len(vertices))
    return csr_array((weights.ravel(), (rows, corners[closest].ravel())), shape=shape)


def _barycentric(
    corners: Float[np.ndarray, "points 3 3"], points: Float[np.ndarray, "points 3"]
) -> Float[np.ndarray, "points 3"]:
    """Barycentric weights of points in triangles; in a triangle without area, all weight is at the nearest corner."""
    first, second, to = (v - corners[:, 0] for v in (corners[:, 1], corners[:, 2], points))
    normal = np.cross(first, second)
    square = np.einsum("pi,pi->p", normal, normal)
    flat = square == 0
    share = normal / np.where(flat, 1, square)[:, None]
    b = np.einsum("pi,pi->p", np.cross(to, second), share)
    c = np.einsum("pi,pi->p", np.cross(first, to), share)
    weights = np.clip(np.stack((1 - b - c, b, c), axis=1), 0, None)
    nearest = np.argmin(np.linalg.norm(corners - points[:, None], axis=-1), axis=1)
    weights[flat] = np.eye(3)[nearest[flat]]
    return weights / weights.sum(1, keepdims=True)
