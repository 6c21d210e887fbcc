"""Random smooth deformations of space, which change the geometry of a surface without folding or tearing it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from niso.geometry.mesh.surface import Mesh, unit_area

_WAVES = 64  # enough for a nearly Gaussian field
_STEPS = 10
_SCALE = 0.5  # length over which the velocity varies, relative to the root mean square distance from the centroid


def deform(mesh: Mesh, generator: np.random.Generator, strength: float) -> Mesh:
    """A mesh moved by a random smooth velocity field for unit time, at area 1.

    The flow of a field is a diffeomorphism: it creates no self-intersections.

    Args:
        strength: root mean square of the entries of the velocity's gradient, and hence, if it is small, of the
            relative change of lengths.
    """
    points = unit_area(mesh).vertices
    length = _SCALE * float(np.square(points).sum(1).mean() ** 0.5)
    waves = generator.standard_normal((3, _WAVES)) / length
    phases = generator.uniform(0, 2 * np.pi, _WAVES)
    amplitudes = generator.standard_normal((_WAVES, 3)) * (strength * length * (2 / _WAVES) ** 0.5)

    def velocity(at: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "points 3"]:
        return np.cos(at @ waves + phases) @ amplitudes

    for _ in range(_STEPS):  # midpoint rule
        points = points + velocity(points + velocity(points) / (2 * _STEPS)) / _STEPS
    return unit_area(Mesh(points, mesh.faces))
