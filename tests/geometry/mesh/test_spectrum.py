import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.transform import Rotation

from niso.errors import InputError
from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh.surface import Mesh, icosphere, vertex_areas


def bumpy(subdivisions: int = 3) -> Mesh:
    """A shape without symmetries."""
    sphere = icosphere(subdivisions)
    x, y, z = sphere.vertices.T
    radius = 1 + 0.2 * np.sin(3 * x + y) + 0.15 * np.cos(2 * z - 4 * y) + 0.1 * x * z
    return Mesh(sphere.vertices * radius[:, None] * [1.0, 1.3, 0.8], sphere.faces)


def with_slivers(mesh: Mesh, shares: tuple[float, ...] = (0.5 - 5e-6, 0.5 - 5e-6, 1e-5)) -> Mesh:
    """Each of some faces cut in three by a vertex that is almost on one of its edges, or near one of its corners."""
    corners = mesh.vertices[mesh.faces[::9]]
    extra = np.einsum("fki,k->fi", corners, shares)
    faces = list(np.delete(mesh.faces, np.s_[::9], axis=0))
    for number, (a, b, c) in enumerate(mesh.faces[::9], start=len(mesh.vertices)):
        faces += [(a, b, number), (b, c, number), (c, a, number)]
    return Mesh(np.concatenate((mesh.vertices, extra)), np.array(faces))


@pytest.mark.parametrize("delaunay", [False, True])
def test_laplacian_is_that_of_linear_finite_elements(delaunay):
    shape = bumpy()
    stiffness, mass = mesh_spectrum.laplacian(shape, delaunay)
    assert abs(stiffness - stiffness.T).max() == 0
    np.testing.assert_allclose(stiffness @ np.ones(len(mass)), 0, atol=1e-12)
    np.testing.assert_allclose(mass.sum(), vertex_areas(shape).sum(), rtol=1e-12)
    assert (mass > 0).all()
    # |∇f|² of the three coordinates adds up to 2 on any surface, if f is linear on the faces.
    energy = np.einsum("vi,vi->", shape.vertices, stiffness @ shape.vertices)
    assert energy == pytest.approx(2 * mass.sum(), rel=1e-2 if delaunay else 1e-12)
    assert np.linalg.eigvalsh(stiffness.toarray()).min() > -1e-12


