"""Copies of a mesh are known in another format, order, place and scale; deformed, it is another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from niso.data.shapes.copies import Invariants, copies_note, invariants
from niso.data.shapes.family import PLANS, deformed, shape
from niso.geometry.mesh.files import read_mesh
from niso.geometry.mesh.surface import Mesh, icosphere

BASE = shape("dumbbell", 0, vertices=200)


def soup_of(mesh: Mesh, path: Path) -> Mesh:
    """The mesh as a text of its own triangles in numbers of seven digits."""
    rows = [" ".join(f"{value:.7g}" for value in corner) for face in mesh.faces for corner in mesh.vertices[face]]
    lines = [f"vertex {row}" for row in rows]
    facets = [
        "\n".join(["facet normal 0 0 0\nouter loop", *lines[at : at + 3], "endloop\nendfacet"])
        for at in range(0, len(lines), 3)
    ]
    path.write_text("\n".join(["solid one", *facets, "endsolid one"]))
    return read_mesh(path)


@pytest.mark.parametrize("kind", ["shifted", "large", "reordered", "inside out", "unmerged, of seven digits"])
def test_copies_are_known(kind: str, tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(len(BASE.vertices))
    copy = {
        "shifted": lambda: Mesh(BASE.vertices + 100, BASE.faces),
        "large": lambda: Mesh(BASE.vertices * 1e6 + 3e8, BASE.faces),
        "reordered": lambda: Mesh(BASE.vertices[order], np.argsort(order)[BASE.faces[::-1]]),
        "inside out": lambda: Mesh(BASE.vertices, BASE.faces[:, ::-1]),
        "unmerged, of seven digits": lambda: soup_of(BASE, tmp_path / "soup.stl"),
    }[kind]()
    note = copies_note({"one": invariants(BASE), "copy": invariants(copy)})
    assert note.startswith("one and copy are of the same mesh: what is trained on may be tested on")


def test_deformed_meshes_and_classes_of_shapes_are_no_copies() -> None:
    """Faint deformations, too: they differ more than copies do by rounding."""
    variants = {
        f"{strength} {n}": deformed(BASE, "a", n, strength=strength) for strength in (1e-3, 0.1) for n in range(4)
    }
    family = {f"{name} {n}": shape(name, n, vertices=200) for name in PLANS for n in range(3)}
    family["dumbbell 0"] = BASE
    assert not copies_note({name: invariants(mesh) for name, mesh in (variants | family).items()})


def test_poses_that_keep_nearly_all_edges_are_no_copies() -> None:
    """A sphere with a dent has the counts of one with a bump, and but for the rim its edges and areas."""
    sphere = icosphere(3)
    height = sphere.vertices[:, 2]
    dent = np.where(height > 0.8, 1.6 - height, height)
    pushed = Mesh(np.column_stack([sphere.vertices[:, :2], dent]), sphere.faces)
    assert not copies_note({"bump": invariants(sphere), "dent": invariants(pushed)})


def test_all_copies_are_counted_and_no_values_that_are_not_finite_match() -> None:
    values, broken = np.array([1.0, 2.0]), np.array([np.nan, 1.0])
    meshes = {name: Invariants((3, 4), values * (1 + 1e-9 * n)) for n, name in enumerate("abc")}
    assert copies_note(meshes).startswith("a and b are of the same mesh (and 1 more pairs)")
    assert not copies_note({"a": Invariants((3, 4), broken), "b": Invariants((3, 4), broken)})
    assert not copies_note({"a": Invariants((3, 4), values), "b": Invariants((3, 5), values)})
    assert not copies_note({})
