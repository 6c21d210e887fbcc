"""Conformal maps of closed genus-0 meshes to the unit sphere, their quality, and their Möbius centring."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Complex, Float, Int
from scipy.optimize import minimize
from scipy.sparse import coo_array, csc_array, diags_array
from scipy.sparse.linalg import SuperLU, splu
from torch import Tensor

from niso.errors import InputError
from niso.geometry import mobius
from niso.geometry.mesh.spectrum import laplacian
from niso.geometry.mesh.surface import Mesh, face_areas, face_normals, unit_area, vertex_areas, volume

_STEP = 0.1  # at area 1; leaves less than half of what is not yet conformal
_STEPS = 12  # of the flow in a round: enough to leave 1e-4 of what is not conformal
_ROUNDS = 4
_NO_AREA = 1e-100  # product of twice the areas of a face and its image, both of longest side 1: it cannot be inverted
_TOLERANCE = 0.01  # of the radius error at which the flow ends, after the second round or later


class SphericalMap(NamedTuple):
    """Result of the flow: the final surface projected on the sphere round its centroid, and the number of steps.

    `radius_error` is the root mean square of |x| / mean |x| − 1 over the area of the final surface before that.
    """

    directions: Float[np.ndarray, "vertices 3"]
    radius_error: float
    steps: int


class Quality(NamedTuple):
    """Deviation of a map of a mesh to the sphere from a conformal bijection.

    The quasi-conformal distortion of a face is the ratio of the larger to the smaller singular value of the linear
    map from the face to its image; 1 is conformal. Mean and quantile weigh faces by their area on the mesh.

    Attributes:
        flipped: number of faces whose image has the opposite orientation or no area.
        distortion: mean distortion.
        distortion_99: the distortion that 99 % of the area does not exceed.
        distortion_max: the largest distortion; infinite where an image has no area.
        flipped_area: share of the mesh's area that the flipped faces have.
        coincident: number of vertices in the same place on the sphere as another one.
    """

    flipped: int
    distortion: float
    distortion_99: float
    distortion_max: float
    flipped_area: float
    coincident: int


def conformal_flow(mesh: Mesh, weights: Literal["delaunay", "uniform"] = "delaunay") -> SphericalMap:
    """Conformalised mean curvature flow of a mesh until it is a sphere.

    Kazhdan, Solomon, Ben-Chen, "Can mean-curvature flow be modified to be non-singular?", 2012. Every step solves
    (M + δS) x' = M x with the stiffness S of the given mesh and the mass M of the current one, centres the result and
    scales it to area 1. Its limits are conformal and differ by Möbius transformations; with triangles of finite size,
    it approaches one of them, slowly, that has some very large triangles and therefore is no good sphere. So the flow
    goes in rounds of 12 steps: between two, the surface is projected on the sphere, and goes on from the Möbius
    transformation of it whose faces have the smallest sum of squared areas. After four rounds, it is for the caller to
    judge the result.

    Args:
        mesh: one that passes `surface.check`.
        weights: of the edges in S. Those of the intrinsic Delaunay triangulation make the limit conformal; they are not
            negative, so that it is nearly free of flipped triangles. Uniform ones, those of Tutte's embedding, do not
            see the shape of triangles: the limit is less conformal, and holds out where triangles are very thin.

    Raises:
        InputError: the flow breaks down: the mesh is too distorted for float64.
    """
    current = unit_area(mesh)
    stiffness = _STEP * (
        laplacian(current, delaunay=True).stiffness if weights == "delaunay" else _uniform_stiffness(mesh)
    )
    order = _elimination_order(current, stiffness)  # of all steps: which entries are zero does not change
    place = np.argsort(order)
    faces, stiffness = place[mesh.faces], csc_array(stiffness[order][:, order])
    current = Mesh(current.vertices[order], faces)
    for done in range(1, _ROUNDS + 1):
        for _ in range(_STEPS):
            current = _flow_step(current, stiffness)
        directions = current.vertices / np.linalg.norm(current.vertices, axis=1, keepdims=True)
        error = _radius_error(current)
        if done == _ROUNDS or (done > 1 and error <= _TOLERANCE):
            break
        try:
            current = unit_area(Mesh(_spread(Mesh(directions, faces)), faces))
        except InputError as failure:
            raise InputError("the conformal flow broke down: half of all vertices are at one point") from failure
    return SphericalMap(directions[place], error, done * _STEPS)


def _elimination_order(mesh: Mesh, stiffness: csc_array) -> Int[np.ndarray, " vertices"]:
    """An order of the vertices in which the factors of a step's matrix are sparse, by minimum degree."""
    return np.argsort(_factors(_consistent_mass(mesh) + stiffness, "MMD_AT_PLUS_A").perm_c)


