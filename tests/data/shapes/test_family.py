"""Shapes made by the program: closed, of genus 0, the same for a seed, classes neither equal nor trivial."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from niso.data.shapes import embedded as embedded_module
from niso.data.shapes import family as family
from niso.data.shapes.embedded import embedded_shapes
from niso.data.shapes.family import PLANS, deformed, shape, write_family
from niso.data.shapes.preparation import Preparation
from niso.data.shapes.prepared import PreparedShapes
from niso.data.shapes.sources import find_sources
from niso.errors import InputError
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import read_mesh, write_off


@pytest.mark.parametrize("name", PLANS)
def test_shapes_are_closed_alike_and_different(name: str) -> None:
    one, again, other = (shape(name, number, vertices=300) for number in (0, 0, 1))
    meshes.check(one)
    meshes.check(other)
    assert meshes.face_areas(one).sum() == pytest.approx(1)
    assert meshes.volume(one) > 0
    np.testing.assert_array_equal(one.vertices, again.vertices)
    assert one.vertices.shape != other.vertices.shape or np.abs(one.vertices - other.vertices).max() > 0.01


def test_there_are_enough_classes() -> None:
    assert len(PLANS) >= 8


@pytest.mark.slow
def test_classes_are_neither_trivial_nor_alike() -> None:
    """Nearest neighbours by the mean signature alone, leaving one out; chance is 1/10."""
    means, labels = [], []
    for label, name in enumerate(PLANS):
        for number in range(5):
            mesh = shape(name, number, vertices=200)
            pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(mesh), 20)
            signature = mesh_spectrum.heat_kernel_signature(pairs, np.geomspace(1e-2, 1.0, 16))
            means.append(np.log(meshes.vertex_areas(mesh) @ signature))
            labels.append(label)
    found = np.array(means)
    found = (found - found.mean(0)) / found.std(0)
    distances = np.square(found[:, None] - found).sum(-1)
    np.fill_diagonal(distances, np.inf)
    accuracy = float((np.array(labels)[distances.argmin(1)] == labels).mean())
    assert 0.3 < accuracy < 0.9


def test_surfaces_that_are_not_of_genus_0_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make, calls = family.surface, []

    def sometimes(*given):
        calls.append(given)
        if len(calls) < attempts:
            raise InputError("it has genus 1")
        return make(*given)

    monkeypatch.setattr(family, "surface", sometimes)
    attempts = 3
    meshes.check(shape("dumbbell", 0, vertices=200))
    assert len(calls) == 3
    attempts = 100
    with pytest.raises(InputError, match=r"no dumbbell could be made of 200 vertices \(it has genus 1\); ask for more"):
        shape("dumbbell", 0, vertices=200)


def test_a_given_mesh_becomes_a_class(tmp_path: Path) -> None:
    ball = meshes.icosphere(2)
    write_off(tmp_path / "in/deep/ball.off", ball)
    write_off(tmp_path / "in/egg.off", ball._replace(vertices=ball.vertices * np.array((1, 1, 1.5))))
    assert write_family(tmp_path / "out", tmp_path / "in", per_class=3, strength=0.3) == 6
    sources = find_sources(tmp_path / "out")
    assert [source.name for source in sources] == [f"{n}/{n}_{i:03d}" for n in ("ball", "egg") for i in range(3)]
    written = [read_mesh(source.mesh) for source in sources]
    for mesh in written:
        meshes.check(mesh)
        np.testing.assert_array_equal(mesh.faces, ball.faces)
    np.testing.assert_allclose(written[1].vertices, deformed(ball, "ball", 1, strength=0.3).vertices, atol=1e-8)
    assert np.abs(written[0].vertices - written[1].vertices).max() > 0.01


def test_wrong_originals_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no meshes"):
        write_family(tmp_path / "out", tmp_path)
    ball = meshes.icosphere(1)
    write_off(tmp_path / "in/a/ball.off", ball)
    write_off(tmp_path / "in/b/ball.off", ball)
    for name in ("cup.fbx", "lid.glb"):
        (tmp_path / "in" / name).touch()
    with pytest.raises(InputError, match=r"cup.fbx is of a format that is not read, and 1 more are: convert it"):
        write_family(tmp_path / "out", tmp_path / "in")
    for name in ("cup.fbx", "lid.glb"):
        (tmp_path / "in" / name).unlink()
    (tmp_path / "in/a/ball.glb").touch()  # beside one that is read
    with pytest.raises(InputError, match="of the same name"):
        write_family(tmp_path / "out", tmp_path / "in")
    write_off(tmp_path / "in/b/ball.off", ball._replace(faces=ball.faces[1:]))
    with pytest.raises(InputError, match=r"b.ball.off is open"):
        write_family(tmp_path / "out", tmp_path / "in/b")
    (tmp_path / "file").touch()
    for taken in ("file", "in"):
        with pytest.raises(InputError, match=f"{taken} exists and is not an empty folder: choose another OUT"):
            write_family(tmp_path / taken, tmp_path / "in/a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "in"]


@pytest.mark.parametrize(
    ("stopped_by", "error", "words"),
    [(KeyboardInterrupt(), KeyboardInterrupt, None), (OSError(errno.EFBIG, "File too large"), InputError, "ulimit -f")],
)
def test_a_family_that_is_cut_off_is_not_there(
    tmp_path: Path, stopped_by: BaseException, error: type[BaseException], words: str | None
) -> None:
    write_off(tmp_path / "in/ball.off", meshes.icosphere(1))

    def stop(done: int, total: int) -> None:
        if done == 2:
            assert not (tmp_path / "out").exists()
            raise stopped_by

    with pytest.raises(error, match=words):
        write_family(tmp_path / "out", tmp_path / "in", per_class=3, report=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.slow
def test_embedded_shapes_are_prepared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_module, "PLANS", some := {name: PLANS[name] for name in ("dumbbell", "tetrapod")})
    monkeypatch.setattr("niso.data.shapes.family.PLANS", some)
    monkeypatch.setattr(embedded_module, "cached", lambda kind: tmp_path)
    preparation = Preparation(height=8, width=16, variants=2, eigenpairs=20, maps="shared", tolerance=0.2)
    told: list[tuple[str, str | None]] = []

    def ask(vertices: int = 200) -> PreparedShapes:
        return embedded_shapes(preparation, 2, vertices, 1, lambda *said: told.append(said), lambda count: None)

    shapes = ask()
    assert shapes.classes == ["dumbbell", "tetrapod"] and shapes.maps(0).shape == (3, 16, 8, 16)
    assert [problem for _, problem in told] == [None] * 4
    assert shapes.labels.tolist() == [0, 0, 1, 1]
    assert ask().folder == shapes.folder and len(told) == 4
    assert ask(vertices=301).folder != shapes.folder and len(told) == 8
    (shapes.folder / "refused.json").unlink()  # killed in the middle
    (shapes.folder / "tetrapod/tetrapod_001.json").unlink()
    assert ask().names == shapes.names
    (shapes.folder / "dumbbell/dumbbell_000.json").unlink()  # as one is told to do where its maps are damaged
    assert ask().names == shapes.names
