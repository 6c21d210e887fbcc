"""Functions on the vertices of a mesh as images: sampled at an equirectangular grid of its map to the sphere."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from niso.geometry.domains import equirectangular
from niso.geometry.domains.equirectangular import Layout


def rasterise(
    directions: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
    values: Float[np.ndarray, "vertices channels"],
    height: int = 96,
    width: int = 192,
    layout: Layout = "poles",
) -> Float[np.ndarray, "channels height width"]:
    """Functions on a mesh, interpolated linearly at the points of an equirectangular grid.

    Args:
        directions: places of the vertices on the unit sphere.
        values: of the functions at the vertices.
        layout: places of the grid's points; by default as in the paper's data, see `geometry.domains.equirectangular`.
    """
    points = equirectangular.directions(height, width, layout).numpy()
    weights = interpolation(directions, faces, points.reshape(-1, 3))
    return np.ascontiguousarray((weights @ values).T).reshape(-1, height, width)


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
