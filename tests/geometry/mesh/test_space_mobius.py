import numpy as np

from niso.geometry.mesh import space_mobius, spherical_map
from niso.geometry.mesh.space_mobius import SpaceMobius
from niso.geometry.mesh.surface import Mesh, icosphere, volume


def shape(subdivisions: int = 3) -> Mesh:
    sphere = icosphere(subdivisions)
    return Mesh(sphere.vertices * [1.0, 0.6, 0.4] + [3.0, 0, 0], sphere.faces)


def test_translate_keeps_the_ball_and_takes_0_where_it_says():
    centre = np.array([0.0, 1.2, 0.0])
    np.testing.assert_allclose(space_mobius.translate(np.zeros((1, 3)), centre), [centre / 1.44], atol=1e-15)
    on_sphere = icosphere(2).vertices
    np.testing.assert_allclose(np.linalg.norm(space_mobius.translate(on_sphere, centre), axis=1), 1)
    assert np.linalg.norm(space_mobius.translate(0.9 * on_sphere, centre), axis=1).max() < 1


def test_translate_multiplies_distances_by_the_root_of_both_factors():
    """|Tx − Ty| = |x − y| √(λ(x) λ(y)) is what makes a map of space a Möbius transformation."""
    x, y = np.random.default_rng(0).uniform(-0.5, 0.5, (2, 50, 3))
    centre = np.array([0.3, -1.1, 0.4])

    def factor(p):
        return (centre @ centre - 1) / np.square(p + centre).sum(1)

    moved = np.linalg.norm(space_mobius.translate(x, centre) - space_mobius.translate(y, centre), axis=1)
    np.testing.assert_allclose(moved, np.linalg.norm(x - y, axis=1) * np.sqrt(factor(x) * factor(y)))


def test_variants_are_conformal_and_keep_orientation():
    distortions = []
    for subdivisions in (2, 3, 4):
        mesh = shape(subdivisions)
        variant = space_mobius.transform(mesh, space_mobius.sample(1, np.random.default_rng(3))[0])
        assert np.array_equal(variant.faces, mesh.faces) and volume(variant) > 0
        distortions.append(spherical_map.quality(mesh, variant.vertices).distortion - 1)
    assert distortions[2] < 0.05
    assert distortions[2] < distortions[1] / 1.7 < distortions[0] / 1.7**2  # of first order in the edges' length


def test_variants_do_not_depend_on_place_and_size():
    mesh = shape(2)
    transformation = space_mobius.sample(1, np.random.default_rng(0))[0]
    one = space_mobius.transform(mesh, transformation)
    other = space_mobius.transform(Mesh(4 * mesh.vertices - 7, mesh.faces), transformation)
    np.testing.assert_allclose(one.vertices, other.vertices, atol=1e-12)


def test_stretching_stays_within_the_bounds_that_are_stated():
    mesh = shape()
    rotation = np.eye(3)
    for direction in np.append(np.eye(3), -np.eye(3), axis=0):
        variant = space_mobius.transform(mesh, SpaceMobius(1.2 * direction, rotation))
        edges = [np.linalg.norm(np.diff(m.vertices[m.faces[:, :2]], axis=1), axis=-1) for m in (mesh, variant)]
        factors = edges[1] / edges[0]  # the semi-axis 1 of the mesh takes the place of the radius
        assert 0.44 / 2.1**2 * 0.99 < factors.min() and factors.max() < 0.44 / 0.3**2 * 1.01


def test_sample_is_uniform_and_reproducible():
    drawn = space_mobius.sample(2000, np.random.default_rng(0), distance=1.5)
    centres, rotations = np.array([t.centre for t in drawn]), np.array([t.rotation for t in drawn])
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.5)
    np.testing.assert_allclose(
        rotations @ rotations.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (2000, 3, 3)), atol=1e-12
    )
    assert np.linalg.det(rotations).min() > 0.99
    assert np.abs(centres.mean(0)).max() < 0.1 and np.abs(rotations.mean(0)).max() < 0.07
    again = space_mobius.sample(2000, np.random.default_rng(0), distance=1.5)
    assert np.array_equal(again[7].centre, drawn[7].centre) and np.array_equal(again[7].rotation, drawn[7].rotation)
