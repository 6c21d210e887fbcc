import numpy as np
import pytest
import torch

from niso.errors import InputError
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.surface import Mesh


def torus(rows: int = 12, columns: int = 8) -> Mesh:
    u, v = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    long, short = 2 * np.pi * u.ravel() / rows, 2 * np.pi * v.ravel() / columns
    ring = 2 + np.cos(short)
    vertices = np.stack((ring * np.cos(long), ring * np.sin(long), np.sin(short)), axis=1)

    def number(i, j):
        return (i % rows) * columns + j % columns

    a, b, c, d = number(u, v), number(u + 1, v), number(u + 1, v + 1), number(u, v + 1)
    return Mesh(vertices, np.concatenate([np.stack((a, b, c), -1), np.stack((a, c, d), -1)]).reshape(-1, 3))


def joined(*parts: Mesh) -> Mesh:
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return Mesh(np.concatenate([part.vertices for part in parts]), np.concatenate(faces))


def touching() -> Mesh:
    """Two spheres that share one vertex."""
    one = meshes.icosphere(1)
    both = joined(one, Mesh(one.vertices + 2 * one.vertices[0], one.faces))
    faces = both.faces.copy()
    count = len(one.vertices)
    opposite = int(np.argmin(np.linalg.norm(one.vertices + one.vertices[0], axis=1))) + count
    faces[faces == opposite] = 0
    faces[faces > opposite] -= 1
    return Mesh(np.delete(both.vertices, opposite, axis=0), faces)


def with_vertex(value: float) -> Mesh:
    sphere = meshes.icosphere(1)
    sphere.vertices[3, 1] = value
    return sphere


