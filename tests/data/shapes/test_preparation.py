"""From meshes to maps: what is known in closed form, what must not change them, and what has to be refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from niso.data.shapes.preparation import Preparation, prepare_shape
from niso.data.shapes.sources import Source
from niso.errors import InputError
from niso.geometry import mobius
from niso.geometry.domains import equirectangular
from niso.geometry.mesh import good_map, space_mobius, spherical_map
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.files import read_mesh, write_off
from niso.geometry.mesh.surface import Mesh
from niso.geometry.mobius import MobiusTransformations

TINY = Preparation(height=16, width=32, variants=3, eigenpairs=30, times=4, first_time=0.02, last_time=0.1)


def bumpy(subdivisions: int = 2) -> Mesh:
    """A sphere with three bumps of different sizes."""
    ball = meshes.icosphere(subdivisions)
    centres = np.eye(3)
    sizes = np.exp(-6 * np.square(ball.vertices[:, None] - centres).sum(-1))
    return Mesh(ball.vertices * (1 + sizes @ np.array((0.3, 0.5, 0.7)))[:, None], ball.faces)


def source(folder: Path, mesh: Mesh, name: str = "bump/one") -> Source:
    path = folder / f"{name}.off"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_off(path, mesh)
    return Source(name, path)


@pytest.mark.slow
def test_the_sphere_has_a_constant_signature(tmp_path: Path) -> None:
    maps, facts, _ = prepare_shape(source(tmp_path, meshes.icosphere(4)), replace(TINY, eigenpairs=100, variants=1))
    assert maps.shape == (2, 4, 16, 32) and maps.dtype == np.float16
    degree, times = np.arange(60), np.geomspace(0.02, 0.1, 4)
    exact = ((2 * degree + 1) * np.exp(-4 * np.pi * degree * (degree + 1) * times[:, None])).sum(1)  # at area 1
    found = maps.astype(float) + 1
    np.testing.assert_allclose(found, np.broadcast_to(exact[:, None, None], maps.shape), rtol=0.01)
    np.testing.assert_allclose(facts["mean"], exact - 1, rtol=0.005)
    assert facts["flipped"] == 0 and facts["distortion_99"] < 1.05 and facts["redrawn"] == 0


@pytest.mark.slow
def test_moments_and_maps_do_not_depend_on_place_and_size(tmp_path: Path) -> None:
    mesh = bumpy()
    turned = Rotation.from_rotvec((1.0, 2.0, -0.5)).apply(mesh.vertices) * 3 + [5, -7, 1]
    one, facts, _ = prepare_shape(source(tmp_path, mesh), TINY)
    other, moved, _ = prepare_shape(source(tmp_path / "moved", Mesh(turned, mesh.faces)), TINY)
    for name in ("mean", "square"):
        np.testing.assert_allclose(moved[name], facts[name], rtol=1e-6)  # the file has nine digits
    assert np.abs(one.astype(float) - other.astype(float)).max() > 0.1  # the sphere is turned along with the shape
    again, _, _ = prepare_shape(source(tmp_path, mesh), TINY)
    np.testing.assert_array_equal(one, again)


def test_the_mesh_and_its_map_are_kept(tmp_path: Path) -> None:
    """The first image is the signature by way of the map: their values agree where vertices lie."""
    maps, _, surface = prepare_shape(source(tmp_path, bumpy()), replace(TINY, height=64, width=128))
    assert meshes.face_areas(Mesh(surface.vertices, surface.faces)).sum() == pytest.approx(1)
    np.testing.assert_allclose(np.linalg.norm(surface.directions, axis=1), 1)
    image = torch.from_numpy(maps[0].astype(float))[None]
    places = torch.from_numpy(surface.directions)[None, None]
    seen = equirectangular.sample(image, places, "poles")[0, :, 0].numpy()
    mesh = meshes.unit_area(bumpy())
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(mesh), TINY.eigenpairs)
    times = np.geomspace(TINY.first_time, TINY.last_time, TINY.times)
    signature = mesh_spectrum.heat_kernel_signature(pairs, times).T - 1
    assert np.abs(seen - signature).max() < 0.05 * np.abs(signature).max()


def test_an_inside_out_mesh_is_turned(tmp_path: Path) -> None:
    mesh = bumpy()
    one, facts, _ = prepare_shape(source(tmp_path, mesh), TINY)
    other, turned, surface = prepare_shape(source(tmp_path / "in", Mesh(mesh.vertices, mesh.faces[:, ::-1])), TINY)
    assert meshes.volume(Mesh(surface.vertices, surface.faces)) > 0
    np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=2e-3)
    assert turned["flipped"] == facts["flipped"] == 0


def test_means_over_the_surface_are_by_area(tmp_path: Path) -> None:
    """The mean of the signature is the heat trace, whatever the sizes of the faces."""
    mesh = Mesh(bumpy().vertices * [2.0, 1.0, 1.0], bumpy().faces)
    given = source(tmp_path, mesh)
    _, facts, _ = prepare_shape(given, replace(TINY, variants=0))
    values, _ = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(meshes.unit_area(read_mesh(given.mesh))), 30)
    trace = np.exp(-values * np.geomspace(0.02, 0.1, 4)[:, None]).sum(1)
    np.testing.assert_allclose(facts["mean"], trace - 1, rtol=1e-6)


def variants_of(name: str, mesh: Mesh, preparation: Preparation) -> list[Mesh]:
    """The variants' meshes, drawn as the preparation draws them."""
    from niso.random import step_seed

    generator = np.random.default_rng(step_seed(preparation.seed, 0, name))
    return [space_mobius.transform(mesh, t) for t in space_mobius.sample(6, generator)[: preparation.variants]]


