"""Laplacian of a triangle mesh, its eigenpairs and the heat kernel signature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import ArpackError, eigsh

from niso.checks import check_count
from niso.errors import InputError
from niso.geometry.mesh.surface import Mesh, edge_lengths

_THIN = np.radians(1.0)  # cotangents of smaller angles are above 57, and rounding of the vertices shows in them
_SLACK = 1e-6  # of the triangle inequality, relative to the mean edge, that mollification gives every face


_MORE = 10
"""Eigenpairs beyond those asked for: Lanczos iteration may miss copies of multiple eigenvalues among the last ones."""


class Laplacian(NamedTuple):
    """The Laplacian L = M⁻¹S of functions on the vertices, with linear finite elements.

    Attributes:
        stiffness: S, sparse (vertices, vertices), symmetric, positive semidefinite; fᵀSf is the integral of |∇f|².
        mass: (vertices,) the diagonal of the lumped mass M; adds up to the surface's area.
    """

    stiffness: csc_array
    mass: Float[np.ndarray, " vertices"]


class Eigenpairs(NamedTuple):
    """Eigenpairs Sφ = λMφ in ascending order.

    Attributes:
        eigenvalues: (rank,) λ in 1/length², non-negative; the first is 0.
        eigenfunctions: (vertices, rank) columns Φ with ΦᵀMΦ = I.
    """

    eigenvalues: Float[np.ndarray, " rank"]
    eigenfunctions: Float[np.ndarray, "vertices rank"]


def laplacian(mesh: Mesh, delaunay: bool | None = None) -> Laplacian:
    """Cotangent Laplacian of a mesh, of its own triangles or of an intrinsic triangulation.

    Args:
        delaunay: whether to take the intrinsic Delaunay triangulation of the same surface (Fisher et al., "An algorithm
            for the construction of intrinsic Delaunay triangulations", 2007), whose edge weights are never negative,
            after lengthening all edges by as little as makes every triangle a proper one (Sharp, Crane, "A Laplacian
            for nonmanifold triangle meshes", 2020, §4.5). By default where some angle is below 1°.
    """
    import igl  # here: training on prepared shapes does without it

    lengths, faces = edge_lengths(mesh).astype(np.float64), mesh.faces.astype(np.int64)
    if _smallest_angle(lengths) < _THIN if delaunay is None else delaunay:
        slack = (lengths.sum(1, keepdims=True) - 2 * lengths).min()
        mollified = lengths + max(0.0, _SLACK * float(lengths.mean()) - float(slack))
        lengths, faces, *_ = igl.intrinsic_delaunay_triangulation(mollified, faces)
    stiffness = -csc_array(igl.cotmatrix_intrinsic(lengths, faces))
    mass = igl.massmatrix_intrinsic(lengths, faces, igl.MASSMATRIX_TYPE_BARYCENTRIC).diagonal()
    return Laplacian((stiffness + stiffness.T) / 2, mass)


def _smallest_angle(lengths: Float[np.ndarray, "faces 3"]) -> float:
    """The smallest angle of any face, opposite to its shortest edge; Kahan's formula, accurate for thin triangles."""
    c, b, a = np.sort(lengths, axis=1).T
    opposite = np.maximum(c - (a - b), 0) * (c + (a - b))
    return float(2 * np.arctan2(opposite**0.5, ((a + (b + c)) * (a + (b - c))) ** 0.5).min())


def eigenpairs(operator: Laplacian, rank: int) -> Eigenpairs:
    """The eigenpairs of the smallest eigenvalues, by Lanczos iteration on the shifted inverse.

    The same at every call. Signs, and bases of multiple eigenvalues, are arbitrary.

    Raises:
        TypeError: a rank that is no whole number.
        InputError: there are not more vertices than eigenpairs, or the iteration does not converge.
    """
    count, rank = len(operator.mass), check_count("rank", rank)
    if not 1 <= rank < count:
        raise InputError(f"{rank} eigenpairs cannot be taken from {count} vertices: take fewer, or a finer mesh")
    area = operator.mass.sum()
    root = (operator.mass / area) ** -0.5  # the iteration stops by absolute errors, which small areas would deceive
    scaling = diags_array(root)
    symmetric = csc_array(scaling @ operator.stiffness @ scaling)
    shift = -1  # near the first eigenvalues, of which λ = 0 must not make it singular
    start = np.random.default_rng(0).standard_normal(count)
    more = min(rank + _MORE, count - 1)
    try:
        values, vectors = eigsh(symmetric, more, sigma=shift, which="LM", v0=start)
    except ArpackError as error:
        raise InputError(f"{rank} eigenpairs of the Laplacian could not be found ({error}); remesh it") from error
    order = np.argsort(values)[:rank]
    return Eigenpairs(np.maximum(values[order], 0) / area, root[:, None] * vectors[:, order] / area**0.5)


def heat_kernel_signature(pairs: Eigenpairs, times: Float[np.ndarray, " times"]) -> Float[np.ndarray, "vertices times"]:
    """Σᵢ φᵢ² exp(−λᵢt): the heat left at a point at time t, of a unit of heat placed there at time 0.

    Invariant under isometries. The sum over the given eigenpairs only: it lacks about exp(−λt) of the whole at the
    largest λ. Sun, Ovsjanikov, Guibas, "A concise and provably informative multi-scale signature based on heat
    diffusion", 2009.

    Args:
        times: in length².
    """
    return pairs.eigenfunctions**2 @ np.exp(-pairs.eigenvalues[:, None] * times)
