"""Functions on the vertices of a mesh, seen at places on the sphere: points, areas there, and interpolation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor

from niso.checks import check_number
from niso.geometry.domains.domain import Sampling
from niso.geometry.mesh.raster import interpolation
from niso.spectrum import FieldSpectrum, Spectrum

LARGEST = 0.08  # radians: a third of the finest detail that a field of a hundred eigenfunctions has
_DEEPEST = 6  # a face is cut into 4⁶ at most: there are faces as large as a hemisphere
_RIDGE = 1e-6  # share of the mean diagonal
_OFF = 1e-3  # of a length: files in single precision keep 1e-7
_UNCOVERED = 0.05  # share of the sphere, where faces lie upon each other or lack
_NOTHING = 1e-12  # share of the mean area that a point of no area gets, as weights must be positive


class MeshSampling(NamedTuple):
    """Where functions on a mesh are read, and how.

    Attributes:
        sampling: unit vectors, and their areas on the sphere, of mean 1.
        interpolation: sparse (points, vertices): values at the points are `interpolation @ values`.
    """

    sampling: Sampling
    interpolation: csr_array


class MeshCoefficients(NamedTuple):
    """Functions on a mesh in a field's eigenbasis.

    Attributes:
        spectrum: of the field at the points where they were read.
        coefficients: (rank, channels).
    """

    spectrum: Spectrum
    coefficients: Float[Tensor, "rank channels"]


def project(
    field: FieldSpectrum,
    directions: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
    values: Float[np.ndarray, "vertices channels"],
    largest: float | None = LARGEST,
    orthonormal: bool = True,
) -> MeshCoefficients:
    """Coefficients of functions on the vertices of a mesh that has been mapped to the sphere; there is no raster.

    The inner product is the field's own, ∫ φ f exp ρ over the sphere, with areas on the sphere and not on the mesh: Φ
    are orthonormal there, on whatever mesh. Conformal maps make limbs small, and meshes that differ only in where they
    have vertices have the same integrals.

    Args:
        field: over unit vectors.
        directions: places of the vertices on the unit sphere.
        values: functions at the vertices, linear between them.
        largest: see `within_faces`; None reads them at the vertices alone, see `at_vertices`.
        orthonormal: see `FieldSpectrum.at`.

    Raises:
        ValueError: the field has not three coordinates; directions are not of length 1, or faces do not cover the
            sphere once; values are not (vertices, channels), not real or not finite; or there are fewer points than
            eigenfunctions.
    """
    values = np.asarray(values)
    _check_cover(directions, faces)
    if largest is not None:
        check_number("largest", largest, positive=True)
    if np.iscomplexobj(values):
        raise ValueError("values at the vertices must be real")
    if values.ndim != 2 or len(values) != len(directions):
        raise ValueError(f"values must be (vertices, channels) with {len(directions)} vertices, not {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("values at the vertices must be finite")
    (points, weights), known = (
        at_vertices(directions, faces) if largest is None else within_faces(directions, faces, largest)
    )
    unit = field.weights.double().sum() / weights.sum()  # that of the field's own weights
    spectrum = field.at(points, weights.to(unit) * unit, orthonormal)
    z = torch.from_numpy(np.asarray(known @ values)).to(spectrum.eigenfunctions)
    return MeshCoefficients(spectrum, spectrum.project(z))


def _check_cover(directions: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces 3"]) -> None:
    """ValueError unless triangles cover the unit sphere once."""
    remedy = "map the mesh to the sphere, see niso.geometry.mesh.good_map.find"
    if not np.allclose(np.linalg.norm(directions, axis=1), 1, atol=_OFF):
        raise ValueError(f"directions must be of length 1: {remedy}")
    if not abs(spherical_areas(directions[faces]).sum() / (4 * np.pi) - 1) < _UNCOVERED:
        raise ValueError(f"faces must cover the sphere once: {remedy}")


def carried(
    directions: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
    values: Float[np.ndarray, "vertices channels"],
    other_directions: Float[np.ndarray, "others 3"],
    other_faces: Int[np.ndarray, "other_faces 3"],
) -> Float[np.ndarray, "others channels"]:
    """Functions on a mesh, carried to another mesh of the same surface: the nearest ones that are linear on its faces.

    Nearest in mean square over the sphere, on which both have their places. Integrals against smooth functions change
    much less than where values are interpolated at the other vertices.
    """
    (points, weights), known = within_faces(directions, faces)
    there = interpolation(other_directions, other_faces, points.numpy())
    weighted = there.T @ diags_array(weights.numpy())
    normal = csc_array(weighted @ there)
    ridge = _RIDGE * normal.diagonal().mean()  # for vertices that no point is near
    near = interpolation(directions, faces, other_directions) @ values
    return near + splu(csc_array(normal + ridge * eye_array(len(near)))).solve(
        weighted @ (known @ values - there @ near)
    )


def at_vertices(directions: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces 3"]) -> MeshSampling:
    """The vertices themselves, each with a third of the spherical triangles around it.

    Accurate where faces are small on the sphere, which those of a mesh with limbs are not everywhere.
    """
    shares = np.repeat(spherical_areas(directions[faces]) / 3, 3)
    areas = np.bincount(faces.ravel(), shares, minlength=len(directions))
    return MeshSampling(_sampling(directions, areas), csr_array(eye_array(len(directions))))


def within_faces(
    directions: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces 3"], largest: float = LARGEST
) -> MeshSampling:
    """Middles of the faces on the sphere, of which large ones are cut into quarters, again and again.

    The midpoint rule for functions that are linear on each face.

    Args:
        largest: length of edges on the sphere, in radians, above which a face is cut.
    """
    corners = directions[faces]
    lengths = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=-1).max(1)
    depths = np.ceil(np.log2(np.maximum(lengths / largest, 1))).clip(0, _DEEPEST).astype(int)
    points, areas, rows, columns, shares = [], [], [], [], []
    start = 0
    for depth in map(int, np.unique(depths)):
        chosen = faces[depths == depth]
        parts = _quarters(depth)  # (parts, 3 corners, 3 weights)
        cut = np.einsum("pck,fkx->fpcx", parts, directions[chosen]).reshape(-1, 3, 3)
        cut = unit(cut)
        middles = np.broadcast_to(parts.mean(1), (len(chosen), len(parts), 3))
        points.append(unit(np.einsum("fpk,fkx->fpx", middles, directions[chosen]).reshape(-1, 3)))
        areas.append(spherical_areas(cut))
        count = len(chosen) * len(parts)
        rows.append(np.repeat(np.arange(start, start + count), 3))
        columns.append(np.repeat(chosen, len(parts), axis=0).ravel())
        shares.append(middles.ravel())
        start += count
    entries = np.concatenate(shares), (np.concatenate(rows), np.concatenate(columns))
    known = csr_array(entries, shape=(start, len(directions)))
    return MeshSampling(_sampling(np.concatenate(points), np.concatenate(areas)), known)


def spherical_areas(corners: Float[np.ndarray, "faces 3 3"]) -> Float[np.ndarray, " faces"]:
    """Areas of spherical triangles, at most a hemisphere each, whichever way they turn.

    Source: Van Oosterom, Strackee, "The solid angle of a plane triangle", 1983.
    """
    a, b, c = corners.swapaxes(0, 1)
    volume = np.einsum("fi,fi->f", a, np.cross(b, c))
    sines = 1 + sum(np.einsum("fi,fi->f", *pair) for pair in ((a, b), (b, c), (c, a)))
    return 2 * np.arctan2(np.abs(volume), sines)


def _quarters(depth: int) -> Float[np.ndarray, "parts 3 3"]:
    """Barycentric weights of the corners of a triangle that is cut into quarters, so many times."""
    parts = np.eye(3)[None]
    for _ in range(depth):
        a, b, c = parts.swapaxes(0, 1)
        ab, bc, ca = (a + b) / 2, (b + c) / 2, (c + a) / 2
        parts = np.concatenate([np.stack(part, 1) for part in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    return parts


def unit(vectors: Float[np.ndarray, "*shape 3"]) -> Float[np.ndarray, "*shape 3"]:
    """Vectors of length 1 in these directions; 0 where they are 0."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300)


def _sampling(points: Float[np.ndarray, "points 3"], areas: Float[np.ndarray, " points"]) -> Sampling:
    weights = np.maximum(areas / areas.mean(), _NOTHING)
    return Sampling(torch.from_numpy(unit(points)), torch.from_numpy(weights))
