"""Möbius transformations of space applied to meshes: the conformal variants of a shape.

By Liouville's theorem they are the only conformal maps of R³: compositions of inversions and similarities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from niso.geometry.mesh.surface import Mesh, unit_area


class SpaceMobius(NamedTuple):
    """A transformation of space up to similarity: `translate` by c, then a rotation.

    Attributes:
        centre: (3,) c with |c| > 1; −c goes to infinity.
        rotation: (3, 3) rotation matrix.
    """

    centre: Float[np.ndarray, " 3"]
    rotation: Float[np.ndarray, "3 3"]


def translate(points: Float[np.ndarray, "points 3"], centre: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "points 3"]:
    """The hyperbolic translation of the unit ball that takes 0 to c / |c|², for |c| > 1:

        x ↦ (1 − |c|²) (x + c) / |x + c|² + c.

    It keeps orientation and the unit ball, and stretches lengths at x by (|c|² − 1) / |x + c|².
    """
    moved = points + centre
    return (1 - centre @ centre) * moved / np.square(moved).sum(1, keepdims=True) + centre


def sample(count: int, generator: np.random.Generator, distance: float = 1.2) -> list[SpaceMobius]:
    """Random transformations: uniform directions of c, Haar-uniform rotations.

    Args:
        distance: |c|, above 1. The nearer to 1, the stronger.
    """
    centres = generator.standard_normal((count, 3))
    centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
    rotations = Rotation.from_quat(generator.standard_normal((count, 4))).as_matrix()
    return [SpaceMobius(centre, rotation) for centre, rotation in zip(centres, rotations, strict=True)]


def transform(mesh: Mesh, transformation: SpaceMobius, radius: float = 0.9) -> Mesh:
    """A conformal variant of a mesh, with the same faces: as the variants of Conformal SHREC'11 were probably made.

    The mesh is centred at the centroid of its surface, scaled to the radius, transformed, and divided by the radius
    again. What goes to infinity is at least |c| − radius away from the surface, which keeps lengths' factors between
    (|c|² − 1) / (|c| + radius)² and (|c|² − 1) / (|c| − radius)²: by default 0.1 and 4.9.

    Args:
        radius: of the ball round the centroid that holds the mesh, at most 1.
    """
    vertices = unit_area(mesh).vertices
    vertices = vertices * (radius / np.linalg.norm(vertices, axis=1).max())
    moved = translate(vertices, transformation.centre) @ transformation.rotation.T
    return Mesh(moved / radius, mesh.faces)
