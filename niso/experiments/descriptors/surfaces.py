"""Surfaces, near-isometric partners of theirs, and the same partners with another connectivity."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.shapes import family
from niso.data.shapes.sources import SUFFIXES, UNREAD, refuse_unread
from niso.errors import InputError, counted
from niso.files.search import files_below
from niso.geometry.mesh.classical import fixed_spectrum
from niso.geometry.mesh.deformation import deform
from niso.geometry.mesh.descriptors import descriptors, distances
from niso.geometry.mesh.files import read_mesh
from niso.geometry.mesh.remeshing import simplified, subdivided
from niso.geometry.mesh.surface import Mesh, check_surface, torus, unit_area, vertex_areas
from niso.random import step_seed
from niso.spectrum import Spectrum

Surfaces = Literal["family", "tori", "open"]
"""What niso makes itself: the ten embedded classes, closed and of genus 0; lumpy tori; or those classes with a hole."""

_MOST = 20_000  # vertices: distances between all of them take 3 GB
_LUMPS = 0.5  # strength of the deformation that makes tori lumpy: without it, points of a parallel are all alike


class Seen(NamedTuple):
    """A surface as networks see it.

    Attributes:
        points: descriptors of the vertices, scaled.
        weights: areas of the vertices, which add up to 1.
    """

    points: Float[Tensor, "vertices descriptors"]
    weights: Float[Tensor, " vertices"]


class Example(NamedTuple):
    """A surface and a near-isometric partner.

    Attributes:
        meshes: surface, partner, and the partner with another connectivity; the last for evaluation alone.
        carry: sparse (others, vertices), functions on the partner to the remeshed one; None without it.
        descriptors: of each, not scaled.
    """

    name: str
    meshes: tuple[Mesh, ...]
    carry: csr_array | None
    descriptors: tuple[Float[np.ndarray, "vertices descriptors"], ...]

    def same_point(self) -> Int[np.ndarray, " vertices"]:
        """The vertex of the remeshed partner that is nearest to each vertex of the partner, both at one scale."""
        assert self.carry is not None
        partner = self.meshes[1].vertices
        return KDTree(self.carry @ partner).query(partner)[1]

    def distances(self) -> Float[np.ndarray, "others others"]:
        """Between the vertices of the remeshed partner, along its edges; the area is 1."""
        return distances(self.meshes[2])

    def laplacian(self, which: int, rank: int) -> Spectrum:
        """The classical spectrum of one of the meshes."""
        return fixed_spectrum(self.meshes[which], rank, name=self.name)()


def base_meshes(kind: Surfaces, count: int, vertices: int, data_dir: Path | None) -> list[tuple[str, Mesh]]:
    """So many surfaces and their names: class by class in turn, or files of a folder, spread evenly over all.

    Raises:
        InputError: the folder has fewer meshes, or one with more than 20,000 vertices.
    """
    if data_dir is not None:
        files = files_below(data_dir, SUFFIXES)
        refuse_unread(files_below(data_dir, UNREAD), files)
        if len(files) < count:
            there = f"{counted(len(files), 'mesh', 'meshes')} ({', '.join(SUFFIXES)})"
            raise InputError(
                f"{data_dir} has {there}, and {count} are needed: "
                "add some, or give smaller --train-shapes, --validation-shapes or --test-shapes"
            )
        taken = [files[number] for number in evenly(count, len(files)).tolist()]
        made = [(str(path.relative_to(data_dir)), read_mesh(path)) for path in taken]
        if large := [(path, mesh) for path, mesh in made if len(mesh.vertices) > _MOST]:
            raise InputError(
                f"{data_dir / large[0][0]} has {len(large[0][1].vertices)} vertices, and distances between all are "
                f"computed: decimate it to {_MOST} or fewer"
            )
        return made
    if kind == "tori":
        rows = max(6, round((2.5 * vertices) ** 0.5))
        ring = torus(rows, max(4, round(vertices / rows)))
        generators = [np.random.default_rng(step_seed(0, number, "tori")) for number in range(count)]
        return [(f"torus {number}", deform(ring, generator, _LUMPS)) for number, generator in enumerate(generators)]
    names = list(family.PLANS)
    chosen = [(names[number % len(names)], number // len(names)) for number in range(count)]
    meshes = [(f"{name} {number}", family.shape(name, number, vertices=vertices)) for name, number in chosen]
    return [(name, with_hole(mesh) if kind == "open" else mesh) for name, mesh in meshes]


def with_hole(mesh: Mesh) -> Mesh:
    """The mesh without the lowest tenth of its faces along its longest axis; the largest manifold of what is left."""
    import igl

    centred = mesh.vertices - mesh.vertices.mean(0)
    height = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    middle = height[mesh.faces].mean(1)
    part = largest_part(Mesh(mesh.vertices, mesh.faces[middle > np.quantile(middle, 0.1)]))
    while not (good := igl.is_vertex_manifold(part.faces.astype(np.int64))).all():  # fans that touch at a vertex
        part = largest_part(Mesh(part.vertices, part.faces[good[part.faces].all(1)]))
    return part


def largest_part(mesh: Mesh) -> Mesh:
    """The largest connected part of a mesh, with the vertices that it uses."""
    import igl

    part = igl.vertex_components(mesh.faces)[mesh.faces[:, 0]]
    used, faces = np.unique(mesh.faces[part == np.bincount(part).argmax()], return_inverse=True)
    return Mesh(mesh.vertices[used], faces.reshape(-1, 3))


def example(name: str, mesh: Mesh, number: int, strength: float, remeshed: bool, **settings: int) -> Example:
    """A surface with a partner that is deformed by a random flow of this strength.

    Args:
        number: of the random flow.
        remeshed: subdivide the partner and decimate it to as many faces as before.

    Raises:
        InputError: the mesh is no connected manifold, or too coarse.
    """
    check_surface(mesh, name)
    mesh = unit_area(mesh)
    partner = deform(mesh, np.random.default_rng(step_seed(0, number, f"partner of {name}")), strength)
    meshes, carry = [mesh, partner], None
    if remeshed:
        coarse, carry = simplified(subdivided(partner), len(partner.faces))
        meshes.append(Mesh(coarse.vertices / np.sqrt(vertex_areas(coarse).sum()), coarse.faces))
    return Example(name, tuple(meshes), carry, tuple(descriptors(part, name=name, **settings) for part in meshes))


def seen(
    mesh: Mesh,
    values: Float[np.ndarray, "vertices descriptors"],
    mean: Float[np.ndarray, " descriptors"],
    deviation: Float[np.ndarray, " descriptors"],
) -> Seen:
    """A surface as networks see it: each descriptor less its mean, in units of 2.5 standard deviations, in [−1, 1].

    Raises:
        InputError: a descriptor that is not finite, or a vertex without an area.
    """
    areas = vertex_areas(mesh)
    scaled = np.clip((values - mean) / (2.5 * deviation), -1, 1)
    if not (np.isfinite(scaled).all() and np.isfinite(areas).all() and (areas > 0).all()):
        raise InputError("descriptors of a mesh must be finite, and the areas of its vertices positive: repair it")
    return Seen(torch.from_numpy(scaled), torch.from_numpy(areas / areas.sum()))


def distinct(surface: Seen) -> int:
    """How many points differ in their descriptors: no more functions of these are linearly independent."""
    return len(torch.unique(surface.points.double().round(decimals=5), dim=0))
