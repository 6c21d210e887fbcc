"""Pictures of a shapes run, in the order that its report shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso import figures
from niso.experiments import map_figures as map_pictures
from niso.geometry.domains import equirectangular
from niso.geometry.mesh import space_mobius
from niso.geometry.mesh.surface import Mesh
from niso.methods import Autoencoder
from niso.model import NeuralIsometry
from niso.report import Picture

if TYPE_CHECKING:
    from niso.experiments.shapes.experiment import Shapes

COUNT = 6
"""Pairs that are shown."""
PICTURE_SEED = 0
"""Of the conformal variants that are shown as meshes."""
CLASSES = 8
"""Classes that are shown, at most."""


@torch.no_grad()
def pictures(experiment: Shapes) -> list[Picture]:
    """Features, transported maps, functional maps and the learned spectrum, as far as the method has them.

    All but the first two are of the pre-trained model: what is trained on with the head has no decoder.
    """
    drawn = [*meshes(experiment), features(experiment), pairs(experiment)]
    if not isinstance(experiment.pretrained, Autoencoder):
        same = next(experiment.warped(COUNT))
        drawn += [
            mobius_pairs(experiment),
            map_pictures.same_transformation(experiment.pretrained, same, "shape", "Möbius transformation"),
        ]
    if isinstance(experiment.pretrained, NeuralIsometry):
        drawn += spectrum(experiment)
    return drawn


def of_each_class(experiment: Shapes) -> list[Int[Tensor, ""]]:
    """The first held-out shape of each of the first classes."""
    labels = experiment.shapes.labels[experiment.test].tolist()
    return [experiment.test[labels.index(label)] for label in sorted(set(labels))[:CLASSES]]


def meshes(experiment: Shapes) -> list[Picture]:
    """A held-out shape of each class: mesh, conformal variants, map to the sphere, features; none without meshes."""
    shapes = experiment.shapes
    rows, labels = [], []
    transformations = space_mobius.sample(2, np.random.default_rng(PICTURE_SEED))
    for shape in of_each_class(experiment):
        surface = shapes.surface(int(shape))
        if surface is None:
            continue
        grids = experiment.maps(shape[None], torch.zeros(1, dtype=torch.long)).double().cpu()
        places = torch.from_numpy(surface.directions).double()[None, None]
        late = shapes.channels // 2
        values = equirectangular.sample(grids[:, [late]], places, shapes.layout)[0, 0, 0].numpy()
        mesh = Mesh(surface.vertices, surface.faces)
        bodies = [mesh, *(space_mobius.transform(mesh, t) for t in transformations)]
        rows.append(
            [figures.DrawnMesh(body.vertices, surface.faces, values) for body in bodies]
            + [figures.DrawnMesh(surface.directions, surface.faces, values, True, surface.directions[values.argmax()])]
            + [grids[0, channel].numpy() for channel in (0, late)]
        )
        labels.append(shapes.classes[shapes.labels[shape]])
    if not rows:
        return []
    titles = ["mesh", "variant", "variant", "map to the sphere", "first time", "middle time"]
    return [
        Picture(
            "meshes",
            "From meshes to functions on the sphere. Each row is a held-out shape of one class: its mesh, two meshes "
            "that are conformally equivalent to it (Möbius transformations of space), its conformal map to the sphere, "
            "and its heat kernel signature at two times on the grid of colatitudes (down) and longitudes (across). "
            "Meshes are coloured by the signature at the middle time, blue above the mean over all shapes and red "
            "below.",
            figures.mesh_table(rows, titles, labels),
        )
    ]


def features(experiment: Shapes) -> Picture:
    """A held-out shape of each class and some of its variants, at the first and a middle time."""
    shapes = experiment.shapes
    shown = of_each_class(experiment)
    across = min(4, shapes.variants)
    seen = torch.cat([experiment.maps(shape.expand(across), torch.arange(across)) for shape in shown]).cpu().double()
    places = equirectangular.directions(shapes.height, shapes.width, "driscoll-healy")[None]
    centred = equirectangular.sample(seen, places, shapes.layout)
    channels = sorted({0, shapes.channels // 2})
    return Picture(
        "shapes",
        "Features on the sphere, blue above the mean and red below, at the first and a middle time of the heat kernel "
        "signature. A row is a held-out shape of one class: the base shape, then conformal variants, whose features "
        "are the same up to a map of the sphere that is (nearly) a Möbius transformation.",
        figures.sphere_rows(
            [(f"time {channel + 1} of {shapes.channels}", centred[:, channel].flatten(1).mT) for channel in channels],
            (shapes.height, shapes.width),
            [list(range(across * row, across * (row + 1))) for row in range(len(shown))],
            [shapes.classes[shapes.labels[shape]] for shape in shown],
        ),
    )


def grey(x: Float[Tensor, "count channels height width"]) -> Float[Tensor, "count height width 3"]:
    """A middle channel as grey images, which `image_rows` shows as they are."""
    return x[:, x.shape[1] // 2, :, :, None].float().cpu().expand(-1, -1, -1, 3)


def pairs(experiment: Shapes) -> Picture:
    """Held-out variants, and what the model makes of them."""
    model = experiment.pretrained
    x, tx = next(experiment.held_out(COUNT))
    rows = [("ψ", x), ("Tψ", tx)]
    if isinstance(model, Autoencoder):
        rows.append(("D E(Tψ)", model.decode(model.encode(tx))))
        caption = "Two variants of held-out shapes, and the autoencoder's reconstructions of the second."
    else:
        a = model.encode(x)
        rows += [("D E(ψ)", model.decode(a)), ("D τ E(ψ)", model.decode(model.map_between(x, tx) @ a))]
        caption = (
            "Two variants of held-out shapes, the reconstruction of the first, and the second as it is predicted from "
            "the first by the map τ solved from the pair."
        )
    return Picture(
        "pairs",
        f"{caption} One channel, on the grid of colatitudes (down) and longitudes (across).",
        figures.image_rows([(title, grey(view)) for title, view in rows], (-1.0, 1.0)),
    )


def mobius_pairs(experiment: Shapes) -> Picture:
    """Held-out shapes under Möbius transformations, predicted by their own maps and by another shape's."""
    model = experiment.pretrained
    assert not isinstance(model, Autoencoder)
    x, tx, other, t_other = next(experiment.warped(COUNT))
    a, tau, stolen = model.encode(x), model.map_between(x, tx), model.map_between(other, t_other)
    rows = [("ψ", x), ("Tψ", tx), ("D τ E(ψ)", model.decode(tau @ a)), ("D τ′ E(ψ)", model.decode(stolen @ a))]
    return Picture(
        "mobius",
        "Held-out shapes under random Möbius transformations of the sphere, which the model was not trained on, and "
        "predictions from the first row: by the map τ solved from the pair itself, and by the map τ′ solved from "
        "another shape under the same transformation, which cannot carry anything of this shape's.",
        figures.image_rows([(title, grey(view)) for title, view in rows], (-1.0, 1.0)),
    )