@pytest.mark.slow
def test_variants_are_mobius_transformations_of_the_shape(tmp_path: Path) -> None:
    """Base map warped by the Möbius transformation that a fit finds between the spheres is the variant's map."""
    preparation = replace(TINY, height=32, width=64)
    given = source(tmp_path, bumpy(3))
    mesh = meshes.unit_area(read_mesh(given.mesh))
    maps, _, _ = prepare_shape(given, preparation)
    areas = meshes.vertex_areas(mesh)
    own = spherical_map.centre(spherical_map.conformal_flow(mesh).directions, areas)[0]
    for number, variant in enumerate(variants_of(given.name, mesh, preparation), start=1):
        image, _ = spherical_map.centre(spherical_map.conformal_flow(variant)[0], meshes.vertex_areas(variant))
        back, transformation = spherical_map.centre(image, areas)  # base and this differ by a rotation alone
        u, _, vh = np.linalg.svd((own * areas[:, None]).T @ back)
        turn = Rotation.from_matrix(vh.T @ np.diag([1, 1, np.linalg.det(u @ vh)]) @ u.T)
        residual = np.linalg.norm(turn.apply(own) - back, axis=1)
        assert np.average(residual, weights=areas) < 0.01
        quaternion = torch.from_numpy(turn.as_quat(scalar_first=True))
        matrix = MobiusTransformations().inverse(transformation[None]) @ mobius.rotation(quaternion)
        moved = mobius.act(matrix[0], torch.from_numpy(own)).numpy()
        assert np.average(np.linalg.norm(moved - image, axis=1), weights=areas) < 0.01
        warped = MobiusTransformations(layout="poles").act(torch.from_numpy(maps[:1].astype(float)), matrix)[0].numpy()
        differences = warped - maps[number]
        spread = maps[0].astype(float).std((-2, -1))
        assert (np.sqrt(np.square(differences).mean((-2, -1))) < 0.1 * spread).all()
        assert (np.sqrt(np.square(maps[0].astype(float) - maps[number]).mean((-2, -1))) > 0.3 * spread).all()


