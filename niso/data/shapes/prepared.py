"""Prepared shapes: a folder of heat kernel signatures on the sphere, for each shape and its conformal variants.

    FOLDER/parameters.json       `format`, `classes`, and everything that the preparation depended on
    FOLDER/<class>/<shape>.npy   float16 (variants, channels, height, width), see `PreparedShapes.maps`
    FOLDER/<class>/<shape>.npz   the mesh and its map to the sphere, see `Surface`
    FOLDER/<class>/<shape>.json  facts of one shape, written after its maps: without them it is not prepared. Of its
                                 map: see `geometry.mesh.spherical_map.Quality`; `repair`, what had to be done to it;
                                 `redrawn`, the variants that had no good map; `grid_r2`, see `grid_r2` below
    FOLDER/refused.json          {name: reason} of shapes that were refused, written when all others were prepared

`niso.data.shapes.preparation` makes such a folder.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Int
from torch import Tensor

from niso.data.prepared import PARAMETERS, REFUSED, open_folder, read_json
from niso.data.shapes.copies import Invariants
from niso.errors import InputError
from niso.files.digests import digest
from niso.files.json import nan_for_null, write_json
from niso.files.writing import write_atomically
from niso.geometry.domains.equirectangular import Layout
from niso.messages import say

FORMAT = 1
OF_MAPS = ("height", "width", "layout", "eigenpairs", "times", "first_time", "last_time")
"""Parameters that say what a number of a map means; others say which variants there are, and which maps are good."""

Maps = Float16[np.ndarray, "variants channels height width"]


class Surface(NamedTuple):
    """A shape's mesh and its map to the sphere.

    Attributes:
        vertices: (vertices, 3) at surface area 1.
        faces: (faces, 3) corners, counter-clockwise seen from outside.
        directions: (vertices, 3) where the conformal map, centred by the shape's areas, takes each vertex on the unit
            sphere; in float64.
    """

    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]
    directions: Float[np.ndarray, "vertices 3"]


@dataclass(frozen=True)
class PreparedShapes:
    """Shapes of a prepared folder; maps are read on demand.

    Attributes:
        names: "class/shape", sorted.
        classes: their names, sorted.
        labels: (shapes,) number of each shape's class.
        variants: number of maps of each shape, the base shape's included.
        layout: places of the grid's points, see `niso.geometry.domains.equirectangular`.
    """

    folder: Path
    names: list[str]
    classes: list[str]
    labels: Int[Tensor, " shapes"]
    height: int
    width: int
    channels: int
    variants: int
    layout: Layout = "poles"

    def maps(self, shape: int) -> Maps:
        """Heat kernel signatures of one shape on the equirectangular grid; the first is the base shape's.

        At surface area 1 and minus 1, their limit for late times; not scaled. A memory map: index it to read.
        """
        return open_maps(self.folder, self.names[shape])

    def surface(self, shape: int) -> Surface:
        """Mesh of one shape and its map to the sphere.

        Raises:
            InputError: the file is missing or damaged.
        """
        path = self.folder / f"{self.names[shape]}.npz"
        with _reading(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as parts:
            return Surface(*(parts[name] for name in Surface._fields))

    def without(self, classes: Collection[str]) -> PreparedShapes:
        """The shapes of the other classes alone."""
        kept = [shape for shape, label in enumerate(self.labels.tolist()) if self.classes[label] not in classes]
        left = [name for name in self.classes if name not in classes]
        labels = torch.tensor([left.index(self.classes[self.labels[shape]]) for shape in kept], dtype=torch.long)
        return replace(self, names=[self.names[shape] for shape in kept], classes=left, labels=labels)

    def grid_r2(self, shape: int) -> list[float | None]:
        """What the grid keeps of one shape's signature, for each of its maps, see `geometry.mesh.raster.recovered`."""
        return list(read_json(self.folder / f"{self.names[shape]}.json")["grid_r2"])

    def invariants(self) -> dict[str, Invariants]:
        """What copies of each shape's mesh have in common, by its name: isometric shapes, as its signatures tell none
        apart."""
        found = dict[str, Invariants]()
        for name in self.names:
            facts = read_json(self.folder / f"{name}.json")
            counts = tuple(int(facts.get(part, 0)) for part in ("vertices", "faces"))
            found[name] = Invariants(counts, _moments(facts)[0].numpy())
        return found

    def content(self) -> str:
        """A word that changes where the files that a shape was prepared from do, or how it was prepared."""
        parameters = read_json(self.folder / PARAMETERS)
        parts = [{key: value for key, value in parameters.items() if key != "classes"}]
        for name in self.names:
            facts = read_json(self.folder / f"{name}.json")
            parts.append({"name": name, "source": facts.get("digest", facts["mean"])})
        return digest(*(json.dumps(part, sort_keys=True).encode() for part in parts))

    def moments(self, shape: int) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        """Mean and mean square of a shape's signature minus 1 over its surface, in float64."""
        return _moments(read_json(self.folder / f"{self.names[shape]}.json"))


