"""The same surface with other vertices and faces: decimated, subdivided, and sampled and triangulated anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.spatial import ConvexHull, QhullError

from niso.errors import InputError
from niso.geometry.mesh.raster import interpolation
from niso.geometry.mesh.surface import Mesh, face_areas

_TRIED = 10  # times as many random points as are kept


class Remeshed(NamedTuple):
    """A mesh of (nearly) the same surface as another one.

    Attributes:
        carry: sparse (vertices, vertices of the other): functions of the other mesh, carried to this one, are
            `carry @ values`, those at the closest points.
    """

    mesh: Mesh
    carry: csr_array


def decimated(mesh: Mesh, share: float = 0.5) -> Remeshed:
    """So many of the faces, or nearly, by edge collapses of least quadric error.

    Source: Garland, Heckbert, "Surface simplification using quadric error metrics", 1997, as libigl has it.

    Raises:
        ValueError: the share is not between 0 and 1.
        InputError: nothing is left of the mesh.
    """
    import igl

    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    vertices, faces, *_ = igl.qslim(
        np.asfortranarray(mesh.vertices, dtype=np.float64),
        np.asfortranarray(mesh.faces, dtype=np.int32),
        max(4, round(share * len(mesh.faces))),
    )
    if not len(faces):
        raise InputError("the mesh cannot be decimated: it is no oriented manifold; remesh it")
    return _remeshed(mesh, Mesh(np.ascontiguousarray(vertices), faces.astype(np.int64)))


def subdivided(mesh: Mesh) -> Remeshed:
    """Every face cut into four, and smoothed, by the scheme of Loop (1987) as libigl has it."""
    import igl

    vertices, faces = igl.loop(np.asarray(mesh.vertices, dtype=np.float64), mesh.faces.astype(np.int64))
    return _remeshed(mesh, Mesh(vertices, faces.astype(np.int64)))


def simplified(finer: Remeshed, faces: int) -> Remeshed:
    """A finer mesh decimated to so many faces, or nearly.

    Args:
        finer: a mesh with more faces, say the `subdivided` one.

    Raises:
        ValueError, InputError: see `decimated`.
    """
    coarse = decimated(finer.mesh, faces / len(finer.mesh.faces))
    return Remeshed(coarse.mesh, coarse.carry @ finer.carry)


def resampled(mesh: Mesh, directions: Float[np.ndarray, "vertices 3"], generator: np.random.Generator) -> Remeshed:
    """Evenly spread random points of the surface, joined by the Delaunay triangulation of their places on the sphere.

    There are as many as the mesh has vertices, none of which, and no edge, is kept. Evenly spread by drawing many and
    keeping the farthest one from those kept, again and again.

    Args:
        directions: places of the vertices on the unit sphere, without folds.

    Raises:
        InputError: the places are not those of a map to the sphere: they cannot be triangulated.
    """
    count = len(mesh.vertices)
    carry = random_points(mesh, generator, _TRIED * count)
    carry = carry[_farthest(carry @ mesh.vertices, count)]
    places = carry @ directions
    places = places / np.linalg.norm(places, axis=1, keepdims=True)
    try:
        hull = ConvexHull(places)
    except QhullError as error:
        raise InputError("the points cannot be triangulated: many are at one place of the sphere") from error
    faces = hull.simplices.astype(np.int64)
    turned = np.linalg.det(places[faces]) < 0
    faces[turned] = faces[turned][:, ::-1]
    used, faces = np.unique(faces, return_inverse=True)
    return Remeshed(Mesh(carry[used] @ mesh.vertices, faces.reshape(-1, 3)), csr_array(carry[used]))


def random_points(mesh: Mesh, generator: np.random.Generator, count: int) -> csr_array:
    """Points drawn uniformly by area, as a sparse (points, vertices) matrix that interpolates functions there."""
    areas = face_areas(mesh)
    faces = mesh.faces[generator.choice(len(areas), count, p=areas / areas.sum())]
    shares = generator.dirichlet(np.ones(3), count)
    return csr_array((shares.ravel(), (np.repeat(np.arange(count), 3), faces.ravel())), (count, len(mesh.vertices)))


def _farthest(points: Float[np.ndarray, "points 3"], count: int) -> Int[np.ndarray, " count"]:
    chosen, distances, latest = np.zeros(count, dtype=np.int64), np.full(len(points), np.inf), 0
    for index in range(count):
        chosen[index] = latest
        distances = np.minimum(distances, np.square(points - points[latest]).sum(1))
        latest = int(distances.argmax())
    return chosen


def _remeshed(old: Mesh, new: Mesh) -> Remeshed:
    return Remeshed(new, interpolation(old.vertices, old.faces, new.vertices))
