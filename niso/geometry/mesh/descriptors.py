"""Intrinsic descriptors of the points of a surface: heat and wave kernel signatures at surface area 1."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from niso.geometry.mesh.classical import classical
from niso.geometry.mesh.spectrum import Eigenpairs, heat_kernel_signature
from niso.geometry.mesh.surface import Mesh

_TIMES = (0.01, 0.3)  # from a tenth of the surface's size to all of it
_EIGENVALUES = (10.0, 400.0)  # between which waves are looked at
_WIDTH = 3.0  # of a band of energies, in steps between two


def descriptors(
    mesh: Mesh, times: int = 8, energies: int = 8, rank: int = 48, name: str = "the mesh"
) -> Float[np.ndarray, "vertices descriptors"]:
    """Logarithms of the heat and the wave kernel signature, of any genus and with or without boundary.

    They know neither place nor pose, and tell no point from its mirror image. Isometric surfaces have the same ones, to
    the accuracy of the eigenpairs, where the rank does not part equal eigenvalues. Those of a surface of revolution
    come in twos: of two that it parts, chance decides which one is taken.

    Args:
        times: number of heat kernel signatures, spaced logarithmically.
        energies: number of wave kernel signatures, likewise.
        rank: eigenpairs of the Laplacian in them.
        name: of the mesh in error messages.

    Raises:
        InputError: the mesh is no connected manifold, or has too few vertices for the rank.
    """
    _, pairs = classical(mesh, rank, name=name)
    heat = heat_kernel_signature(pairs, np.geomspace(*_TIMES, times))
    wave = wave_kernel_signature(pairs, np.log(np.geomspace(*_EIGENVALUES, energies)))
    return np.log(np.maximum(np.concatenate((heat, wave), axis=1), 1e-3))


def wave_kernel_signature(
    pairs: Eigenpairs, energies: Float[np.ndarray, " energies"]
) -> Float[np.ndarray, "vertices energies"]:
    """Σᵢ wᵢ φᵢ² / Σᵢ wᵢ, wᵢ = exp(−(e − log λᵢ)² / 2σ²): where a quantum particle of energy about e is, on average.

    Invariant under isometries. Aubry, Schlickewei, Cremers, "The wave kernel signature: a quantum mechanical approach
    to shape analysis", 2011.

    Args:
        energies: evenly spaced logarithms of eigenvalues; σ is three steps.
    """
    step = float(np.diff(energies).mean()) if len(energies) > 1 else 1.0
    logarithms = np.log(np.maximum(pairs.eigenvalues[1:], 1e-12))
    exponents = -np.square((energies - logarithms[:, None]) / (_WIDTH * step)) / 2
    weights = np.exp(exponents - exponents.max(0, initial=-np.inf))  # of narrow bands all would be 0
    return pairs.eigenfunctions[:, 1:] ** 2 @ (weights / weights.sum(0))


def distances(mesh: Mesh) -> Float[np.ndarray, "vertices vertices"]:
    """Lengths of the shortest paths along edges between all vertices."""
    import igl  # here: training on prepared shapes does without it

    starts, ends = igl.edges(mesh.faces.astype(np.int64)).T
    count = len(mesh.vertices)
    lengths = np.linalg.norm(mesh.vertices[starts] - mesh.vertices[ends], axis=1)
    graph = coo_array((lengths, (starts, ends)), shape=(count, count))
    return dijkstra(graph.tocsr(), directed=False)
