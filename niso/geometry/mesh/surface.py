"""Triangle meshes of closed surfaces: measures, checks before a preparation, and an icosphere.

Meshes are NumPy arrays; computations are in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from niso.errors import InputError, counted

_LARGEST = 1e75  # coordinate: areas and their squares stay finite
_SMALLEST = 1e-70  # extent: squares of areas, also of the thinnest faces that are allowed, stay normal numbers
_NO_AREA = 1e-14  # of a face, relative to the squared diagonal of the mesh's bounding box: rounding, not shape


class Mesh(NamedTuple):
    """A triangle mesh.

    Attributes:
        vertices: (vertices, 3) positions.
        faces: (faces, 3) numbers of the corners of each triangle, counterclockwise seen from its outer side.
    """

    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]


def check(mesh: Mesh, name: str = "the mesh") -> None:
    """Check that a mesh is one closed, oriented surface of genus 0, as a map to the sphere needs.

    Args:
        name: of the mesh in error messages, e.g. its file.

    Raises:
        InputError: it is not; the message names the first problem, e.g. a boundary, a flat face, or two components.
    """
    _check(mesh, name, closed=True)


def check_surface(mesh: Mesh, name: str = "the mesh") -> None:
    """Check that a mesh is one connected manifold, of any genus, with or without boundary, as a Laplacian needs.

    Boundaries that lie exactly on each other are refused: a Laplacian would take a seam for a cut.

    Args:
        name: of the mesh in error messages, e.g. its file.

    Raises:
        InputError: it is not; the message names the first problem.
    """
    _check(mesh, name, closed=False)


def _check(mesh: Mesh, name: str, closed: bool) -> None:
    if not isinstance(mesh, Mesh):
        raise TypeError(f"{name} must be a Mesh, not {type(mesh).__name__}: Mesh(vertices, faces) makes one")
    problem = _array_problem(mesh) or _shape_problem(mesh) or _surface_problem(mesh, closed)
    if problem:
        raise InputError(f"{name} {problem}")


def _array_problem(mesh: Mesh) -> str | None:
    vertices, faces = mesh
    if not (isinstance(vertices, np.ndarray) and isinstance(faces, np.ndarray)):
        kinds = f"{type(vertices).__name__} and {type(faces).__name__}"
        return f"has vertices and faces that are no NumPy arrays but {kinds}: convert them by numpy.asarray"
    if vertices.dtype.kind not in "iuf":
        return f"has vertices of {vertices.dtype}, no real numbers: convert them by vertices.real.astype(float)"
    if faces.dtype.kind not in "iu":
        return f"has faces of {faces.dtype}, no whole numbers: convert them by faces.astype(int)"
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        return f"has vertices of shape {vertices.shape}, not (vertices, 3): give a flat one z = 0"
    if faces.ndim != 2 or faces.shape[1] != 3:
        return f"has faces of shape {faces.shape}, not (faces, 3): cut polygons into triangles"
    if len(vertices) == 0:
        return f"is empty: it has 0 vertices and {len(faces)} faces"
    if len(faces) == 0:
        return f"is a cloud of {counted(len(vertices), 'point')} without faces: reconstruct its surface first"
    if bad := int((~np.isfinite(vertices)).any(1).sum()):
        return f"has coordinates that are not finite numbers at {counted(bad, 'vertex', 'vertices')}; export it again"
    if (largest := float(np.abs(vertices).max())) > _LARGEST:
        return f"has coordinates up to {largest:.3g}, whose squares are no numbers; scale it or export it again"
    if 0 < (extent := float(_extents(mesh).max())) < _SMALLEST:
        return f"is {extent:.3g} long, and squares of its areas are no numbers; scale it or export it again"
    if bad := int(((faces < 0) | (faces >= len(vertices))).any(1).sum()):
        return f"has {counted(bad, 'face')} with corners that do not exist: there are {len(vertices)} vertices"
    if bad := len(vertices) - len(np.unique(faces)):
        return f"has {counted(bad, 'vertex', 'vertices')} without any face; remove what is unreferenced"
    return None


def _shape_problem(mesh: Mesh) -> str | None:
    extent = float(np.square(_extents(mesh)).sum())
    repeated = (mesh.faces == np.roll(mesh.faces, 1, axis=1)).any(1)
    if bad := int((repeated | (face_areas(mesh) <= _NO_AREA * extent)).sum()):
        return f"has {counted(bad, 'degenerate face')} of no area; merge duplicate vertices or remesh it"
    return None


def _extents(mesh: Mesh) -> Float[np.ndarray, " 3"]:
    """Lengths of the bounding box, in float64 whatever the vertices are."""
    return np.ptp(np.asarray(mesh.vertices, np.float64), axis=0)


def _surface_problem(mesh: Mesh, closed: bool) -> str | None:
    import igl  # here: training on prepared shapes does without it

    count, faces = len(mesh.vertices), mesh.faces.astype(np.int64)  # vertex numbers are multiplied below
    starts, ends = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    edges, edge_of, uses = np.unique(
        np.minimum(starts, ends) * count + np.maximum(starts, ends), return_inverse=True, return_counts=True
    )
    if bad := int((uses > 2).sum()):
        return (
            f"is not a manifold: more than two faces share {counted(bad, 'edge')}; remove repeated faces, or remesh it"
        )
    if closed and (bad := int((uses == 1).sum())):
        return f"is open: it has {counted(bad, 'boundary edge')}; merge duplicate vertices or fill its holes"
    rim = np.unique(np.divmod(edges[uses == 1], count))
    if bad := len(rim) - len(np.unique(mesh.vertices[rim], axis=0)):  # a seam, as of textures: the surface goes on
        where = counted(bad, "vertex", "vertices")
        return f"has {where} at its boundary with the coordinates of another; merge duplicate vertices"
    if bad := int(uses.sum()) - len(np.unique(np.stack((edge_of, starts < ends), 1), axis=0)):
        return f"is not consistently oriented: the faces at {counted(bad, 'edge')} turn opposite ways; reorient them"
    adjacency = coo_array((np.ones(len(starts), dtype=np.int8), (starts, ends)), shape=(count, count))
    if (components := connected_components(adjacency, directed=False, return_labels=False)) > 1:
        return f"has {components} components; keep one"
    if bad := int((~igl.is_vertex_manifold(faces)).sum()):
        return f"is not a manifold: fans of faces touch at {counted(bad, 'vertex', 'vertices')}; split these"
    if not closed:
        return None
    genus = (2 - (count - len(edges) + len(faces))) // 2
    return f"has genus {genus}: a surface with handles cannot be mapped to the sphere" if genus else None


def face_normals(mesh: Mesh) -> Float[np.ndarray, "faces 3"]:
    """Normals of the faces, of length twice the area."""
    corner, second, third = _corners(mesh)
    return np.cross(second - corner, third - corner)


def face_areas(mesh: Mesh) -> Float[np.ndarray, " faces"]:
    """Areas of the faces."""
    return np.linalg.norm(face_normals(mesh), axis=1) / 2


def vertex_areas(mesh: Mesh) -> Float[np.ndarray, " vertices"]:
    """A third of the area of the faces around each vertex; the sum is the surface's area."""
    return np.bincount(mesh.faces.ravel(), np.repeat(face_areas(mesh) / 3, 3), minlength=len(mesh.vertices))