def _factors(matrix: csc_array, order: str) -> SuperLU:
    """Of a symmetric positive definite matrix, which needs no pivots: twice as fast as with them."""
    try:
        return splu(csc_array(matrix), permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as failure:  # SuperLU's only word for a singular matrix
        raise InputError(f"the conformal flow broke down ({failure})") from failure


def _flow_step(mesh: Mesh, stiffness: csc_array) -> Mesh:
    mass = _consistent_mass(mesh)
    moved = _factors(mass + stiffness, "NATURAL").solve(mass @ mesh.vertices)
    if not np.isfinite(moved).all() or not np.ptp(moved) > 0:
        raise InputError("the conformal flow broke down: the surface is not finite")
    return unit_area(Mesh(moved, mesh.faces))


def _uniform_stiffness(mesh: Mesh) -> csc_array:
    """The graph's Laplacian, scaled so that equilateral triangles have the same weights as in `spectrum.laplacian`."""
    starts, ends = mesh.faces.ravel(), np.roll(mesh.faces, -1, axis=1).ravel()  # every edge once each way
    count = len(mesh.vertices)
    adjacency = coo_array((np.full(len(starts), 3**-0.5), (starts, ends)), shape=(count, count))
    return csc_array(diags_array(adjacency.sum(1)) - adjacency)


def _spread(image: Mesh) -> Float[np.ndarray, "vertices 3"]:
    """The Möbius transformation of a mesh on the sphere with the smallest sum of squared areas of faces."""
    # The error of finite elements on a face grows with its area. Minima may be several: start at the unique centring.
    directions, _ = centre(image.vertices, np.ones(len(image.vertices)))
    middles = directions[image.faces].sum(1)
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    areas = face_areas(Mesh(directions, image.faces))

    def cost(place: Float[np.ndarray, " 3"]) -> float:
        moved = areas / np.maximum(np.square(middles + _in_ball(place)).sum(1), 1e-30) ** 2
        return float(np.log(np.square(moved / moved.sum()).sum()))

    best = minimize(cost, np.zeros(3), method="BFGS", options={"gtol": 1e-3})
    moved = mobius.act(mobius.boost(torch.from_numpy(_in_ball(best.x))), torch.from_numpy(directions)).numpy()
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def _in_ball(place: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " 3"]:
    """A point of the open unit ball for every point of space."""
    length = max(float(np.linalg.norm(place)), 1e-300)
    return place * (np.tanh(min(length, 10.0)) / length)


def _consistent_mass(mesh: Mesh) -> csc_array:
    """Inner products of the linear hat functions: a face's area is shared out as 1/6 to corners, 1/12 to pairs."""
    count = len(mesh.vertices)
    shares = face_areas(mesh)[:, None, None] * (1 + np.eye(3)) / 12
    rows = np.broadcast_to(mesh.faces[:, :, None], shares.shape).ravel()
    columns = np.broadcast_to(mesh.faces[:, None, :], shares.shape).ravel()
    return csc_array((shares.ravel(), (rows, columns)), shape=(count, count))


def _radius_error(mesh: Mesh) -> float:
    weights, radii = vertex_areas(mesh), np.linalg.norm(mesh.vertices, axis=1)
    deviations = radii / np.average(radii, weights=weights) - 1
    return float(np.average(deviations**2, weights=weights) ** 0.5)


def quality(mesh: Mesh, directions: Float[np.ndarray, "vertices 3"]) -> Quality:
    """Judge a map of a mesh to the sphere. Orientation is compared with that of the mesh, which may be inside out."""
    flipped, distortions = face_qualities(mesh, directions)
    areas = face_areas(mesh)
    order = np.argsort(distortions)
    below = np.cumsum(areas[order]) / areas.sum()
    return Quality(
        flipped=int(flipped.sum()),
        distortion=float(np.average(distortions, weights=areas)),
        distortion_99=float(distortions[order][below >= 0.99 - 1e-9].min()),
        distortion_max=float(distortions.max()),
        flipped_area=float(areas[flipped].sum() / areas.sum()),
        coincident=len(directions) - len(np.unique(directions, axis=0)),
    )


def face_qualities(
    mesh: Mesh, directions: Float[np.ndarray, "vertices 3"]
) -> tuple[Bool[np.ndarray, " faces"], Float[np.ndarray, " faces"]]:
    """Whether the image of each face has the opposite orientation or no area, and its distortion, see `Quality`."""
    image = Mesh(directions, mesh.faces)
    outwards = np.einsum("fi,fi->f", face_normals(image), directions[mesh.faces[:, 0]])
    return np.sign(volume(mesh)) * outwards <= 0, _distortions(mesh, image)


def _distortions(mesh: Mesh, image: Mesh) -> Float[np.ndarray, " faces"]:
    """K of every face from K + 1/K = tr(G⁻¹g) √(det G / det g), with the metrics G and g of its two edge vectors."""
    metrics, areas = [], []
    for vertices, faces in (mesh, image):
        first, second = (vertices[faces[:, k]] - vertices[faces[:, 0]] for k in (1, 2))
        squares = [np.einsum("fi,fi->f", a, b) for a, b in ((first, first), (first, second), (second, second))]
        # K does not depend on the size of a face, which may be near the smallest number on the sphere.
        size = np.maximum(np.maximum(squares[0], squares[2]), np.finfo(np.float64).tiny)
        metrics.append([square / size for square in squares])
        areas.append(2 * face_areas(Mesh(vertices, faces)) / size)
    (e, f, g), (u, v, w) = metrics
    product = areas[0] * areas[1]
    exists = product > _NO_AREA
    mean = np.maximum((g * u - 2 * f * v + e * w) / (2 * np.where(exists, product, 1)), 1)  # (K + 1/K) / 2
    return np.where(exists, mean + np.sqrt((mean - 1) * (mean + 1)), np.inf)


def centre(
    directions: Float[np.ndarray, "vertices 3"], weights: Float[np.ndarray, " vertices"]
) -> tuple[Float[np.ndarray, "vertices 3"], Complex[Tensor, "2 2"]]:
    """The Möbius transformation, unique up to rotations, after which the weighted mean of unit vectors is 0.

    It takes the conformal barycentre of the weights to the centre of the ball (Baden, Crane, Kazhdan, "Möbius
    registration", 2018). That is the minimum of a function that is convex in hyperbolic geometry: found by Newton's
    method, without rotating.

    Args:
        weights: positive; the areas of the vertices on the mesh, say.

    Returns:
        The unit vectors after the transformation, and the transformation in complex128, see `geometry.mobius`.

    Raises:
        InputError: there is no such transformation: half of all weight or more is (nearly) at one point.
    """
    share = weights / weights.sum()
    total, moved = torch.eye(2, dtype=torch.complex128), directions
    for _ in range(100):
        mean = share @ moved
        length = np.linalg.norm(mean)
        if length < 1e-12:
            return moved, total
        curvature = np.eye(3) * (1 + 1e-12) - (share[:, None] * moved).T @ moved
        shift = np.linalg.solve(curvature, mean) / 2
        shift *= min(1.0, 0.9 / float(np.linalg.norm(shift)))
        for _ in range(40):
            # One step from where the points are: all steps at once, where these are many, divide 0 by 0.
            step = mobius.boost(torch.from_numpy(-shift))
            image = mobius.act(step, torch.from_numpy(moved)).numpy()
            image = image / np.linalg.norm(image, axis=1, keepdims=True)
            if np.linalg.norm(share @ image) < length:
                break
            shift = shift / 2
        else:
            break
        total, moved = step @ total, image
    if length < 1e-9:  # as near as rounding lets it
        return moved, total
    raise InputError("it cannot be centred: about half of the surface or more is at one point")
