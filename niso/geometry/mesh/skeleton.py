"""Closed surfaces of genus 0 around trees of segments: bodies with limbs, blended smoothly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from niso.errors import InputError
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.surface import Mesh

_BLEND = 0.08  # length over which neighbouring segments merge
_SURPLUS = 2.0  # least number of vertices before decimation for each one after it


class Skeleton(NamedTuple):
    """Segments that form a tree, as rounded cones.

    Attributes:
        ends: (segments, 2, 3) end points of each.
        radii: (segments, 2) of the surface around each end.
    """

    ends: Float[np.ndarray, "segments 2 3"]
    radii: Float[np.ndarray, "segments 2"]


def surface(skeleton: Skeleton, vertices: int) -> Mesh:
    """The surface around a skeleton, at area 1.

    Args:
        vertices: approximate number.

    Raises:
        InputError: the mesh is not a closed surface of genus 0: limbs touch each other, or are too thin for so few
            vertices.
    """
    import igl  # here: training on prepared shapes does without it
    from skimage.measure import marching_cubes

    margin = skeleton.radii.max() + 4 * _BLEND
    low, high = skeleton.ends.min((0, 1)) - margin, skeleton.ends.max((0, 1)) + margin
    lengths = np.linalg.norm(np.diff(skeleton.ends, axis=1)[:, 0], axis=1)
    area = float((2 * np.pi * skeleton.radii.mean(1) * (lengths + skeleton.radii.mean(1))).sum())
    spacing = (area / (_SURPLUS * vertices)) ** 0.5
    axes = [np.arange(a, b + spacing, spacing) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    field = _distance(points.reshape(-1, 3), skeleton).reshape(points.shape[:-1])
    if not (field < 0).any():
        raise InputError("the surface round a skeleton falls between the points of a grid for so few vertices")
    corners, faces, *_ = marching_cubes(field, 0.0, spacing=(spacing,) * 3, gradient_direction="descent")
    fine = Mesh(np.asfortranarray(corners, dtype=np.float64), np.asfortranarray(faces, dtype=np.int32))
    points, triangles, *_ = igl.decimate(fine.vertices, fine.faces, 2 * (vertices - 2))
    mesh = Mesh(np.ascontiguousarray(points), np.ascontiguousarray(triangles, dtype=np.int64))
    meshes.check(mesh, "the surface round a skeleton")
    return meshes.unit_area(mesh)


def _distance(points: Float[np.ndarray, "points 3"], skeleton: Skeleton) -> Float[np.ndarray, " points"]:
    """Distance to the surface, negative inside: that of the nearest rounded cone, as a smooth minimum."""
    total = np.zeros(len(points))
    for (start, end), (first, last) in zip(skeleton.ends, skeleton.radii, strict=True):
        along = end - start
        place = np.clip((points - start) @ along / max(float(along @ along), 1e-12), 0, 1)
        away = np.linalg.norm(points - start - place[:, None] * along, axis=1) - (first + place * (last - first))
        total += np.exp(np.clip(-away / _BLEND, -500, 500))
    return -_BLEND * np.log(np.maximum(total, 1e-300))
