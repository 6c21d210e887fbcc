"""From closed meshes to prepared shapes: maps to the sphere, signatures, conformal variants, images (paper §5.2).

Many are prepared in several processes, resuming where they stopped, with a list of refused shapes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from niso.config import Strict, require
from niso.data.prepared import REFUSED, Facts, Item, Outcome, Report, check_folder, prepare_item, prepare_items
from niso.data.shapes.prepared import FORMAT, Maps, Surface, open_maps, prepared_names, write_shape
from niso.data.shapes.sources import Source
from niso.errors import InputError
from niso.geometry.domains.equirectangular import Layout
from niso.geometry.mesh import good_map, space_mobius, spherical_map
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import read_mesh
from niso.geometry.mesh.raster import rasterise, recovered
from niso.geometry.mesh.surface import Mesh
from niso.random import step_seed

_FLAGS = {"radius_error": "--tolerance", "flipped_area": "--flipped-area", "distortion": "--distortion"}
"""Which option sets a limit of maps, see `good_map.Limits`."""


@dataclass(frozen=True)
class Preparation(Strict):
    """Settings of prepared shapes; by default as in Conformal SHREC'11."""

    height: int = 96
    """Rows of the equirectangular grid."""
    width: int = 192
    """Columns of the grid."""
    layout: Layout = "poles"
    """Where the grid's points lie; "poles": the first and last row at the poles, the last column equal to the first."""
    variants: int = 30
    """Conformal variants of each shape, beside the shape itself."""
    eigenpairs: int = 128
    """Eigenpairs of the Laplacian in the signature."""
    times: int = 16
    """Times of the heat kernel signature: its channels."""
    first_time: float = 1e-2
    """The first time, at surface area 1."""
    last_time: float = 1.0
    """The last time; those between are spaced logarithmically."""
    distance: float = 1.2
    """|c| of the variants' Möbius transformations of space: above 1, the nearer the stronger."""
    radius: float = 0.9
    """Of the ball that holds a shape when it is transformed; at most 1."""
    maps: Literal["own", "shared"] = "own"
    """Maps of the variants to the sphere: "own", each by its own flow; or "shared", that of the shape itself, centred
    anew, which is 30 times faster and related by Möbius transformations exactly."""
    tolerance: float = good_map.USUAL.radius_error
    """Largest root mean square of a map's |x| / mean |x| − 1 at the end of the flow; worse maps are refused."""
    flipped_area: float = good_map.USUAL.flipped_area
    """Largest share of a mesh's area that its map may turn upside down, after repair; worse maps are refused."""
    distortion: float = good_map.USUAL.distortion
    """Largest mean quasi-conformal distortion of a map, after repair; 1 is conformal, 2 to 10 common where meshes have
    long thin triangles. Worse maps are refused."""
    seed: int = 0
    """Of the variants, which depend on it and on the shape's name."""

    def __post_init__(self) -> None:
        require(self, "times", "first_time", "tolerance", positive=True)
        require(self, "eigenpairs", least=2)  # the first function is constant
        require(self, "variants", "last_time", "distance")
        require(self, "flipped_area", most=1.0)
        require(self, "radius", positive=True, most=1.0)
        if min(self.height, self.width) < 2:
            raise ValueError(f"height and width must be at least 2, got {self.height} and {self.width}")
        if not self.distortion >= 1:
            raise ValueError(f"distortion must be at least 1, got {self.distortion}")
        if not self.distance > 1:
            raise ValueError(f"distance must be above 1, got {self.distance}")
        if self.last_time < self.first_time:
            raise ValueError(f"last_time must not be below first_time, got {self.last_time} and {self.first_time}")


def prepare_folder(
    sources: Sequence[Source],
    out: Path,
    preparation: Preparation,
    workers: int = 1,
    report: Report = lambda name, problem: None,
) -> Outcome:
    """Prepare shapes into a folder, see `niso.data.shapes.prepared`. Shapes whose files have not changed are kept.

    Args:
        workers: processes; 1 works in this one.

    Raises:
        InputError: the folder holds something else, shapes prepared in another way, or shapes that are not among the
            sources; or see `niso.data.prepared.prepare_items`.
    """
    parameters = {"format": FORMAT, **asdict(preparation)}
    if check_folder(out, "shapes", parameters):
        if others := sorted(set(prepared_names(out)) - {source.name for source in sources}):
            problem = f"{out} holds {others[0]}, which is not among the shapes"
            raise InputError(f"{problem}: choose another folder, or remove it")
    parameters["classes"] = sorted({source.name.partition("/")[0] for source in sources})

    work = partial(_prepare, out=out, preparation=preparation)
    return prepare_items(work, sources, out, parameters, REFUSED, lambda _, done: done.refused, workers, report)


def _prepare(source: Source, out: Path, preparation: Preparation) -> Item:
    def make(digest: str) -> Facts:
        maps, facts, surface = prepare_shape(source, preparation)
        write_shape(out, source.name, maps, facts | {"digest": digest}, surface)
        return facts

    return prepare_item(out, source.name, source.digest, lambda facts: open_maps(out, source.name), make)