def _moments(facts: Mapping[str, Any]) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
    """Those that a shape's facts hold, see `PreparedShapes.moments`."""
    mean, square = ([*map(nan_for_null, facts.get(name, []))] for name in ("mean", "square"))
    return torch.tensor(mean, dtype=torch.float64), torch.tensor(square, dtype=torch.float64)


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds prepared shapes of this format: other files may be called parameters.json, too."""
    try:
        parameters = read_json(folder / PARAMETERS)
    except InputError:
        return False
    return parameters.get("format") == FORMAT and parameters.get("layout") in get_args(Layout)


def shapes_within(path: Path) -> tuple[Path, list[str]] | None:
    """The prepared folder that a path is or lies in, and the names of its shapes that the path holds; None without. A
    line says where the preparation of a folder may not be finished.
    """
    place = path.resolve()
    for folder in (place, *place.parents[:2]):
        if is_prepared(folder):
            names = prepared_names(folder)
            within = [name for name in names if (folder / f"{name}.npy").is_relative_to(place)]
            if within:
                if place.is_dir() and not (folder / REFUSED).is_file():
                    say(f"! {folder} has no {REFUSED}, with which a preparation ends: are all of its shapes there?")
                return folder, within
    return None


def preparation_of(folder: Path) -> dict[str, Any]:
    """What a prepared folder says of how its shapes, whichever they are, were prepared.

    Raises:
        InputError: it says nothing.
    """
    parameters = read_json(folder / PARAMETERS)
    return {key: value for key, value in parameters.items() if key not in ("format", "classes")}


def check_preparation(source: str, given: Mapping[str, Any], trained: Mapping[str, Any]) -> None:
    """Check that maps mean what those meant that a model was trained on, as far as both say how they were prepared.

    Raises:
        InputError: they do not.
    """
    other = [name for name in OF_MAPS if name in given and name in trained and given[name] != trained[name]]
    if other:
        differing = ", ".join(f"{name} {given[name]}, not {trained[name]}" for name in other)
        flags = " ".join(f"--{name.replace('_', '-')} {trained[name]}" for name in other)
        raise InputError(
            f"{source} was prepared in another way than the shapes that the model was trained on ({differing}): "
            f"prepare its meshes again as they were, but into another folder and with {flags}"
        )


def open_shapes(folder: Path) -> PreparedShapes:
    """Open a prepared folder.

    Raises:
        InputError: see `niso.data.prepared.open_folder`; the folder holds no shape; or a shape's files are truncated or
            differ in size from the others.
    """
    layout: Any = open_folder(folder, "shapes", "`niso data prepare shapes`", FORMAT, REFUSED).get("layout")
    if layout not in get_args(Layout):
        raise InputError(f"{folder / PARAMETERS} has the unknown layout {layout!r}: prepare the shapes again")
    if not (names := prepared_names(folder)):
        raise InputError(f"{folder} holds no shape: all were refused, see {REFUSED}")
    classes = sorted({name.partition("/")[0] for name in names})
    labels = torch.tensor([classes.index(name.partition("/")[0]) for name in names])
    maps = [open_maps(folder, name) for name in names]
    for name, other in zip(names, maps, strict=True):
        if other.shape != maps[0].shape:
            raise InputError(f"{folder / name}.npy has maps of {other.shape}, and others of {maps[0].shape}: remove it")
    variants, channels, height, width = maps[0].shape
    shapes = PreparedShapes(folder, names, classes, labels, height, width, channels, variants, layout)
    for shape, name in enumerate(names):
        if any(len(moment) != channels for moment in shapes.moments(shape)):
            raise InputError(f"{folder / name}.json has not {channels} moments: remove it and prepare the shape again")
    return shapes


def prepared_names(folder: Path) -> list[str]:
    """Names of all shapes prepared so far, sorted."""
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("[!.]*/[!.]*.json"))


def write_shape(folder: Path, name: str, maps: Maps, facts: dict[str, Any], surface: Surface) -> None:
    """Write one prepared shape: its maps, its mesh, then its facts, each in one step.

    Args:
        name: "class/shape".
        facts: at least `mean` and `square`, one number for each channel, and `grid_r2`, one for each map.

    Raises:
        OSError: as the file system does, e.g. on a full disk; nothing half-written is left.
    """
    content = io.BytesIO()
    np.save(content, maps, allow_pickle=False)
    write_atomically(folder / f"{name}.npy", content.getvalue())
    content = io.BytesIO()
    kinds = (np.float32, np.int32, np.float64)  # on thin limbs, single precision would fold the map
    parts = {key: part.astype(kind) for (key, part), kind in zip(surface._asdict().items(), kinds, strict=True)}
    np.savez_compressed(content, **parts)
    write_atomically(folder / f"{name}.npz", content.getvalue())
    write_json(folder / f"{name}.json", facts)


def statistics(
    shapes: PreparedShapes, members: Sequence[int] | Int[Tensor, " members"]
) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
    """Mean and standard deviation of the signature over the surfaces of some shapes, e.g. those to train on.

    In float64; every shape counts alike.
    """
    return of_moments(*map(torch.stack, zip(*map(shapes.moments, map(int, members)), strict=True)))


def of_moments(
    means: Float[Tensor, "shapes channels"], squares: Float[Tensor, "shapes channels"]
) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
    """Mean and standard deviation over shapes that count alike, from the mean and the mean square of each."""
    mean = means.mean(0)
    return mean, (squares.mean(0) - mean.square()).clamp_min(0).sqrt()


def resolved_by_float16(
    mean: Float[Tensor, " channels"], deviation: Float[Tensor, " channels"]
) -> Bool[Tensor, " channels"]:
    """Whether float16, in which maps are stored, tells the values of each channel apart.

    Their deviation is then more than three times the distance of neighbouring numbers. At late times the signatures of
    compact shapes vary by less: by exp(−λ₁ t), where λ₁ is as large as 8π (Hersch, 1970).
    """
    least = torch.finfo(torch.float16)
    size = (mean.square() + deviation.square()).sqrt().clamp_min(least.tiny)
    return ~(deviation <= 3 * least.eps * 2 ** size.log2().floor())  # NaN is refused elsewhere


def flat_channels(resolved: Bool[Tensor, " channels"]) -> str:
    """Which channels are not resolved, in words; empty where all are."""
    numbers = (1 + (~resolved).nonzero()[:, 0]).tolist()
    which = f"channel{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of {len(resolved)}"
    return f"{which}: signatures have nearly one value, less apart than float16 holds" if numbers else ""


def open_maps(folder: Path, name: str) -> Maps:
    """Maps of one shape, as a memory map.

    Raises:
        InputError: they are missing, truncated, or not maps.
    """
    path = folder / f"{name}.npy"
    with _reading(path):
        maps = np.load(path, mmap_mode="r", allow_pickle=False)
    if maps.ndim != 4 or maps.dtype != np.float16:
        raise InputError(f"{path} holds no maps, but {maps.dtype} of {maps.shape}: remove it and prepare it again")
    return maps


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what NumPy raises for a file that is missing or damaged into an InputError that names the remedy."""
    try:
        yield
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else f"is truncated or damaged ({error})"
        raise InputError(f"{path} {problem}: remove its .json and prepare the shape again") from error
