"""Figures of a shapes result, in the order that its report shows them.

All but the first two are of the pre-trained model: what is trained on with the head has no decoder.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from niso import figures
from niso.experiments import map_figures
from niso.experiments.shapes.experiment import ShapesResult
from niso.geometry.domains import equirectangular
from niso.report import Picture

COUNT = 6
"""Pairs that are shown."""


def meshes(result: ShapesResult) -> Picture:
    """A held-out shape of each class: mesh, conformal variants, map to the sphere, features."""
    rows, labels = [], []
    for example in result.examples:
        *bodies, directions = example.meshes
        values, faces, base = example.signature, example.faces, example.maps[0].numpy()
        sphere = figures.DrawnMesh(directions, faces, values, True, directions[values.argmax()])
        rows.append(
            [*(figures.DrawnMesh(body, faces, values) for body in bodies), sphere, base[0], base[len(base) // 2]]
        )
        labels.append(example.label)
    titles = ["mesh", "variant", "variant", "map to the sphere", "first time", "middle time"]
    return Picture(
        "meshes",
        "From meshes to functions on the sphere. Each row is a held-out shape of one class: its mesh, two meshes "
        "that are conformally equivalent to it (Möbius transformations of space), its conformal map to the sphere, "
        "and its heat kernel signature at two times on the grid of colatitudes (down) and longitudes (across). "
        "Meshes are coloured by the signature at the middle time, blue above the mean over all shapes and red "
        "below.",
        figures.mesh_table(rows, titles, labels),
    )


def features(result: ShapesResult) -> Picture:
    """A held-out shape of each class and some of its variants, at the first and a middle time."""
    layout = result.examples[0].layout
    maps = torch.cat([example.maps for example in result.examples])
    across, (_, depth, height, width) = len(result.examples[0].maps), maps.shape
    places = equirectangular.directions(height, width, "driscoll-healy")[None]
    centred = equirectangular.sample(maps, places, layout)
    return Picture(
        "shapes",
        "Features on the sphere, blue above the mean and red below, at the first and a middle time of the heat kernel "
        "signature. A row is a held-out shape of one class: the base shape, then conformal variants, whose features "
        "are the same up to a map of the sphere that is (nearly) a Möbius transformation.",
        figures.sphere_rows(
            [
                (f"time {channel + 1} of {depth}", centred[:, channel].flatten(1).mT)
                for channel in sorted({0, depth // 2})
            ],
            (height, width),
            [list(range(across * row, across * (row + 1))) for row in range(len(result.examples))],
            [example.label for example in result.examples],
        ),
    )


def grey(x: Float[Tensor, "count channels height width"]) -> Float[Tensor, "count height width 3"]:
    """A middle channel as grey images, which `image_rows` shows as they are."""
    return x[:, x.shape[1] // 2, :, :, None].float().expand(-1, -1, -1, 3)


def pairs(result: ShapesResult) -> Picture:
    """Held-out variants, and what the method makes of them."""
    words = "Two variants of held-out shapes; one channel, on the grid of colatitudes (down) and longitudes (across)."
    return map_figures.transported("pairs", words, result.pairs, grey, COUNT)


def mobius(result: ShapesResult) -> Iterator[Picture]:
    """Held-out shapes under Möbius transformations, predicted by their own maps and by another shape's."""
    if result.warped.maps is None:
        return
    words = "Held-out shapes under random Möbius transformations of the sphere, which the model was not trained on."
    yield map_figures.transported("mobius", words, result.warped, grey, COUNT)


def eigenfunctions(result: ShapesResult) -> Iterator[Picture]:
    """Eigenfunctions and mass on the sphere; nothing where the method learns no operator."""
    if result.operator is None:
        return
    mass, functions, values = result.operator.drawn
    rank, across = len(values), min(len(values), 16)
    rows = [list(range(start, min(start + across, rank))) for start in range(0, rank, across)]
    labels = [f"{values[row[0]]:.2f} …\n{values[row[-1]]:.2f}" for row in rows]
    drawn = torch.cat([functions, (mass - mass.mean())[:, None]], 1)
    columns = [("learned eigenfunctions, and mass", drawn)]
    height, width = result.operator.drawn_grid
    yield Picture(
        "eigenfunctions",
        f"Learned eigenfunctions on {map_figures.grid_text(result.operator)}, drawn on the sphere, in ascending "
        "eigenvalue (left), and the learned mass, less its mean, in the last row.",
        figures.sphere_rows(columns, (height, width), [*rows, [rank]], [*labels, "mass"]),
    )


def mass(result: ShapesResult) -> Iterator[Picture]:
    """The learned mass beside the areas of cells; nothing where the method learns no operator."""
    if result.operator is None:
        return
    operator = result.operator
    height, width = operator.grid
    yield Picture(
        "mass",
        "Learned mass, and the areas that cells of the latent grid have on the sphere. Möbius transformations do "
        "not keep areas.",
        figures.mass_beside(operator.spectrum.mass, operator.areas, (height, width), ("learned mass", "areas")),
    )


FIGURES = (
    meshes,
    features,
    pairs,
    mobius,
    lambda result: map_figures.same_transformation(result.warped, "shape", "Möbius transformation", COUNT),
    lambda result: map_figures.singular_values(result.pairs),
    eigenfunctions,
    lambda result: map_figures.mask(result.operator, result.warped.maps, "a few Möbius transformations"),
    mass,
)
