"""Pictures of meshes and of their maps to the sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from niso.figures.style import DIVERGING, largest, show, styled

_LIGHT = np.array([-0.3, 0.5, 0.8]) / np.linalg.norm([-0.3, 0.5, 0.8])


class DrawnMesh(NamedTuple):
    """A mesh that is coloured by a function on its vertices.

    Attributes:
        edges: whether the triangles' edges are drawn.
        towards: direction that faces the reader; by default the axis of least extent.
    """

    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]
    values: Float[np.ndarray, " vertices"]
    edges: bool = False
    towards: Float[np.ndarray, " 3"] | None = None


@styled
def mesh_table(
    rows: Sequence[Sequence[DrawnMesh | Float[np.ndarray, "height width"]]],
    titles: Sequence[str],
    labels: Sequence[str],
) -> Figure:
    """A table of meshes in parallel projection, and of functions on grids, as images, with titles of the columns and
    labels of the rows. Colours are signed: blue above zero, red below, each cell by its own largest magnitude."""
    figure = Figure((10, 0.2 + 0.2 * _lines(titles) + min(1.45, 9.4 / len(titles)) * len(rows)))
    table = figure.subplots(len(rows), len(titles), squeeze=False)
    for cells, row, label in zip(table, rows, labels, strict=True):
        for axes, cell in zip(cells, row, strict=True):
            if isinstance(cell, DrawnMesh):
                _draw(axes, cell)
            else:
                show(axes, cell, signed=True)
                axes.set_adjustable("datalim")  # cells of one size, so that titles are at one height
                axes.spines[:].set_visible(False)
            axes.set(xticks=[], yticks=[])
        cells[0].set_ylabel(label, rotation=0, ha="right", va="center")
    for axes, title in zip(table[0], titles, strict=True):
        axes.set_title(title)
    return figure


def _lines(titles: Sequence[str]) -> int:
    return max(title.count("\n") + 1 for title in titles)


def _draw(axes: Axes, mesh: DrawnMesh) -> None:
    """The faces that look at the reader, the farthest first, in parallel projection."""
    vertices = mesh.vertices - mesh.vertices.mean(0)
    # directions that point right, up and to the reader: of long extents first, where nothing is to face the reader
    frame = np.linalg.svd(vertices, full_matrices=False)[2]
    if mesh.towards is not None:
        right, up = np.linalg.svd(mesh.towards[None])[2][1:]
        frame = np.stack([right, up, mesh.towards / np.linalg.norm(mesh.towards)])
    seen = vertices @ (frame * np.array([[np.linalg.det(frame)], [1.0], [1.0]])).T  # no mirror images
    corners = seen[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True).clip(np.finfo(float).tiny)
    visible = np.flatnonzero(normals[:, 2] > 0)
    order = visible[corners[visible, :, 2].mean(1).argsort()]
    scale = largest(mesh.values)
    colours = matplotlib.colormaps[DIVERGING](0.5 + 0.5 * mesh.values[mesh.faces[order]].mean(1) / scale)
    colours[:, :3] *= (0.45 + 0.55 * (normals[order] @ _LIGHT).clip(0))[:, None]
    faces = PolyCollection(
        list(corners[order, :, :2]),
        facecolors=colours,
        edgecolors="black" if mesh.edges else colours,
        linewidths=0.08 if mesh.edges else 0.3,
        rasterized=True,
    )
    axes.add_collection(faces)
    low, high = seen[:, :2].min(0), seen[:, :2].max(0)
    (x, y), half = (low + high) / 2, (high - low).max() / 2
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
    axes.spines[:].set_visible(False)
