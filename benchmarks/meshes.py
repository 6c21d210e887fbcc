"""The mesh pipeline on real meshes: how good the spherical maps are, the CPU seconds of every stage, and libigl's own.

Run: python -m benchmarks.meshes FOLDER
"""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import tyro

from benchmarks.common import Named, table, write

import igl  # isort: skip  # after benchmarks.common, which sets how threads wait
import numpy as np
import torch

from niso.data.shapes.preparation import Preparation
from niso.data.shapes.sources import SUFFIXES
from niso.geometry.mesh import space_mobius, spherical_map
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import read_mesh
from niso.geometry.mesh.raster import rasterise
from niso.geometry.mesh.surface import Mesh

RANK = 128
GRID = Preparation.height, Preparation.width, Preparation.layout


class Stages:
    """CPU seconds between calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = process_time()

    def done(self, name: str) -> None:
        now = process_time()
        self.seconds[name] = now - self.last
        self.last = now


def geodesic_residual(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Mean and largest angle between two maps to the sphere after the best rotation, in radians."""
    u, _, vh = np.linalg.svd(one.T @ (other * weights[:, None]))
    turned = other @ (u @ np.diag([1, 1, np.linalg.det(u @ vh)]) @ vh).T
    angles = 2 * np.arcsin(np.clip(np.linalg.norm(one - turned, axis=1) / 2, 0, 1))
    return float(np.average(angles, weights=weights)), float(angles.max())


def prepare(path: Path) -> tuple[Mesh, np.ndarray, np.ndarray, dict[str, Any]]:
    """All stages on one mesh: it, its centred map and signature, and what was measured."""
    stages = Stages()
    mesh = read_mesh(path)
    stages.done("read")
    meshes.check(mesh, path.name)
    stages.done("check")
    flow = spherical_map.conformal_flow(mesh)
    stages.done("flow")
    areas = meshes.vertex_areas(mesh)
    centred = spherical_map.centre(flow.directions, areas)[0]
    stages.done("centre")
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(meshes.unit_area(mesh)), RANK)
    stages.done("eigenpairs")
    signature = mesh_spectrum.heat_kernel_signature(pairs, np.geomspace(1e-2, 1.0, 16))
    rasterise(centred, mesh.faces, signature, *GRID)
    stages.done("raster")
    libigl = libigl_alone(mesh, centred)
    quality = spherical_map.quality(mesh, centred)
    convergence = {name: value for name, value in flow._asdict().items() if name != "directions"}
    size = {"name": path.stem, "vertices": len(mesh.vertices), "faces": len(mesh.faces)}
    found = {**size, **convergence, **quality._asdict(), "seconds": stages.seconds, "libigl_seconds": libigl}
    return mesh, centred, signature, found


def libigl_alone(mesh: Mesh, directions: np.ndarray) -> float:
    """CPU seconds of what libigl computes of one mesh: manifoldness, intrinsic Delaunay Laplacian, closest points."""
    faces, (theta, phi) = mesh.faces.astype(np.int64), np.meshgrid(np.linspace(0, np.pi, 96), np.linspace(0, 6.25, 192))
    grid = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1).reshape(-1, 3)
    start = process_time()
    igl.is_vertex_manifold(faces)
    lengths, flipped, *_ = igl.intrinsic_delaunay_triangulation(igl.edge_lengths(mesh.vertices, faces), faces)
    igl.cotmatrix_intrinsic(lengths, flipped)
    igl.massmatrix_intrinsic(lengths, flipped, igl.MASSMATRIX_TYPE_BARYCENTRIC)
    igl.point_mesh_squared_distance(grid, np.ascontiguousarray(directions), faces)
    return process_time() - start


def variants(mesh: Mesh, centred: np.ndarray, signature: np.ndarray, count: int) -> dict[str, Any]:
    """Prepare conformal variants; compare their maps with the mesh's, up to Möbius transformations."""
    areas, spent, rows = meshes.vertex_areas(mesh), 0.0, []
    for transformation in space_mobius.sample(count, np.random.default_rng(0)):
        start = process_time()
        variant = space_mobius.transform(mesh, transformation)
        flow = spherical_map.conformal_flow(variant)
        moved = spherical_map.centre(flow.directions, meshes.vertex_areas(variant))[0]
        rasterise(moved, mesh.faces, signature, *GRID)
        spent += process_time() - start
        again = spherical_map.centre(flow.directions, areas)[0]
        flipped = spherical_map.quality(variant, moved).flipped
        rows.append((flow.radius_error, flipped, *geodesic_residual(centred, again, areas)))
    error, flipped, mean, largest = np.array(rows).T
    return {
        "variants": count,
        "seconds": spent,
        "radius_error_worst": float(error.max()),
        "flipped_worst": int(flipped.max()),
        "mobius_residual_mean": float(mean.mean()),
        "mobius_residual_worst": float(largest.max()),
    }


def sphere_signature() -> list[dict[str, float]]:
    """Largest relative error of the signature of the unit sphere (10,242 vertices) against its closed form."""
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(meshes.icosphere(5)), 144)
    degree, errors = np.arange(200), []
    for t in (0.05, 0.1, 0.3, 1.0):
        exact = ((2 * degree + 1) * np.exp(-degree * (degree + 1) * t)).sum() / (4 * np.pi)
        signature = mesh_spectrum.heat_kernel_signature(pairs, np.array([t]))
        errors.append({"time": t, "error": float(np.abs(signature / exact - 1).max())})
    return errors


def main(
    folder: tyro.conf.Positional[Path],
    variant_count: int = 3,
    largest_count: int = 30,
    options: Named = Named(),  # noqa: B008  # frozen
) -> None:
    """Prepare all meshes of a folder.

    Args:
        folder: where the meshes are.
        variant_count: conformal variants of each mesh.
        largest_count: of the first of the largest ones: 30, as the data set has.
        options: of every benchmark.
    """
    torch.set_num_threads(1)
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    prepared = [prepare(path) for path in paths]
    largest = max(range(len(paths)), key=lambda number: prepared[number][3]["vertices"])
    results = []
    for number, (mesh, centred, signature, record) in enumerate(prepared):
        count = largest_count if number == largest else variant_count
        results.append({**record, "conformal_variants": variants(mesh, centred, signature, count)})
    columns = ("mesh", "vertices", "radius error", "flipped", "K mean", "K 99 %", "K max", "seconds", "residual")
    rows = [
        (
            *(r[key] for key in ("name", "vertices", "radius_error", "flipped", "distortion")),
            *(r["distortion_99"], r["distortion_max"], sum(r["seconds"].values())),
            r["conformal_variants"]["mobius_residual_mean"],
        )
        for r in results
    ]
    table("Spherical maps of real meshes", columns, rows)
    stages = tuple(results[0]["seconds"])
    rows = []
    for r in results:
        whole, variant = sum(r["seconds"].values()), r["conformal_variants"]
        each = variant["seconds"] / variant["variants"]
        minute = (60 / whole, 60 / each, r["libigl_seconds"] / whole)
        rows.append((r["name"], *(1e3 * r["seconds"][stage] for stage in stages), 1e3 * r["libigl_seconds"], *minute))
    columns = ("mesh", *stages, "libigl alone", "meshes a minute", "variants a minute", "libigl / all")
    table("CPU milliseconds of preparing a mesh, and of libigl's part of it", columns, rows)
    write("meshes", options, {"results": results, "sphere_signature": sphere_signature()})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