def test_cotangents_of_a_right_triangle():
    triangle = Mesh(np.array([[0.0, 0, 0], [2, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]]))
    stiffness, mass = mesh_spectrum.laplacian(triangle, delaunay=False)
    np.testing.assert_allclose(stiffness.toarray(), [[1.25, -0.25, -1], [-0.25, 0.25, 0], [-1, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(mass, 1 / 3)


def test_intrinsic_delaunay_has_no_negative_weights():
    shape = bumpy()
    flat = Mesh(shape.vertices * [1, 1, 0.2], shape.faces)
    own, better = (mesh_spectrum.laplacian(flat, delaunay).stiffness.toarray() for delaunay in (False, True))
    off_diagonal = ~np.eye(len(own), dtype=bool)
    assert own[off_diagonal].max() > 0.1
    assert better[off_diagonal].max() < 1e-9


def test_thin_triangles_alone_need_another_triangulation():
    needles = with_slivers(bumpy(), (0.99, 0.005, 0.005))  # of about 0.3°
    for shape, same in ((bumpy(), False), (with_slivers(bumpy()), True), (needles, True)):
        chosen, expected = mesh_spectrum.laplacian(shape), mesh_spectrum.laplacian(shape, same)
        np.testing.assert_array_equal(chosen.mass, expected.mass)
        assert abs(chosen.stiffness - expected.stiffness).max() == 0


def test_slivers_hardly_change_the_spectrum():
    shape = bumpy()
    plain, slivers = (mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(m), 20) for m in (shape, with_slivers(shape)))
    np.testing.assert_allclose(slivers.eigenvalues[1:], plain.eigenvalues[1:], rtol=0.03)
    times = np.array([0.1, 1.0])
    signatures = [mesh_spectrum.heat_kernel_signature(pairs, times) for pairs in (plain, slivers)]
    np.testing.assert_allclose(signatures[1][: len(shape.vertices)], signatures[0], rtol=0.05)


def test_collinear_faces_survive():
    """Whatever rounding leaves of an exactly flat face gives finite weights."""
    shape = with_slivers(bumpy(2))
    shape.vertices[-1] = shape.vertices[shape.faces[-3][:2]].mean(0)
    stiffness, mass = mesh_spectrum.laplacian(shape)
    assert np.isfinite(stiffness.data).all() and (mass > 0).all()
    assert abs(stiffness).max() < 1e7


def test_eigenpairs_are_orthonormal_and_solve_the_equation():
    operator = mesh_spectrum.laplacian(bumpy())
    values, functions = mesh_spectrum.eigenpairs(operator, 30)
    np.testing.assert_allclose(functions.T @ (operator.mass[:, None] * functions), np.eye(30), atol=1e-10)
    residual = operator.stiffness @ functions - operator.mass[:, None] * functions * values
    np.testing.assert_allclose(residual, 0, atol=1e-9)
    assert values[0] == pytest.approx(0, abs=1e-9) and (values >= 0).all() and (np.diff(values) >= 0).all()
    again = mesh_spectrum.eigenpairs(operator, 30)
    np.testing.assert_array_equal(again.eigenfunctions, functions)


@pytest.mark.parametrize("size", [1e-20, 1e-5, 1e12])
def test_eigenpairs_do_not_depend_on_the_unit_of_length(size):
    """Without a change of scale Lanczos iteration stops too early on small meshes, and leaves some out."""
    sphere = icosphere(2)
    values = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(sphere), 40).eigenvalues
    small = mesh_spectrum.laplacian(Mesh(size * sphere.vertices, sphere.faces))
    scaled, at_size = mesh_spectrum.eigenpairs(small, 40)
    np.testing.assert_allclose(scaled * size**2, values, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(at_size.T @ (small.mass[:, None] * at_size), np.eye(40), atol=1e-10)


@pytest.mark.parametrize("rank", [21, 35, 45])
def test_all_copies_of_multiple_eigenvalues_are_found(rank):
    """Lanczos iteration leaves some out that are just within the rank."""
    operator = mesh_spectrum.laplacian(icosphere(2))
    true = eigh(operator.stiffness.toarray(), np.diag(operator.mass), eigvals_only=True)[:rank]
    np.testing.assert_allclose(mesh_spectrum.eigenpairs(operator, rank).eigenvalues, true, rtol=1e-7, atol=1e-9)


def test_eigenvalues_of_the_sphere():
    values, _ = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(icosphere(4)), 64)
    degree = np.repeat(np.arange(8), 2 * np.arange(8) + 1)
    np.testing.assert_allclose(values, degree * (degree + 1), rtol=0.025, atol=1e-9)


def test_signature_of_the_sphere_is_the_closed_form():
    """Σ (2l + 1) exp(−l (l + 1) t) / 4π at every point, within 1 %."""
    times = np.geomspace(0.1, 1, 7)
    pairs = mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(icosphere(4)), 144)
    degree = np.arange(100)[:, None]
    exact = ((2 * degree + 1) * np.exp(-degree * (degree + 1) * times)).sum(0) / (4 * np.pi)
    signature = mesh_spectrum.heat_kernel_signature(pairs, times)
    np.testing.assert_allclose(signature, np.broadcast_to(exact, signature.shape), rtol=0.01)


@pytest.mark.parametrize("delaunay", [False, True])
def test_signature_is_invariant_under_rigid_motion(delaunay):
    shape = bumpy()
    rotation = Rotation.from_rotvec([0.3, -1.1, 2.0]).as_matrix()
    moved = Mesh(shape.vertices @ rotation.T + [1.0, -2.0, 3.0], shape.faces)
    one, other = (
        mesh_spectrum.heat_kernel_signature(
            mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(m, delaunay), 64), np.geomspace(1e-2, 1.0, 16)
        )
        for m in (shape, moved)
    )
    np.testing.assert_allclose(other, one, rtol=1e-6)


def test_signature_scales_with_the_mesh():
    shape, times = bumpy(2), np.geomspace(1e-2, 1.0, 4)
    larger = Mesh(3 * shape.vertices, shape.faces)
    one, other = (mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(m), 16) for m in (shape, larger))
    scaled = mesh_spectrum.heat_kernel_signature(other, 9 * times)
    np.testing.assert_allclose(9 * scaled, mesh_spectrum.heat_kernel_signature(one, times), rtol=1e-9)


def test_refusals():
    operator = mesh_spectrum.laplacian(icosphere(0))
    with pytest.raises(InputError, match="12 eigenpairs cannot be taken from 12 vertices: take fewer"):
        mesh_spectrum.eigenpairs(operator, 12)


def test_an_iteration_that_does_not_converge_is_a_refusal(monkeypatch):
    def fail(*_, **__):
        raise mesh_spectrum.ArpackError(-9999)

    monkeypatch.setattr(mesh_spectrum, "eigsh", fail)
    with pytest.raises(InputError, match="5 eigenpairs of the Laplacian could not be found"):
        mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(icosphere(2)), 5)