SPHERE = meshes.icosphere(1)
BROKEN = {
    "no vertices": (Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)), "is empty: it has 0 vertices"),
    "no faces": (Mesh(SPHERE.vertices, SPHERE.faces[:0]), "is a cloud of 42 points without faces: reconstruct"),
    "NaN": (with_vertex(np.nan), "not finite numbers at 1 vertex;"),
    "infinite": (with_vertex(np.inf), "not finite numbers at 1 vertex;"),
    "tiny": (Mesh(1e-72 * SPHERE.vertices, SPHERE.faces), "is 2e-72 long, and squares of its areas are no numbers"),
    "faces in floats": (Mesh(SPHERE.vertices, SPHERE.faces.astype(float)), "has faces of float64, no whole numbers"),
    "tensors": (Mesh(torch.zeros(4, 3), torch.zeros(4, 3)), "that are no NumPy arrays but Tensor and Tensor"),
    "flat": (Mesh(SPHERE.vertices[:, :2], SPHERE.faces), "has vertices of shape (42, 2), not (vertices, 3)"),
    "quadrangles": (Mesh(SPHERE.vertices, SPHERE.faces[:, [0, 1, 2, 2]]), "cut polygons into triangles"),
    "complex": (Mesh(1j * SPHERE.vertices, SPHERE.faces), "has vertices of complex128, no real numbers"),
    "no such corner": (Mesh(SPHERE.vertices[:-1], SPHERE.faces), "corners that do not exist: there are 41"),
    "negative corner": (Mesh(SPHERE.vertices, SPHERE.faces - 1), "corners that do not exist"),
    "unreferenced": (Mesh(np.append(SPHERE.vertices, [[9.0, 9, 9]], 0), SPHERE.faces), "1 vertex without any face"),
    "degenerate": (Mesh(SPHERE.vertices, np.append(SPHERE.faces, [[3, 3, 4]], 0)), "1 degenerate face of no area"),
    "no area": (Mesh(SPHERE.vertices[SPHERE.faces[0]][[0, 1, 1]], np.array([[0, 1, 2]])), "1 degenerate face"),
    "non-manifold edge": (Mesh(SPHERE.vertices, np.append(SPHERE.faces, SPHERE.faces[:1], 0)), "share 3 edges"),
    "non-manifold vertex": (touching(), "is not a manifold: fans of faces touch at 1 vertex"),
    "open": (Mesh(SPHERE.vertices, SPHERE.faces[1:]), "is open: it has 3 boundary edges"),
    "disoriented": (Mesh(SPHERE.vertices, np.append(SPHERE.faces[:-1], SPHERE.faces[-1:, ::-1], 0)), "at 3 edges turn"),
    "two components": (joined(SPHERE, Mesh(SPHERE.vertices + 5, SPHERE.faces)), "has 2 components; keep one"),
    "torus": (torus(), "has genus 1"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_check_names_what_is_wrong(problem):
    broken, message = BROKEN[problem]
    with pytest.raises(InputError, match=r"^thing\.off ") as caught:
        meshes.check(broken, "thing.off")
    assert message in str(caught.value)


def test_check_accepts_closed_surfaces_of_genus_0():
    inside_out = Mesh(SPHERE.vertices, SPHERE.faces[:, ::-1])
    for good in (SPHERE, inside_out, Mesh(SPHERE.vertices * [1, 1, 1e-3], SPHERE.faces)):
        meshes.check(good)
        meshes.check(Mesh(good.vertices * 1e-6 + 1, good.faces))


@pytest.mark.parametrize("subdivisions", range(4))
def test_icosphere(subdivisions):
    sphere = meshes.icosphere(subdivisions)
    meshes.check(sphere)
    assert len(sphere.vertices) == 10 * 4**subdivisions + 2
    np.testing.assert_allclose(np.linalg.norm(sphere.vertices, axis=1), 1)
    np.testing.assert_allclose(np.sort(sphere.vertices, 0), np.sort(-sphere.vertices, 0), atol=1e-14)
    assert np.einsum("fi,fi->f", meshes.face_normals(sphere), sphere.vertices[sphere.faces[:, 0]]).min() > 0


def test_measures_approach_the_spheres():
    areas, volumes = zip(
        *((meshes.vertex_areas(m).sum(), meshes.volume(m)) for m in map(meshes.icosphere, (3, 4))), strict=True
    )
    area_errors, volume_errors = 4 * np.pi - np.array(areas), 4 / 3 * np.pi - np.array(volumes)
    assert 0 < 3.8 * area_errors[1] < area_errors[0] < 0.08  # of second order in the edges' length
    assert 0 < 3.8 * volume_errors[1] < volume_errors[0] < 0.05


def test_measures_of_a_torus():
    ring = torus(96, 64)
    np.testing.assert_allclose(meshes.face_areas(ring).sum(), 8 * np.pi**2, rtol=3e-3)
    np.testing.assert_allclose(meshes.volume(ring), 4 * np.pi**2, rtol=3e-3)
    assert meshes.volume(Mesh(ring.vertices, ring.faces[:, ::-1])) == pytest.approx(-meshes.volume(ring))


def test_edge_lengths_are_opposite_to_corners():
    triangle = Mesh(np.array([[0.0, 0, 0], [3, 0, 0], [0, 4, 0]]), np.array([[0, 1, 2]]))
    np.testing.assert_allclose(meshes.edge_lengths(triangle), [[5, 4, 3]])


def test_unit_area_does_not_depend_on_place_and_size():
    shape = Mesh(SPHERE.vertices * [1, 2, 3], SPHERE.faces)
    one, other = meshes.unit_area(shape), meshes.unit_area(Mesh(7 * shape.vertices + [1, 2, 3], shape.faces))
    np.testing.assert_allclose(one.vertices, other.vertices, atol=1e-14)
    assert meshes.face_areas(one).sum() == pytest.approx(1)
    np.testing.assert_allclose(meshes.vertex_areas(one) @ one.vertices, 0, atol=1e-14)


def test_volume_does_not_depend_on_the_place_of_the_origin():
    """As of scans in coordinates of a country, in metres or millimetres."""
    for away in ([0.0, 0.0, 0.0], [5e5, 4.5e6, 100], [1e9, -1e9, 1e9]):
        far = Mesh(SPHERE.vertices + away, SPHERE.faces)
        assert meshes.volume(far) == pytest.approx(meshes.volume(SPHERE), rel=1e-6)


def test_vertices_in_float32_and_faces_in_int32_are_widened():
    sphere = meshes.icosphere(2)
    far = Mesh((sphere.vertices + 1000).astype(np.float32), sphere.faces.astype(np.int32))
    wide = Mesh(far.vertices.astype(np.float64), sphere.faces)
    assert meshes.volume(far) == meshes.volume(wide) > 4
    np.testing.assert_array_equal(meshes.edge_lengths(far), meshes.edge_lengths(wide))
    meshes.check(Mesh((1e25 * sphere.vertices).astype(np.float32), sphere.faces))  # squares are beyond single precision
    large = torus(300, 160)
    order = np.random.default_rng(0).permutation(len(large.vertices))
    vertices = np.empty_like(large.vertices)
    vertices[order] = large.vertices
    meshes.check_surface(Mesh(vertices, order[large.faces].astype(np.int32)))
