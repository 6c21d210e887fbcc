"""The Laplacian of a mesh as a spectrum: known eigenvalues on surfaces of any genus, with and without boundary."""

import numpy as np
import pytest
import torch

import niso
from niso.errors import InputError
from niso.geometry.mesh.classical import fixed_spectrum
from niso.geometry.mesh.surface import Mesh, check, check_surface, icosphere, torus, vertex_areas


def square(side: int) -> Mesh:
    x = np.linspace(0, 1, side + 1)
    places = np.stack([*np.meshgrid(x, x), np.zeros((side + 1, side + 1))], -1).reshape(-1, 3)
    corner = (np.arange(side)[:, None] * (side + 1) + np.arange(side)).ravel()
    faces = [corner + np.array(steps)[:, None] for steps in ((0, 1, side + 2), (0, side + 2, side + 1))]
    return Mesh(places, np.concatenate([part.T for part in faces]))


def test_eigenvalues_of_the_sphere_and_of_a_square():
    ball = icosphere(3)
    sphere = fixed_spectrum(ball, 9).eigenvalues / vertex_areas(ball).sum()  # those of radius 1
    torch.testing.assert_close(sphere, torch.tensor([0.0, 2, 2, 2, 6, 6, 6, 6, 6]).double(), rtol=0.01, atol=1e-6)
    flat = fixed_spectrum(square(16), 4).eigenvalues / np.pi**2
    torch.testing.assert_close(flat, torch.tensor([0.0, 1, 1, 2]).double(), rtol=0.01, atol=1e-6)


def test_it_is_a_spectrum_of_any_size_and_genus():
    ring = torus(24, 12)
    one, large = fixed_spectrum(ring, 10), fixed_spectrum(Mesh(100 * ring.vertices, ring.faces), 10)
    torch.testing.assert_close(one.eigenvalues, large.eigenvalues, rtol=1e-6, atol=1e-6)
    assert isinstance(one, niso.FixedSpectrum) and one.mass.sum().item() == pytest.approx(1)
    gram = one().eigenfunctions.mT @ (one.mass[:, None] * one().eigenfunctions)
    torch.testing.assert_close(gram, torch.eye(10).double(), atol=1e-6, rtol=0)


def test_tori_are_surfaces_with_a_handle():
    mesh = torus(40, 20)
    check_surface(mesh)
    assert vertex_areas(mesh).sum() == pytest.approx(4 * np.pi**2 * 0.4, rel=0.02)
    with pytest.raises(InputError, match="genus 1"):
        check(mesh)


def test_what_is_no_surface_is_refused():
    flat = square(4)
    check_surface(flat)
    with pytest.raises(InputError, match=r"^flat is open"):
        check(flat, "flat")
    turned = Mesh(flat.vertices, np.concatenate([flat.faces[:1, ::-1], flat.faces[1:]]))
    two = Mesh(np.concatenate([flat.vertices, flat.vertices + 5]), np.concatenate([flat.faces, flat.faces + 25]))
    ball = icosphere(1)
    upper = ball.vertices[ball.faces].mean(1)[:, 2] > 0.1
    halves = [np.unique(ball.faces[part], return_inverse=True) for part in (upper, ~upper)]
    shifted = np.concatenate([halves[0][1].reshape(-1, 3), halves[1][1].reshape(-1, 3) + len(halves[0][0])])
    seam = Mesh(ball.vertices[np.concatenate([half[0] for half in halves])], shifted)
    count = len(seam.vertices) - len(ball.vertices)
    duplicate = f"has {count} vertices at its boundary with the coordinates of another"
    for mesh, message in (
        (turned, "not consistently oriented"),
        (two, "2 components; keep one"),
        (seam, duplicate),
    ):
        with pytest.raises(InputError, match=f"^flat.* {message}|^flat has {message}"):
            fixed_spectrum(mesh, 3, name="flat")
    with pytest.raises(InputError, match=r"^flat: 30 eigenpairs cannot be taken from 25 vertices"):
        fixed_spectrum(flat, 30, name="flat")
