"""A field read at the vertices of meshes instead of a raster: how far coefficients and maps depend on which mesh.

Functions are the signatures that networks see. They are known at the vertices of a held-out shape, and in its raster. A
pair is these functions and the same ones after a Möbius transformation of the sphere, by which vertices move and a
raster is made anew; its map τ is solved from coefficients alone. It is one transformation for all shapes and runs,
drawn once with strength 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.prepared import PARAMETERS, read_json
from niso.data.shapes.prepared import PreparedShapes, Surface
from niso.experiments.shapes.maps import ShapeMaps
from niso.geometry import mobius
from niso.geometry.domains.domain import Sampling, rastered_sphere
from niso.geometry.mesh import remeshing
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh.raster import rasterise
from niso.geometry.mesh.sampling import LARGEST, MeshSampling, at_vertices, carried, unit, within_faces
from niso.geometry.mesh.surface import Mesh, unit_area
from niso.methods.method import Method
from niso.random import EVALUATION_SEED
from niso.results import Metric
from niso.spectrum import Spectrum

MESHES = {
    "raster": "the prepared grid",
    "points": "the vertices alone, with a third of the area of the faces around each, not the whole of the faces",
    "decimated": "half as many faces",
    "subdivided": "four times as many faces, by Loop's subdivision",
    "simplified": "these decimated to as many as before",
    "interpolated": "half as many faces, the signatures interpolated at its vertices instead of carried in mean square",
    "resampled": "other points of the surface, triangulated anew",
}
"""What a mesh is compared with."""
SHAPES = 10
"""Held-out shapes that are read, at most."""

_OF_MESHES = [
    metric
    for name, text in MESHES.items()
    for metric in (
        Metric(
            f"coefficient_error_{name}",
            f"‖a′ − a‖ / ‖a‖ of the same signatures on a mesh and on {text}, before and after a fixed Möbius "
            "transformation of strength 1 together (mean over held-out shapes; fields alone)",
            "lower",
        ),
        Metric(f"map_difference_{name}", "‖τ′ − τ‖ / ‖τ‖ of the maps of that transformation, likewise", "lower"),
    )
]
VERTEX_METRICS = (
    *_OF_MESHES,
    Metric(
        "signature_error_decimated",
        "‖a′ − a‖ / ‖a‖ of the signatures of two meshes, each computed on its own: half as many faces",
        "lower",
    ),
    Metric("signature_error_resampled", "the same: other points of the surface, triangulated anew", "lower"),
)


class Placed(NamedTuple):
    """Functions on a mesh that is mapped to the sphere.

    Attributes:
        directions: places of the vertices.
        values: at the vertices.
    """

    directions: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]
    values: Float[np.ndarray, "vertices channels"]


class VertexReading:
    """What a field makes of held-out shapes on several meshes and in their raster.

    Args:
        method: pre-trained, on these maps.
    """

    def __init__(self, shapes: PreparedShapes, maps: ShapeMaps, method: Method) -> None:
        self.shapes, self.maps, self.method = shapes, maps, method
        size = shapes.height, shapes.width
        self.raster = rastered_sphere(size, shapes.layout)(*size)
        action = mobius.MobiusTransformations(1.0)
        self.transformation = action.sample(1, torch.Generator().manual_seed(EVALUATION_SEED))[0].to(torch.complex128)
        self.generator = np.random.default_rng(EVALUATION_SEED)
        self.signatures = _signatures(shapes)

    @torch.no_grad()
    def measure(self, members: Int[Tensor, " members"]) -> dict[str, float]:
        """Means over some of these shapes.

        Nothing where the spectrum is known on the latent grid alone.
        """
        if self._at(self.raster) is None:
            return {}
        chosen = members[evenly(SHAPES, len(members))].tolist()
        rows = [self._measure(self.shapes.surface(shape), *self.signatures) for shape in chosen]
        return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}

    def _measure(self, surface: Surface, eigenpairs: int, times: Float[np.ndarray, " times"]) -> dict[str, float]:
        mesh = Mesh(surface.vertices.astype(np.float64), surface.faces.astype(np.int64))

        def signature(of: Mesh) -> Float[np.ndarray, "vertices channels"]:
            of = unit_area(of)
            pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(of), min(eigenpairs, len(of.vertices) - 1))
            return self._scaled(mesh_spectrum.heat_kernel_signature(pairs, times) - 1)

        whole = Placed(unit(surface.directions.astype(np.float64)), mesh.faces, signature(mesh))
        finer = remeshing.subdivided(mesh)
        others = {
            "decimated": remeshing.decimated(mesh),
            "subdivided": finer,
            "simplified": remeshing.simplified(finer, len(mesh.faces)),
            "resampled": remeshing.resampled(mesh, whole.directions, self.generator),
        }
        placed = {name: self._carried(whole, other) for name, other in others.items()}
        decimated, carry = placed["decimated"], others["decimated"].carry
        read = {
            "raster": self._pair(whole, self._on_raster),
            "points": self._pair(whole, self._at_vertices),
            **{name: self._pair(part, self._on_mesh) for name, part in placed.items()},
            "interpolated": self._pair(decimated._replace(values=carry @ whole.values), self._on_mesh),
        }
        own = self._pair(whole, self._on_mesh)
        errors = {}
        for name, (coefficients, tau) in read.items():
            errors[f"coefficient_error_{name}"] = _relative(coefficients, own[0])
            errors[f"map_difference_{name}"] = _relative(tau, own[1])
        for name in ("decimated", "resampled"):
            computed = placed[name]._replace(values=signature(others[name].mesh))
            errors[f"signature_error_{name}"] = _relative(self._on_mesh(computed), own[0][0])
        return errors

    def _carried(self, whole: Placed, other: remeshing.Remeshed) -> Placed:
        directions, faces = unit(other.carry @ whole.directions), other.mesh.faces
        return Placed(directions, faces, carried(*whole, directions, faces))

    def _pair(self, part: Placed, read: Callable[[Placed], Tensor]) -> tuple[Tensor, Tensor]:
        """Coefficients before and after the transformation, and the map between them."""
        moved = mobius.act(self.transformation, torch.from_numpy(part.directions)).numpy()
        a, b = read(part), read(part._replace(directions=unit(moved)))
        return torch.stack([a, b]), self.method.solve(a[None], b[None])

    def _on_mesh(self, part: Placed) -> Tensor:
        return self._read(within_faces(part.directions, part.faces, LARGEST), part.values)

    def _at_vertices(self, part: Placed) -> Tensor:
        return self._read(at_vertices(part.directions, part.faces), part.values)

    def _read(self, where: MeshSampling, values: Float[np.ndarray, "vertices channels"]) -> Tensor:
        return self._project(where.sampling, np.asarray(where.interpolation @ values))

    def _on_raster(self, part: Placed) -> Tensor:
        shapes = self.shapes
        image = rasterise(part.directions, part.faces, part.values, shapes.height, shapes.width, shapes.layout)
        return self._project(self.raster, image.reshape(len(image), -1).T.copy())

    def _project(self, sampling: Sampling, values: Float[np.ndarray, "points channels"]) -> Tensor:
        spectrum = self._at(sampling)
        assert spectrum is not None
        return spectrum.project(torch.from_numpy(values).to(spectrum.eigenfunctions))

    def _at(self, sampling: Sampling) -> Spectrum | None:
        points, weights = sampling
        height, width = self.method.grid  # each point has weight 1 there
        return self.method.spectrum_at(Sampling(points, weights * (height * width / weights.sum())))

    def _scaled(self, values: Float[np.ndarray, "vertices channels"]) -> Float[np.ndarray, "vertices channels"]:
        columns = torch.from_numpy(values.T.copy())[None, :, :, None]
        return self.maps.scaled(columns)[0, :, :, 0].double().cpu().numpy().T


def _signatures(shapes: PreparedShapes) -> tuple[int, Float[np.ndarray, " times"]]:
    """Eigenpairs and times of the signatures."""
    facts = read_json(shapes.folder / PARAMETERS)
    return facts["eigenpairs"], np.geomspace(facts["first_time"], facts["last_time"], facts["times"])


def _relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()
