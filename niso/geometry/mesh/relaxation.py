"""Local repair of maps to the sphere: patches round folded faces are laid out anew, with their rims where they are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from niso.geometry.mesh import spherical_map
from niso.geometry.mesh.surface import Mesh

_DISTORTIONS = (1e3, 1e2)  # of faces that are repaired as if they were folded: the worst ones first
_ROUNDS = (
    *((2, 0.0), (4, 0.0), (8, 0.0), (16, 0.5), (32, 0.5), (16, 1.0), (32, 1.0), (16, 2.0)),
    *((32, 2.0), (8, 2.0), (4, 1.0), (2, 0.0), (16, 3.0), (32, 3.0), (4, 0.0)),
)
"""Rings of vertices round the folded faces, and the outward pull. Small patches without a pull first, which stay nearly
conformal; large ones with a pull unfold thin limbs, whose ends a conformal map makes smaller than rounding errors."""
_SMALLEST_SUM = 1e-12  # of |a||b| + a·b relative to |a||b|, for an angle near 180°


def relaxed(mesh: Mesh, directions: Float[np.ndarray, "vertices 3"]) -> Float[np.ndarray, "vertices 3"]:
    """A map without the folds of a given one, as far as that can be; the same map where nothing is folded.

    The vertices of a patch become convex combinations of their neighbours in a stereographic chart, with the rim of the
    patch fixed: an embedding if the rim is convex there (Tutte, "How to draw a graph", 1963; Floater, "Mean value
    coordinates", 2003, whose weights are used). A patch is taken over where it leaves fewer folded faces.

    Args:
        directions: unit vectors of the vertices, at best centred.
    """
    weights = _mean_value_weights(mesh)
    for limit in _DISTORTIONS:
        for rings, pull in _ROUNDS:
            folded = _folded(mesh, directions, limit)
            if not folded.any():
                break
            directions = _round(mesh, weights, directions, folded, limit, rings, pull)
    return directions


def _folded(mesh: Mesh, directions: Float[np.ndarray, "vertices 3"], limit: float) -> Bool[np.ndarray, " faces"]:
    flipped, distortions = spherical_map.face_qualities(mesh, directions)
    return flipped | ~(distortions < limit)


def _round(
    mesh: Mesh,
    weights: csr_array,
    directions: Float[np.ndarray, "vertices 3"],
    folded: Bool[np.ndarray, " faces"],
    limit: float,
    rings: int,
    pull: float,
) -> Float[np.ndarray, "vertices 3"]:
    inside = np.zeros(len(directions))
    inside[mesh.faces[folded]] = 1
    for _ in range(rings):
        inside = ((weights @ inside + inside) > 0).astype(float)
    members = np.flatnonzero(inside)
    _, labels = connected_components(weights[members][:, members], directed=False)
    patches = [members[labels == label] for label in range(labels.max() + 1)]
    moved = directions.copy()
    for patch in patches:
        moved[patch] = _laid_out(weights, directions, patch, pull)
    still = _folded(mesh, moved, limit)
    result = directions.copy()
    for patch in patches:  # no two of them have a face in common
        touched = np.isin(mesh.faces, patch).any(1)
        if still[touched].sum() < folded[touched].sum():
            result[patch] = moved[patch]
    return result


def _laid_out(
    weights: csr_array, directions: Float[np.ndarray, "vertices 3"], patch: Int[np.ndarray, " patch"], pull: float
) -> Float[np.ndarray, "patch 3"]:
    """Vertices of a patch in the chart round the middle of its rim; where they are if the rim has no side."""
    rim = np.setdiff1d(weights[patch].indices, patch)
    axis = directions[rim].sum(0)
    length = np.linalg.norm(axis)
    if len(rim) < 3 or length < 0.3 * len(rim):
        return directions[patch]
    axis = axis / length
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    frame = np.stack((first, np.cross(axis, first)))
    height = 1 + directions[rim] @ axis
    if height.min() < 1e-3:
        return directions[patch]
    chart = (directions[rim] - axis) @ frame.T / height[:, None]
    rows = _pulled_outwards(weights, patch, rim, 4.0**pull) if pull else weights[patch]
    inner = splu(csc_array(eye_array(len(patch)) - rows[:, patch])).solve(rows[:, rim] @ chart)
    square = np.square(inner).sum(1, keepdims=True)
    placed = (2 * inner @ frame + (1 - square) * axis) / (1 + square)
    return placed / np.linalg.norm(placed, axis=1, keepdims=True)


def _pulled_outwards(
    weights: csr_array, patch: Int[np.ndarray, " patch"], rim: Int[np.ndarray, " rim"], factor: float
) -> csr_array:
    """Rows of the weights with those of neighbours nearer to the rim multiplied by a factor.

    The further in, the smaller are the faces of a convex combination; a pull outwards makes them shrink more slowly.
    """
    far = len(patch) + 1
    steps = np.full(weights.shape[0], far)
    steps[rim] = 0
    front, left = rim, np.zeros(weights.shape[0], dtype=bool)
    left[patch] = True
    for step in range(1, far):
        near = np.unique(weights[front].indices)
        front = near[left[near]]
        if not len(front):
            break
        steps[front], left[front] = step, False
    rows = weights[patch].tocoo()
    row, column = rows.coords
    values = rows.data * np.where(steps[column] < steps[patch][row], factor, 1.0)
    return _normalised(csr_array((values, (row, column)), shape=rows.shape))


def _mean_value_weights(mesh: Mesh) -> csr_array:
    """Floater's mean value weights of the neighbours of each vertex: positive, adding up to 1 in each row."""
    rows, columns, values = [], [], []
    for corner in range(3):
        at, second, third = (mesh.faces[:, (corner + offset) % 3] for offset in range(3))
        a, b = (mesh.vertices[ends] - mesh.vertices[at] for ends in (second, third))
        lengths = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
        product = lengths[0] * lengths[1]
        below = np.maximum(product + np.einsum("fi,fi->f", a, b), _SMALLEST_SUM * product)
        half_tangent = np.linalg.norm(np.cross(a, b), axis=1) / below
        for ends, length in zip((second, third), lengths, strict=True):
            rows.append(at)
            columns.append(ends)
            values.append(half_tangent / length)
    count = len(mesh.vertices)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return _normalised(csr_array(entries, shape=(count, count)))


def _normalised(weights: csr_array) -> csr_array:
    return csr_array(diags_array(1 / weights.sum(1)) @ weights)
