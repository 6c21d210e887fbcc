"""The embedded shapes without learning: nearest neighbours by classical descriptors, on the splits of the experiment.

Two rivals have the mesh, whose areas and distances networks never see:

- the distribution of the heat kernel signature over the surface (quantiles, by area);
- the functional map between Laplacians that takes the signatures of one surface to those of the other: what it leaves
  of them, and how far it is from commuting with the Laplacians, is the distance (Ovsjanikov et al. 2012).

Both are the same for all conformal variants, which carry the signature of their base shape. A third has what networks
have, signatures on a grid of the sphere, and is told that variants are related by Möbius transformations: areas on the
sphere change under these, but |∇f|² dA does not. So the distribution of a signature's values by its own Dirichlet
energy is the same for all variants, to the accuracy of the grid; and so is the energy.

Run: python -m studies.shape_rivals
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import tyro

from benchmarks.common import Named, table, write

import numpy as np  # isort: skip  # after benchmarks.common, which sets how threads wait
import torch
from torch import Tensor

from niso.data.prepared import PARAMETERS, read_json
from niso.data.shapes.prepared import PreparedShapes
from niso.experiments.shapes.maps import embedded
from niso.experiments.shapes.presets import PRESETS
from niso.experiments.shapes.split import split
from niso.geometry.domains import equirectangular
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.surface import Mesh
from studies.quantiles import quantiles

RANK = 15
"""Eigenfunctions of functional maps; of 8, 15 and 30 the best on validation shapes."""
COMMUTING = 10.0
"""Weight of commuting with the Laplacians, whose eigenvalues are divided by their largest, at signatures of norm 1; of
0.01 to 100 the best on validation shapes."""
FLOOR = 1e-3
"""Smallest signature of which the logarithm is taken."""


def logarithm(signature: Tensor) -> Tensor:
    """Of signatures less their limit 1, as folders hold them."""
    return (signature.double() + 1).clamp_min(FLOOR).log()


def conformal(maps: Tensor, layout: equirectangular.Layout) -> Tensor:
    """Quantiles of each channel by its Dirichlet energy, and the energy's logarithm: Möbius transformations keep them.

    Args:
        maps: (channels, height, width) on a grid with its seam and poles.
    """
    f = logarithm(maps)
    height, width = f.shape[1:]
    theta = equirectangular.colatitudes(height, layout)
    step = theta[1] - theta[0], 2 * torch.pi / (width - 1)
    sine = ((theta[1:] + theta[:-1]) / 2).sin()[:, None]
    down, across = f.diff(dim=1) / step[0], f.diff(dim=2) / step[1]
    down, across = (down[..., 1:] + down[..., :-1]) / 2, (across[:, 1:] + across[:, :-1]) / 2
    energy = (down.square() * sine + across.square() / sine) * step[0] * step[1]
    middle = (f[:, 1:, 1:] + f[:, :-1, 1:] + f[:, 1:, :-1] + f[:, :-1, :-1]) / 4
    distribution = quantiles(middle.flatten(1).T, energy.flatten(1).T + 1e-12)
    return torch.cat([distribution, energy.sum((1, 2)).log()[:, None]], dim=1).flatten()


class Meshes:
    """What the rivals that have the mesh know of every shape."""

    def __init__(self, shapes: PreparedShapes) -> None:
        facts = read_json(shapes.folder / PARAMETERS)
        times = np.geomspace(facts["first_time"], facts["last_time"], facts["times"])
        features, eigenvalues, coefficients = [], [], []
        for number in range(len(shapes.names)):
            surface = shapes.surface(number)
            mesh = meshes.unit_area(Mesh(surface.vertices.astype(np.float64), surface.faces.astype(np.int64)))
            operator = mesh_spectrum.laplacian(mesh)
            pairs = mesh_spectrum.eigenpairs(operator, facts["eigenpairs"])
            signature = torch.from_numpy(mesh_spectrum.heat_kernel_signature(pairs, times) - 1)
            mass, basis = torch.from_numpy(operator.mass), torch.from_numpy(pairs.eigenfunctions[:, :RANK])
            f = logarithm(signature)
            features.append(quantiles(f, mass[:, None]).flatten())
            eigenvalues.append(torch.from_numpy(pairs.eigenvalues[:RANK]))
            coefficients.append(basis.T @ (mass[:, None] * f))
        self.features, self.eigenvalues = torch.stack(features), torch.stack(eigenvalues)
        self.coefficients = torch.stack(coefficients)

    def distances(self, some: Tensor, others: Tensor) -> Tensor:
        """Of functional maps from each of some shapes to each of the others."""
        scale = self.eigenvalues.max()
        norm = self.coefficients[others].square().mean(0).sum(0).sqrt()  # of each channel, so that each counts alike
        a, b = (self.coefficients[part] / norm for part in (some, others))
        rows = []
        for source, values in zip(a, self.eigenvalues[some] / scale, strict=True):
            apart = (values - self.eigenvalues[others][:, :, None] / scale).square()  # other, its row, column
            system = source @ source.T + COMMUTING * torch.diag_embed(apart)
            taken = torch.linalg.solve(system, (source @ b.mT).mT[..., None])[..., 0]
            left = (taken @ source - b).square().sum((1, 2))
            rows.append(left + COMMUTING * (apart * taken.square()).sum((1, 2)))
        return torch.stack(rows)


def euclidean(features: Tensor, some: Tensor, others: Tensor) -> Tensor:
    """Distances of features standardised by those of the others."""
    known = features[others]
    return torch.cdist((features[some] - known.mean(0)) / known.std(0), (known - known.mean(0)) / known.std(0))


@dataclass(frozen=True)
class Rivals(Named):
    """Options."""

    preset: str = "quick"
    """Of the shapes experiment, whose grid and splits are taken."""
    seeds: int = 5
    """0 … N − 1."""


def main(options: Rivals) -> None:
    """Classify held-out and validation shapes of every seed's split by their nearest neighbour."""
    torch.set_num_threads(1)
    config = PRESETS[options.preset]
    shapes = embedded(config)
    labels, variants = shapes.labels, shapes.variants
    start = process_time()
    known = Meshes(shapes)
    of_meshes = process_time() - start
    start = process_time()
    maps = (one for shape in range(len(labels)) for one in torch.from_numpy(np.array(shapes.maps(shape))))
    features = torch.stack([conformal(one, shapes.layout) for one in maps])
    of_maps = process_time() - start

    def maps_of(members: Tensor, which: Tensor) -> Tensor:
        return (members[:, None] * variants + which).flatten()

    every, base = torch.arange(variants), torch.zeros(1, dtype=torch.long)
    results: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.seeds):
        train, validation, test = split(shapes, config, seed)
        for part, members in {"test": test, "validation": validation}.items():
            distances = {
                "distribution over the surface": euclidean(known.features, members, train),
                "functional map": known.distances(members, train),
            }
            for name, found in distances.items():
                right = labels[train][found.argmin(1)] == labels[members]
                results.setdefault(name, {}).setdefault(part, []).append(right.double().mean().item())
            for name, which in {"base maps": base, "all maps": every}.items():
                index, others = maps_of(members, every), maps_of(train, which)
                nearest = others[euclidean(features, index, others).argmin(1)] // variants
                right = (labels[nearest] == labels[index // variants]).double().view(-1, variants)
                entry = results.setdefault(f"conformal invariants, {name}", {})
                entry.setdefault(part, []).append(right.mean().item())
                entry.setdefault(f"{part}_base", []).append(right[:, 0].mean().item())

    def cell(values: list[float] | None) -> str:
        if values is None:
            return "the same"
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
        return f"{np.mean(values):.3f} ± {error:.3f}"

    title = f"Nearest neighbours without learning, {options.preset}, {options.seeds} seeds"
    columns = ("neighbour by", "accuracy, all maps", "base shapes", "validation, all maps")
    rows = [(name, cell(r["test"]), cell(r.get("test_base")), cell(r["validation"])) for name, r in results.items()]
    table(title, columns, rows)
    seconds = {"meshes": of_meshes, "maps": of_maps}
    write("shape_rivals", options, {"results": results, "seconds": seconds})


if __name__ == "__main__":
    main(tyro.cli(Rivals, description=__doc__))