def prepare_shape(source: Source, preparation: Preparation) -> tuple[Maps, Facts, Surface]:
    """Prepare one shape: its maps and its variants', facts, and its surface, as `prepared.write_shape` takes them.

    The signature of the shape, at surface area 1 and minus its limit 1, is a function on the vertices, which all
    variants share. Each map is centred by the areas of its own mesh, and repaired where it is folded. A variant without
    a good map is drawn again, as often as there are variants. Given maps are not repaired, and refused where they fold
    too much over or mirror each other.

    Raises:
        InputError: the mesh cannot be read, is not a closed surface of genus 0, is too coarse, or has no good map.
    """
    start = time.perf_counter()
    mesh = _read(source)
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(mesh), preparation.eigenpairs)
    times = np.geomspace(preparation.first_time, preparation.last_time, preparation.times)
    signature = mesh_spectrum.heat_kernel_signature(pairs, times) - 1  # its limit, near which float16 is coarse
    if not np.abs(signature).max() < np.finfo(np.float16).max:
        raise InputError(f"{source.name}: its signature is beyond the range of float16; take a later first_time")
    if source.spheres:
        directions, facts = _given_maps(source, mesh, preparation)
    else:
        directions, facts = _computed_maps(source.name, mesh, preparation)
    height, width, layout = preparation.height, preparation.width, preparation.layout
    share, images, kept = meshes.vertex_areas(mesh), [], []
    for d in directions:
        image = rasterise(d, mesh.faces, signature, height, width, layout)
        images.append(image.astype(np.float16))
        kept.append(recovered(image, d, signature, share, layout))
    facts = {
        "source": source.mesh.name,
        "vertices": len(mesh.vertices),
        "faces": len(mesh.faces),
        **facts,
        "grid_r2": kept,
        "mean": (share @ signature).tolist(),
        "square": (share @ signature**2).tolist(),
        "seconds": round(time.perf_counter() - start, 3),
    }
    return np.stack(images), facts, Surface(mesh.vertices, mesh.faces, directions[0])


def _read(source: Source) -> Mesh:
    """The mesh at area 1, its faces turned outwards."""
    mesh = read_mesh(source.mesh)
    meshes.check(mesh, source.name)
    if meshes.volume(mesh) < 0:
        mesh = Mesh(mesh.vertices, mesh.faces[:, ::-1])
    return meshes.unit_area(mesh)


def _given_maps(
    source: Source, mesh: Mesh, preparation: Preparation
) -> tuple[list[Float[np.ndarray, "vertices 3"]], dict[str, Any]]:
    """Given maps, each projected on the sphere."""
    wanted = preparation.variants + 1
    if len(source.spheres) < wanted:
        raise InputError(
            f"{source.name} has {len(source.spheres) - 1} maps of variants, and {wanted - 1} are asked for"
        )
    maps = []
    for path in source.spheres[:wanted]:
        sphere = read_mesh(path)
        lengths = np.linalg.norm(sphere.vertices, axis=1, keepdims=True)
        corners, expected = (np.sort(one.faces, axis=1) for one in (sphere, mesh))  # their orientation may differ
        if sphere.vertices.shape != mesh.vertices.shape or not np.array_equal(corners, expected):
            raise InputError(f"{path} has other faces or vertices than {source.mesh}: they must be the same")
        if not (np.isfinite(lengths).all() and lengths.min() > 0):
            raise InputError(f"{path} is no map to the sphere: it has vertices at its centre, or not finite")
        maps.append(sphere.vertices / lengths)
    qualities = [spherical_map.quality(mesh, one) for one in maps]
    mirrored = [quality.flipped_area > 0.5 for quality in qualities]  # all of them may be
    for path, quality, mirror in zip(source.spheres, qualities, mirrored, strict=False):
        folded = 1 - quality.flipped_area if mirror else quality.flipped_area
        if mirror != mirrored[0]:
            raise InputError(f"{path} is a mirror image of {source.spheres[0]}: turn its map over")
        if folded > preparation.flipped_area:
            limit = f"more than {preparation.flipped_area:g} of it"
            remedy = "repair it, or allow more by --flipped-area"
            raise InputError(f"{path} folds {folded:.2g} of the surface over, {limit}: {remedy}")
    flipped = [quality.flipped for quality in qualities[1:]]
    return maps, {"maps": "given", **qualities[0]._asdict(), "flipped_variants": flipped}


def _computed_maps(
    name: str, mesh: Mesh, preparation: Preparation
) -> tuple[list[Float[np.ndarray, "vertices 3"]], dict[str, Any]]:
    limits = good_map.Limits(preparation.tolerance, preparation.flipped_area, preparation.distortion)
    try:
        base = good_map.find(mesh, limits)
    except InputError as problem:
        flag = _FLAGS.get(getattr(problem, "limit", ""))
        what = "shorten what is long and thin"
        remedy = f"remesh it, {what}, or allow more by {flag}" if flag else f"remesh it, or {what}"
        raise InputError(f"{name} has no good map to the sphere: {problem}; {remedy}") from problem
    found, redrawn, last = [base], 0, ""
    generator = np.random.default_rng(step_seed(preparation.seed, 0, name))
    reserve = 2 * preparation.variants  # with as many again as are asked for
    for transformation in space_mobius.sample(reserve, generator, preparation.distance):
        if len(found) > preparation.variants:
            break
        variant = space_mobius.transform(mesh, transformation, preparation.radius)
        try:
            if preparation.maps == "shared":
                one = good_map.settle(variant, base.directions, limits)
                found.append(one._replace(directions=one.directions @ transformation.rotation.T))
            else:
                found.append(good_map.find(variant, limits))
        except InputError as problem:
            redrawn, last = redrawn + 1, str(problem)
    if len(found) <= preparation.variants:
        raise InputError(
            f"{name} itself has a good map to the sphere, but {redrawn} of its {redrawn + len(found) - 1} conformal "
            f"variants have none (of the last one, {last}); take weaker variants by a larger --distance, or remesh it"
        )
    others = found[1:]
    return [one.directions for one in found], {
        "maps": preparation.maps,
        **base.quality._asdict(),
        "repair": base.repair,
        "repaired_variants": sum(bool(one.repair) for one in others),
        "flipped_variants": [one.quality.flipped for one in others],
        "radius_errors": [one.radius_error for one in found if one.radius_error is not None],
        "redrawn": redrawn,
    }