@pytest.mark.slow
def test_shared_maps_are_the_own_ones_up_to_rotations(tmp_path: Path) -> None:
    given = source(tmp_path, bumpy(3))
    preparation = replace(TINY, height=32, width=64, variants=6)
    own, _, _ = prepare_shape(given, preparation)
    shared, _, _ = prepare_shape(given, replace(preparation, maps="shared"))
    np.testing.assert_array_equal(own[0], shared[0])
    weights = np.sin(np.pi * np.arange(32) / 31)[:, None] * np.append(np.full(63, 1.0), 0)
    share = weights / weights.sum()
    means = [(maps.astype(float) * share).sum((-2, -1)) for maps in (own, shared)]
    assert np.ptp(means[0][:, 0]) > 0.05 * means[0][0, 0]  # the variants differ by more than a rotation
    np.testing.assert_allclose(*means, rtol=0.02)


@pytest.mark.slow
def test_variants_depend_on_the_seed_and_the_name(tmp_path: Path) -> None:
    maps = [
        prepare_shape(source(tmp_path, bumpy(), name), replace(TINY, seed=seed))[0]
        for name, seed in (("bump/one", 0), ("bump/one", 1), ("bump/two", 0))
    ]
    for other in maps[1:]:
        np.testing.assert_array_equal(maps[0][0], other[0])
        assert (maps[0][1:] != other[1:]).any()


def released(folder: Path) -> Source:
    """A shape with maps that were computed before."""
    given = source(folder, bumpy())
    mesh = read_mesh(given.mesh)
    directions = spherical_map.conformal_flow(mesh).directions
    spheres = []
    for number in range(4):
        turn = Rotation.from_rotvec((0.0, 0.0, number * 2 * np.pi / 31))
        spheres.append(source(folder, Mesh(turn.apply(directions) * 2.5, mesh.faces), f"sphere/{number}").mesh)
    return given._replace(spheres=tuple(spheres))


def test_given_maps_are_used_as_they_are(tmp_path: Path) -> None:
    maps, facts, _ = prepare_shape(released(tmp_path), TINY)
    for number in range(1, 4):  # turned about the poles by whole columns
        np.testing.assert_allclose(
            np.roll(maps[0, ..., :-1], number, -1).astype(float), maps[number, ..., :-1].astype(float), rtol=5e-3
        )
    assert facts["maps"] == "given" and facts["flipped"] == 0 and facts["flipped_variants"] == [0, 0, 0]


def test_wrong_given_maps_are_refused(tmp_path: Path) -> None:
    given = released(tmp_path)
    with pytest.raises(InputError, match="has 2 maps of variants, and 3 are asked for"):
        prepare_shape(given._replace(spheres=given.spheres[:3]), TINY)
    sphere = read_mesh(given.spheres[1])
    write_off(given.spheres[1], Mesh(sphere.vertices * (1, 1, -1), sphere.faces))
    with pytest.raises(InputError, match=r"1\.off is a mirror image of .*0\.off: turn its map over"):
        prepare_shape(given, TINY)
    folded = np.where(sphere.vertices[:, 2:] > 0, sphere.vertices, sphere.vertices * (1, 1, -0.3))
    write_off(given.spheres[1], Mesh(folded, sphere.faces))
    with pytest.raises(
        InputError, match=r"1\.off folds 0\.\d+ of the surface over, more than 0\.\d+ of it: .*--flipped-area$"
    ):
        prepare_shape(given, TINY)
    write_off(given.spheres[1], Mesh(sphere.vertices, sphere.faces[::-1]))
    with pytest.raises(InputError, match="has other faces or vertices"):
        prepare_shape(given, TINY)
    sphere.vertices[0] = 0
    write_off(given.spheres[1], sphere)
    with pytest.raises(InputError, match="is no map to the sphere"):
        prepare_shape(given, TINY)