def volume(mesh: Mesh) -> float:
    """Volume inside a closed mesh, negative if its faces are clockwise seen from outside."""
    near = mesh.vertices[0].astype(np.float64)  # far from the origin, the cones from there cancel to rounding errors
    corner, second, third = (point - near for point in _corners(mesh))
    return float(np.einsum("fi,fi->", corner, np.cross(second, third)) / 6)


def edge_lengths(mesh: Mesh) -> Float[np.ndarray, "faces 3"]:
    """Lengths of the edges opposite to each corner of each face."""
    first, second, third = _corners(mesh)
    return np.stack([np.linalg.norm(edge, axis=-1) for edge in (third - second, first - third, second - first)], 1)


def _corners(mesh: Mesh) -> tuple[np.ndarray, ...]:
    """The three corners of every face, in float64 whatever the vertices are."""
    vertices = np.asarray(mesh.vertices, np.float64)
    return tuple(vertices[mesh.faces[:, k]] for k in range(3))


def unit_area(mesh: Mesh) -> Mesh:
    """The mesh centred at the centroid of its surface and scaled to area 1."""
    weights = vertex_areas(mesh)
    vertices = (mesh.vertices - weights @ mesh.vertices / weights.sum()) / np.sqrt(weights.sum())
    return Mesh(vertices, mesh.faces)


def icosphere(subdivisions: int) -> Mesh:
    """The unit sphere as an icosahedron with every face cut in four, `subdivisions` times: 10 · 4ⁿ + 2 vertices."""
    import igl

    vertices, faces = igl.icosahedron()
    for _ in range(subdivisions):
        vertices, faces = igl.upsample(vertices, faces)
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
    return Mesh(vertices, faces.astype(np.int64))


def torus(rows: int, columns: int) -> Mesh:
    """A torus round the z axis of radii 1 and 0.4, with rows × columns vertices.

    Args:
        rows: vertices round the axis.
        columns: vertices round the tube.
    """
    u, v = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    around, across = 2 * np.pi * u / rows, 2 * np.pi * v / columns
    distance = 1 + 0.4 * np.cos(across)
    vertices = np.stack((distance * np.cos(around), distance * np.sin(around), 0.4 * np.sin(across)), axis=-1)

    def number(step: int, up: int) -> Int[np.ndarray, "rows columns"]:
        return (u + step) % rows * columns + (v + up) % columns

    corners = number(0, 0), number(1, 0), number(1, 1), number(0, 1)
    faces = [np.stack([corners[k] for k in part], axis=-1).reshape(-1, 3) for part in ((0, 1, 2), (0, 2, 3))]
    return Mesh(vertices.reshape(-1, 3), np.concatenate(faces).astype(np.int64))
