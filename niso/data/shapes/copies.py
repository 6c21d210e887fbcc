"""Meshes that are there more than once, perhaps in another format, at another scale or place, or in another order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from niso.data.evenly import evenly
from niso.geometry.mesh.surface import Mesh, edge_lengths, face_areas

_ROUNDING = 1e-6
"""Of the largest value, by which values of copies differ at most: files are often in single precision. Poses of one
mesh that are nearly alike differ by a thousandth."""
_VALUES = 64
"""Distances and lengths of edges of a mesh, each, by which it is known."""


class Invariants(NamedTuple):
    """What copies of a mesh have in common, up to rounding.

    Attributes:
        counts: of its parts, e.g. of vertices and faces.
        values: as many for all meshes.
    """

    counts: tuple[int, ...]
    values: Float[np.ndarray, " values"]


def invariants(mesh: Mesh) -> Invariants:
    """Of a mesh: at surface area 1, some of the sorted distances of vertices from their mean, and lengths of edges."""
    vertices = mesh.vertices - mesh.vertices.mean(0)
    vertices = vertices / np.sqrt(face_areas(mesh).sum())
    lengths = np.linalg.norm(vertices, axis=1), edge_lengths(Mesh(vertices, mesh.faces))
    some = [np.sort(part, axis=None)[evenly(_VALUES, part.size).numpy()] for part in lengths]
    return Invariants((len(mesh.vertices), len(mesh.faces)), np.concatenate(some))


def copies_note(meshes: Mapping[str, Invariants]) -> str:
    """That meshes of several names are the same, and what to do, in words; empty where all differ.

    A mesh and its mirror image, which have the same invariants, are the same here.
    """
    alike = defaultdict[tuple[int, ...], list[str]](list)
    for name, mesh in meshes.items():
        if np.isfinite(mesh.values).all():
            alike[(*mesh.counts, len(mesh.values))].append(name)
    first = dict[str, str]()
    for names in alike.values():
        values = np.stack([meshes[name].values for name in names])
        radius = _ROUNDING * np.abs(values).max(initial=0)
        pairs = KDTree(values).query_pairs(radius, p=np.inf, output_type="ndarray")
        graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), (len(names), len(names)))
        _, member = connected_components(graph, directed=False)
        first |= {names[number]: names[np.flatnonzero(member == one)[0]] for number, one in enumerate(member)}
    copies = [f"{first[name]} and {name}" for name in meshes if first.get(name, name) != name]
    if not copies:
        return ""
    more = f" (and {len(copies) - 1} more pairs)" if copies[1:] else ""
    return f"{copies[0]} are of the same mesh{more}: what is trained on may be tested on; remove all but one"