def spectrum(experiment: Shapes) -> list[Picture]:
    """Eigenfunctions on the sphere, eigenvalue mask and maps under it, mass."""
    model = experiment.pretrained
    assert isinstance(model, NeuralIsometry)
    mass, functions, eigenvalues = (part.cpu() for part in model.spectrum())
    order = eigenvalues.argsort()
    rank, height, width = len(order), *experiment.grid
    across = min(rank, 16)
    rows = [list(range(start, min(start + across, rank))) for start in range(0, rank, across)]
    values = eigenvalues[order]
    labels = [f"{values[row[0]]:.2f} …\n{values[row[-1]]:.2f}" for row in rows]
    drawn = torch.cat([functions[:, order], (mass - mass.mean())[:, None]], 1)
    rows, labels = [*rows, [rank]], [*labels, "mass"]
    areas = equirectangular.colatitudes(height, "driscoll-healy").sin()[:, None].expand(height, width) / math.pi
    x, tx, *_ = next(experiment.warped(COUNT))
    return [
        Picture(
            "eigenfunctions",
            "Learned eigenfunctions on the latent grid, drawn on the sphere, in ascending eigenvalue (left), and the "
            "learned mass, less its mean, in the last row.",
            figures.sphere_rows([("learned eigenfunctions, and mass", drawn)], experiment.grid, rows, labels),
        ),
        map_pictures.mask(model, x, tx, "a few Möbius transformations"),
        Picture(
            "mass",
            "Learned mass, and the areas that cells of the latent grid have on the sphere. Möbius transformations do "
            "not keep areas.",
            figures.mass_beside(mass, areas.flatten(), experiment.grid, ("learned mass", "areas")),
        ),
    ]
