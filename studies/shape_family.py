"""The embedded shapes: how hard they are to tell apart without learning from pairs, and what they cost.

Run: python -m studies.shape_family
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import tyro

from benchmarks.common import Named, table, write

import numpy as np  # isort: skip  # after benchmarks.common, which sets how threads wait
import torch
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from niso.data.shapes.family import DEFORMED_STRENGTH, EMBEDDED_STRENGTH, PLANS, deformed, shape
from niso.data.shapes.preparation import Preparation, prepare_shape
from niso.data.shapes.sources import Source
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import read_mesh, write_off
from niso.geometry.mesh.surface import Mesh
from studies.quantiles import quantiles

RANK, PER_CLASS, VERTICES = 48, 14, 642
PREPARATION = Preparation(height=24, width=48, variants=8, eigenpairs=RANK, maps="shared", tolerance=0.05)


def features(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the mean signature, and the signature's quantiles over the surface."""
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(mesh), RANK)
    signature = mesh_spectrum.heat_kernel_signature(pairs, np.geomspace(1e-2, 1.0, 16))
    share = meshes.vertex_areas(mesh)
    distribution = quantiles(torch.from_numpy(np.log(signature)), torch.from_numpy(share)[:, None])
    return np.log(share @ signature), distribution.numpy().ravel()


def neighbours(points: np.ndarray, labels: np.ndarray) -> float:
    """Share of points whose nearest neighbour has the same label."""
    points = (points - points.mean(0)) / points.std(0)
    distances = np.square(points[:, None] - points).sum(-1)
    np.fill_diagonal(distances, np.inf)
    return float((labels[distances.argmin(1)] == labels).mean())


def difficulty(classes: dict[str, list[Mesh]]) -> dict[str, float]:
    """Accuracy without learning and of a support vector machine, 10 shapes of 14 to train on, twenty splits."""
    labels = np.repeat(np.arange(len(classes)), [len(members) for members in classes.values()])
    means, distributions = (
        np.array(x) for x in zip(*(features(mesh) for members in classes.values() for mesh in members), strict=True)
    )
    splits = StratifiedShuffleSplit(20, test_size=4 / 14, random_state=0).split(distributions, labels)
    machine = make_pipeline(StandardScaler(), SVC(C=10))
    scores = [machine.fit(distributions[a], labels[a]).score(distributions[b], labels[b]) for a, b in splits]
    return {
        "classes": len(classes),
        "chance": 1 / len(classes),
        "nearest_neighbour_of_mean": neighbours(means, labels),
        "machine_on_quantiles": float(np.mean(scores)),
        "machine_on_quantiles_std": float(np.std(scores)),
    }


def preparation(meshes_of: dict[str, list[Mesh]]) -> dict[str, float]:
    """Seconds of CPU to prepare one shape of each class in the small way, and how good the maps are."""
    seconds, errors, flipped = [], [], 0
    with TemporaryDirectory() as folder:
        for name, members in meshes_of.items():
            path = Path(folder) / f"{name}.off"
            write_off(path, members[0])
            start = process_time()
            _, facts, _ = prepare_shape(Source(f"{name}/{name}", path), PREPARATION)
            seconds.append(process_time() - start)
            errors.append(facts["radius_errors"][0])
            flipped += facts["flipped"]
    return {"prepare_seconds": float(np.mean(seconds)), "radius_error_worst": max(errors), "flipped": flipped}


def main(
    originals: Path | None = None,
    strengths: tuple[float, ...] = (DEFORMED_STRENGTH, EMBEDDED_STRENGTH),
    options: Named = Named(),  # noqa: B008  # frozen
) -> None:
    """Measure the embedded classes and, where given, deformed classes of other meshes.

    Args:
        originals: a folder of closed meshes of genus 0.
        strengths: of their deformations.
        options: of every benchmark.
    """
    torch.set_num_threads(1)
    start = process_time()
    embedded = {name: [shape(name, number, vertices=VERTICES) for number in range(PER_CLASS)] for name in PLANS}
    seconds = (process_time() - start) / (PER_CLASS * len(PLANS))
    results: dict[str, dict[str, Any]] = {
        "embedded": {**difficulty(embedded), "make_seconds": seconds, **preparation(embedded)}
    }
    if originals:
        given = {path.stem: read_mesh(path) for path in sorted(originals.glob("*.off"))}
        for strength in strengths:
            classes = {
                name: [deformed(mesh, name, number, strength=strength) for number in range(PER_CLASS)]
                for name, mesh in given.items()
            }
            results[f"deformed {strength}"] = difficulty(classes)
    columns = ("shapes", "classes", "nearest neighbour of the mean signature", "support vector machine on quantiles")
    table(
        "How hard the shapes are",
        columns,
        [
            (name, r["classes"], r["nearest_neighbour_of_mean"], r["machine_on_quantiles"])
            for name, r in results.items()
        ],
    )
    write("shape_family", options, {"results": results})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
