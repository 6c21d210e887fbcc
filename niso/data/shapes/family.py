"""Generated classes of closed genus-0 shapes: bodies with limbs, and deformations of given meshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from niso.data.shapes.sources import SUFFIXES, UNREAD, refuse_unread
from niso.errors import InputError
from niso.files.folders import whole_folder
from niso.files.search import files_below
from niso.files.writing import refusing
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.deformation import deform
from niso.geometry.mesh.files import read_mesh, write_off
from niso.geometry.mesh.skeleton import Skeleton, surface
from niso.geometry.mesh.surface import Mesh
from niso.random import step_seed

EMBEDDED_STRENGTH, DEFORMED_STRENGTH = 0.15, 0.4
"""Default strength of deformations: of embedded classes, whose skeletons vary too, and of classes of given meshes.

With them the nearest neighbour by the mean heat kernel signature alone, of 14 shapes a class, is of the same class for
61 % of the 10 embedded classes' shapes and 77 % of those of six real meshes; at 0.15 for 99 % of the latter, which is
too easy (benchmarks/results/shape_family.json)."""

Vector = tuple[float, float, float]


class Limb(NamedTuple):
    """A limb of two segments that starts on the spine.

    Attributes:
        at: place on the spine, 0 … 1.
        direction: of any length.
    """

    at: float
    direction: Vector
    length: float
    radius: float


class Plan(NamedTuple):
    """Plan of a class: a spine along x, from −length/2 to length/2, and its limbs."""

    length: float
    radii: tuple[float, float]
    limbs: tuple[Limb, ...]


def _plan(length: float, radii: tuple[float, float], *limbs: Sequence[Limb]) -> Plan:
    return Plan(length, radii, tuple(chain(*limbs)))


def _ring(count: int, length: float, radius: float, along: float = 0.0) -> tuple[Limb, ...]:
    turns = 2 * np.pi * np.arange(count) / count
    return tuple(Limb(0.5, (along, float(np.cos(t)), float(np.sin(t))), length, radius) for t in turns)


def _pair(at: float, direction: Vector, length: float, radius: float) -> tuple[Limb, Limb]:
    x, y, z = direction
    return Limb(at, (x, y, z), length, radius), Limb(at, (x, -y, z), length, radius)


PLANS: dict[str, Plan] = {
    "biped": _plan(
        0.7,
        (0.28, 0.32),
        _pair(0.0, (-1.0, 0.35, 0.0), 0.74, 0.16),
        _pair(0.9, (-0.2, 1.0, 0.0), 0.66, 0.13),
        [Limb(1.0, (1.0, 0.0, 0.0), 0.45, 0.25)],
    ),
    "quadruped": _plan(
        1.0,
        (0.28, 0.3),
        _pair(0.05, (0.0, 0.35, -1.0), 0.61, 0.15),
        _pair(0.95, (0.0, 0.35, -1.0), 0.61, 0.15),
        [Limb(1.0, (0.8, 0.0, 0.8), 0.53, 0.2), Limb(0.0, (-1.0, 0.0, 0.3), 0.57, 0.11)],
    ),
    "lizard": _plan(
        1.1,
        (0.2, 0.24),
        _pair(0.1, (-0.3, 1.0, 0.0), 0.41, 0.12),
        _pair(0.9, (0.3, 1.0, 0.0), 0.41, 0.12),
        [Limb(1.0, (1.0, 0.0, 0.0), 0.33, 0.21), Limb(0.0, (-1.0, 0.0, 0.0), 0.98, 0.15)],
    ),
    "bird": _plan(
        0.6,
        (0.24, 0.28),
        _pair(0.6, (0.0, 1.0, 0.2), 0.82, 0.17),
        [Limb(1.0, (0.8, 0.0, 0.6), 0.41, 0.18), Limb(0.0, (-1.0, 0.0, 0.0), 0.37, 0.18)],
    ),
    "hand": _plan(
        0.4,
        (0.36, 0.36),
        _pair(1.0, (0.9, 0.18, 0.0), 0.61, 0.12),
        _pair(1.0, (0.8, 0.62, 0.0), 0.57, 0.12),
        [Limb(0.5, (0.1, -1.0, 0.3), 0.53, 0.15)],
    ),
    "starfish": _plan(0.1, (0.32, 0.32), _ring(5, 0.7, 0.18)),
    "hexapod": _plan(0.1, (0.34, 0.34), _ring(6, 0.7, 0.16)),
    "tetrapod": _plan(0.1, (0.32, 0.32), _ring(3, 0.7, 0.19, along=0.35), [Limb(0.5, (-1.0, 0.0, 0.0), 0.7, 0.19)]),
    "tripod": _plan(0.3, (0.34, 0.34), _ring(3, 0.74, 0.18, along=-0.7)),
    "dumbbell": _plan(1.3, (0.4, 0.34), [Limb(0.5, (0.0, 0.0, 1.0), 0.49, 0.16)]),
}
"""The embedded classes."""


def draw(plan: Plan, generator: np.random.Generator) -> Skeleton:
    """A skeleton of a class in random proportions and pose."""
    turned = Rotation.from_rotvec(generator.normal(0, 0.25, 3))
    size = np.exp(generator.normal(0, 0.1, 2))
    middle, end = np.zeros(3), np.array([plan.length / 2 * size[0], 0, 0])
    spine = np.stack((-end, middle, turned.apply(end)))
    widths = np.array(plan.radii) * np.exp(generator.normal(0, 0.1, 2))
    widths = np.array((widths[0], widths.mean(), widths[1]))
    ends, radii = [spine[:2], spine[1:]], [widths[:2], widths[1:]]
    for limb in plan.limbs:
        start = np.array([np.interp(limb.at, (0, 0.5, 1), axis) for axis in spine.T])
        length, radius = np.array((limb.length, limb.radius)) * np.exp(generator.normal(0, (0.15, 0.1)))
        direction = np.array(limb.direction) / np.linalg.norm(limb.direction)
        upper = Rotation.from_rotvec(generator.normal(0, 0.15, 3)).apply(direction)
        lower = Rotation.from_rotvec(generator.normal(0, 0.4, 3)).apply(upper)
        inside = np.interp(limb.at, (0, 0.5, 1), widths)  # the part of the limb within the body
        knee = start + upper * (inside + length / 2 * size[1])
        ends += [np.stack((start, knee)), np.stack((knee, knee + lower * length / 2 * size[1]))]
        radii += [np.array((radius, radius)), np.array((radius, 0.8 * radius))]
    return Skeleton(np.stack(ends), np.stack(radii))


def shape(name: str, number: int, seed: int = 0, vertices: int = 2000, strength: float = EMBEDDED_STRENGTH) -> Mesh:
    """One shape of an embedded class, the same at every call.

    Args:
        name: of the class, see `PLANS`.
        number: of the shape in its class.
        vertices: approximate number.
        strength: of the deformation of the whole, see `geometry.mesh.deformation`.

    Raises:
        InputError: none of twenty surfaces is closed and of genus 0: there are too few vertices.
    """
    generator = np.random.default_rng(step_seed(seed, number, name))
    for _ in range(20):
        try:
            return _deformed(surface(draw(PLANS[name], generator), vertices), generator, strength)
        except InputError as error:
            problem = error
    raise InputError(f"no {name} could be made of {vertices} vertices ({problem}); ask for more")


def deformed(mesh: Mesh, name: str, number: int, seed: int = 0, strength: float = DEFORMED_STRENGTH) -> Mesh:
    """One shape of the class of a given mesh: a deformation of it, the same at every call."""
    return _deformed(mesh, np.random.default_rng(step_seed(seed, number, name)), strength)


def _deformed(mesh: Mesh, generator: np.random.Generator, strength: float) -> Mesh:
    mesh = deform(mesh, generator, strength)
    meshes.check(mesh, "the shape")
    return mesh


def write_family(
    out: Path,
    originals: Path | None = None,
    per_class: int = 14,
    seed: int = 0,
    vertices: int = 2000,
    strength: float | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write shapes as .off files in a folder for each class. Returns their number.

    Args:
        out: a new or empty folder; it holds nothing until it holds all shapes.
        originals: a folder of closed meshes of genus 0, or with folders of them; each is deformed into a class of
            its name. By default the embedded classes.
        vertices: approximate number, for embedded classes.
        strength: of the deformations, see `geometry.mesh.deformation`; by default EMBEDDED_STRENGTH or
            DEFORMED_STRENGTH.
        report: called after each shape with the number of shapes so far, and of all.

    Raises:
        InputError: there are no originals, one is not closed or of genus 0, or the folder holds other files or cannot
            be written to.
    """
    if originals is None:
        strength = EMBEDDED_STRENGTH if strength is None else strength
        classes = {name: partial(shape, name, seed=seed, vertices=vertices, strength=strength) for name in PLANS}
    else:
        strength = DEFORMED_STRENGTH if strength is None else strength
        files = files_below(originals, SUFFIXES)
        refuse_unread(files_below(originals, UNREAD), files)
        if not files:
            raise InputError(f"{originals} holds no meshes: give a folder of {', '.join(SUFFIXES)} files")
        classes = {path.stem: partial(deformed, _read(path), path.stem, seed=seed, strength=strength) for path in files}
        if len(classes) < len(files):
            raise InputError(f"{originals} holds meshes of the same name, which classes are named after: rename them")
    count = len(classes) * per_class
    with refusing(f"write to {out}"), whole_folder(out, "OUT") as folder:
        for place, (name, make) in enumerate(classes.items()):
            for number in range(per_class):
                write_off(folder / name / f"{name}_{number:03d}.off", make(number=number))
                report(place * per_class + number + 1, count)
    return count


def _read(path: Path) -> Mesh:
    mesh = read_mesh(path)
    meshes.check(mesh, str(path))
    return mesh
