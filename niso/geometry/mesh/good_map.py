"""The map of a mesh to the sphere, judged, and repaired where it is folded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from niso.errors import InputError
from niso.geometry.mesh import spherical_map
from niso.geometry.mesh.relaxation import relaxed
from niso.geometry.mesh.spherical_map import Quality
from niso.geometry.mesh.surface import Mesh, vertex_areas

_REPAIRS = 3


class Limits(NamedTuple):
    """What is allowed of a map.

    Attributes:
        radius_error: of the flow, see `spherical_map.SphericalMap`.
        flipped_area: share of the mesh's area whose image has the opposite orientation, or no area.
        distortion: mean quasi-conformal distortion, see `spherical_map.Quality`.
    """

    radius_error: float
    flipped_area: float
    distortion: float


USUAL = Limits(radius_error=0.02, flipped_area=0.01, distortion=20.0)


class BadMap(InputError):
    """No map is within the limits.

    Attributes:
        limit: the name of the one in `Limits` that is exceeded; empty where none is, and more of it would not help.
    """

    def __init__(self, message: str = "", limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class GoodMap(NamedTuple):
    """A map within the limits, centred by the mesh's areas.

    Attributes:
        radius_error: of the flow that it comes from; None where it comes from no flow.
        repair: what made it good: "" for nothing, "relaxed", "uniform", or "uniform, relaxed".
    """

    directions: Float[np.ndarray, "vertices 3"]
    quality: Quality
    radius_error: float | None
    repair: str


def find(mesh: Mesh, limits: Limits = USUAL) -> GoodMap:
    """The conformal map of a mesh: by the flow, then with its folds relaxed, then from a flow with Tutte's weights.

    Args:
        mesh: one that passes `surface.check`.

    Raises:
        InputError: no map is within the limits; the message says what is wrong with the conformal one, and a `BadMap`
            by which limit.
    """
    problems = list[InputError]()
    for weights in ("delaunay", "uniform"):
        try:
            flow = spherical_map.conformal_flow(mesh, weights)
            if not flow.radius_error <= limits.radius_error:
                raise BadMap(
                    f"its radius is off by {flow.radius_error:.1%} after {flow.steps} "
                    f"steps, and {limits.radius_error:.1%} is allowed",
                    "radius_error",
                )
            good = settle(mesh, flow.directions, limits)
        except InputError as problem:
            problems.append(problem)
            continue
        steps = [step for step in (weights if weights == "uniform" else "", good.repair) if step]
        return good._replace(radius_error=flow.radius_error, repair=", ".join(steps))
    raise problems[0]


def settle(mesh: Mesh, directions: Float[np.ndarray, "vertices 3"], limits: Limits) -> GoodMap:
    """A given map, centred by the mesh's areas, and with its folds relaxed if it has any.

    Raises:
        InputError: the map cannot be centred or, a `BadMap`, is not within the limits; the message says why.
    """
    areas = vertex_areas(mesh)
    centred = spherical_map.centre(directions, areas)[0]
    found, repair = spherical_map.quality(mesh, centred), ""
    for _ in range(_REPAIRS):
        if not (found.flipped or found.coincident) and found.distortion <= limits.distortion:
            break
        other = spherical_map.centre(relaxed(mesh, centred), areas)[0]  # which may fold the smallest faces again
        again = spherical_map.quality(mesh, other)
        if _badness(again) >= _badness(found):
            break
        centred, found, repair = other, again, "relaxed"
    _check(found, limits)
    return GoodMap(centred, found, None, repair)


def _badness(quality: Quality) -> tuple[float, ...]:
    return float(quality.coincident), quality.flipped_area, quality.distortion


def _check(quality: Quality, limits: Limits) -> None:
    """BadMap where a limit is exceeded."""
    if quality.flipped_area > limits.flipped_area:
        flipped = f"{quality.flipped_area:.1%} of its area is flipped, and {limits.flipped_area:.1%} is allowed"
        raise BadMap(flipped, "flipped_area")
    if quality.coincident:
        raise BadMap(f"{quality.coincident} of its vertices fall on others there")
    if not np.isfinite(quality.distortion):
        raise BadMap("some of its faces have no area on the sphere")
    if quality.distortion > limits.distortion:
        distorted = f"its mean distortion is {quality.distortion:.3g}, and {limits.distortion:.3g} is allowed"
        raise BadMap(distorted, "distortion")