def test_bad_maps_are_refused(tmp_path: Path) -> None:
    given = source(tmp_path, bumpy())
    with pytest.raises(InputError, match="has no good map to the sphere: its radius is off by") as error:
        prepare_shape(given, replace(TINY, tolerance=1e-9))
    assert str(error.value).endswith("; remesh it, shorten what is long and thin, or allow more by --tolerance")
    with pytest.raises(InputError, match="162 eigenpairs cannot be taken from 162 vertices"):
        prepare_shape(given, replace(TINY, eigenpairs=162))


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["own", "shared"])
def test_variants_without_a_good_map_are_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maps: Literal["own", "shared"]
) -> None:
    centre, calls = spherical_map.centre, []

    def sometimes(directions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
        if not np.ptp(weights) == 0:  # else in the midst of the flow
            calls.append(len(directions))
            if len(calls) in bad:
                raise InputError("it cannot be centred")
        return centre(directions, weights)

    monkeypatch.setattr(spherical_map, "centre", sometimes)
    preparation, given = replace(TINY, maps=maps), source(tmp_path, bumpy())
    tries = 2 if maps == "own" else 1  # a variant's own map is made in two ways
    bad = set(range(2, 2 + 2 * tries))
    images, facts, _ = prepare_shape(given, preparation)
    assert len(images) == 4 and facts["redrawn"] == 2 and len(calls) == 4 + 2 * tries
    bad, calls = set(range(2, 2 + 4 * tries)), []
    with pytest.raises(
        InputError, match=r"bump/one itself has a good map .* but 4 of its 6 conformal variants have none .* centred"
    ):
        prepare_shape(given, preparation)


def test_what_is_flipped_or_distorted_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(good_map, "relaxed", lambda mesh, directions: directions)
    flow = spherical_map.conformal_flow

    def folded(mesh: Mesh, weights: Literal["delaunay", "uniform"]) -> spherical_map.SphericalMap:
        found = flow(mesh, weights)
        found.directions[mesh.faces[0, 0]] *= -1
        return found

    monkeypatch.setattr(spherical_map, "conformal_flow", folded)
    given = source(tmp_path, bumpy())
    with pytest.raises(
        InputError,
        match=r"^bump/one has no good map .* of its area is flipped, and 1.0% is allowed; .* --flipped-area$",
    ):
        prepare_shape(given, TINY)
    with pytest.raises(InputError, match=r"mean distortion is .*, and 1\.1 is allowed; remesh it, .* --distortion$"):
        prepare_shape(given, replace(TINY, flipped_area=1.0, distortion=1.1))
    _, facts, surface = prepare_shape(given, replace(TINY, flipped_area=1.0, distortion=1e6))
    assert facts["flipped"] > 0 and 0.01 < facts["flipped_area"] < 0.5 and surface.directions.dtype == np.float64


def spiky(height: float) -> Mesh:
    """A sphere with eight thin spikes of a few triangles each, which the conformal flow folds."""
    ball = meshes.icosphere(3)
    tips = ball.vertices[np.random.default_rng(0).choice(len(ball.vertices), 8, replace=False)]
    angles = np.arccos(np.clip(ball.vertices @ tips.T, -1, 1))
    return Mesh(ball.vertices * (1 + height * np.exp(-np.square(angles / 0.1)).sum(1))[:, None], ball.faces)


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["own", "shared"])
def test_shapes_with_spikes_are_prepared_without_a_warning(tmp_path: Path, maps: Literal["own", "shared"]) -> None:
    _, facts, _ = prepare_shape(source(tmp_path, spiky(4.0)), replace(TINY, maps=maps))
    assert facts["repair"] == "uniform" and facts["flipped_area"] <= 0.01 and facts["distortion"] < 20


def test_what_the_grid_keeps_is_measured(tmp_path: Path) -> None:
    given = source(tmp_path, bumpy())
    fine, coarse = (prepare_shape(given, replace(TINY, height=size, width=2 * size))[1]["grid_r2"] for size in (48, 6))
    assert len(fine) == len(coarse) == 4
    assert all(0.97 < value <= 1 for value in fine) and max(coarse) < min(fine) - 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        {"height": 1},
        {"width": 0},
        {"variants": -1},
        {"eigenpairs": 1},
        {"times": 0},
        {"first_time": 0.0},
        {"first_time": float("nan")},
        {"last_time": 1e-3},
        {"distance": 1.0},
        {"radius": 1.5},
        {"tolerance": 0.0},
        {"flipped_area": -0.1},
        {"flipped_area": 1.1},
        {"distortion": 0.5},
        {"distortion": float("nan")},
    ],
    ids=lambda wrong: str(*wrong),
)
def test_wrong_parameters_are_named(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Preparation(**wrong)
