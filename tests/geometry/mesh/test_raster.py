import numpy as np
import pytest

from niso.geometry.domains import equirectangular
from niso.geometry.mesh import raster as mesh_raster
from niso.geometry.mesh.surface import icosphere


@pytest.mark.parametrize("layout", ["poles", "driscoll-healy"])
def test_rasterise_interpolates_functions(layout):
    sphere = icosphere(4)

    def functions(points):
        x, y, z = np.moveaxis(points, -1, 0)
        return np.stack((np.ones_like(x), x, y * z, z**3 - x * y), axis=-1)

    image = mesh_raster.rasterise(sphere.vertices, sphere.faces, functions(sphere.vertices), 24, 48, layout)
    grid = equirectangular.directions(24, 48, layout).numpy()
    assert image.shape == (4, 24, 48)
    np.testing.assert_allclose(image[0], 1)
    np.testing.assert_allclose(image, np.moveaxis(functions(grid), -1, 0), atol=0.01)


def test_a_grid_with_poles_has_them_in_its_first_and_last_rows():
    sphere = icosphere(1)
    image = mesh_raster.rasterise(sphere.vertices, sphere.faces, sphere.vertices, 96, 192, "poles")
    assert image.shape == (3, 96, 192)
    np.testing.assert_allclose(image[:, :, 0], image[:, :, -1], atol=1e-9)  # the same meridian twice
    np.testing.assert_allclose(np.ptp(image[:, [0, -1]], axis=2), 0, atol=1e-9)  # the poles


def test_interpolation_is_exact_on_the_mesh():
    sphere = icosphere(2)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), len(sphere.faces))
    points = np.einsum("fk,fki->fi", weights, sphere.vertices[sphere.faces])
    matrix = mesh_raster.interpolation(sphere.vertices, sphere.faces, points)
    np.testing.assert_allclose(matrix @ sphere.vertices, points, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(1), 1)
    assert matrix.data.min() >= 0
    at_vertices = mesh_raster.interpolation(sphere.vertices, sphere.faces, sphere.vertices)
    np.testing.assert_allclose(at_vertices.toarray(), np.eye(len(sphere.vertices)), atol=1e-9)


def test_interpolation_takes_the_closest_point():
    triangle, faces = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    points = np.array([[0.25, 0.25, 3], [2, 0, 1], [0.5, -1, 0], [1.0, 1, 0]])
    expected = [[0.5, 0.25, 0.25], [0, 1, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]
    np.testing.assert_allclose(mesh_raster.interpolation(triangle, faces, points).toarray(), expected, atol=1e-12)


def test_faces_without_area_are_survived():
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [1, 0, 0]])
    matrix = mesh_raster.interpolation(corners, np.array([[0, 1, 2]]), np.array([[2.0, 0, 0], [-1.0, 0, 0]]))
    np.testing.assert_allclose(matrix @ corners, [[1, 0, 0], [0, 0, 0]])


def test_a_grid_of_the_mean_by_area_keeps_nothing():
    random = np.random.default_rng(0)
    directions, values, areas = random.normal(size=(50, 3)), random.normal(size=(50, 1)), random.uniform(0, 9, 50)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    mean = float(areas @ values[:, 0] / areas.sum())
    assert mesh_raster.recovered(np.full((1, 8, 16), mean), directions, values, areas, "poles") == pytest.approx(
        0, abs=1e-9
    )
