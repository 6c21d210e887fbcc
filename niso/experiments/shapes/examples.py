"""Held-out shapes that a report shows: their features, and the way from meshes to functions on the sphere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.data.shapes.prepared import PreparedShapes
from niso.experiments.shapes.maps import ShapeMaps
from niso.geometry.domains import equirectangular
from niso.geometry.mesh import space_mobius
from niso.geometry.mesh.surface import Mesh

SEED = 0
"""Of the conformal variants that are shown as meshes."""
CLASSES = 8
"""Classes that are shown, at most."""
VARIANTS = 4
"""Variants whose features are shown, at most."""


class ShapeExample(NamedTuple):
    """A held-out shape.

    Attributes:
        label: its class.
        maps: features of the base shape and of variants, as networks take them.
        layout: of their grid.
        meshes: vertices of the mesh and of two conformal variants, and of its map to the sphere.
        faces: of all of them.
        signature: at the vertices, at the middle time.
    """

    label: str
    maps: Float[Tensor, "variants channels height width"]
    layout: equirectangular.Layout
    meshes: list[Float[np.ndarray, "vertices 3"]]
    faces: Int[np.ndarray, "faces 3"]
    signature: Float[np.ndarray, " vertices"]


def examples(shapes: PreparedShapes, members: Int[Tensor, " members"], maps: ShapeMaps) -> list[ShapeExample]:
    """The first of these shapes of each of the first classes."""
    labels = shapes.labels[members].tolist()
    chosen = [members[labels.index(label)] for label in sorted(set(labels))[:CLASSES]]
    return [_example(shapes, shape, maps) for shape in chosen]


def _example(shapes: PreparedShapes, shape: Int[Tensor, ""], maps: ShapeMaps) -> ShapeExample:
    label = shapes.classes[shapes.labels[shape]]
    count = min(VARIANTS, shapes.variants)
    features = maps(shape.expand(count), torch.arange(count)).double().cpu()
    surface = shapes.surface(int(shape))
    places = torch.from_numpy(surface.directions).double()[None, None]
    middle = shapes.channels // 2
    signature = equirectangular.sample(features[:1, [middle]], places, shapes.layout)[0, 0, 0].numpy()
    mesh = Mesh(surface.vertices, surface.faces)
    transformations = space_mobius.sample(2, np.random.default_rng(SEED))
    bodies = [
        surface.vertices,
        *(space_mobius.transform(mesh, t).vertices for t in transformations),
        surface.directions,
    ]
    return ShapeExample(label, features, shapes.layout, bodies, surface.faces, signature)
