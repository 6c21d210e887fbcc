"""Surfaces round skeletons: closed, of genus 0, of the size that is asked for, and where they should be."""

from __future__ import annotations

import numpy as np
import pytest

from niso.errors import InputError
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.skeleton import Skeleton, surface


def sticks(*ends: tuple, radius: float = 0.2) -> Skeleton:
    return Skeleton(np.array(ends, dtype=float), np.full((len(ends), 2), radius))


@pytest.mark.parametrize("vertices", [300, 1000])
def test_a_capsule(vertices: int) -> None:
    """Of length 2 and radius 0.5: area 2πr (L + 2r), compared by its proportions, as the area is made 1."""
    mesh = surface(sticks(((0, 0, -1), (0, 0, 1)), radius=0.5), vertices)
    meshes.check(mesh)
    assert len(mesh.vertices) == vertices
    scale = np.sqrt(2 * np.pi * 0.5 * 3)
    points = mesh.vertices * scale
    away = points - np.clip(points[:, 2:], -1, 1) * np.array((0, 0, 1))
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), 0.5, rtol=0.06)
    assert meshes.volume(mesh) * scale**3 == pytest.approx(np.pi * 0.25 * (2 + 2 / 3), rel=0.05)


def test_limbs_grow_out_of_a_body() -> None:
    jack = sticks(*(((0, 0, 0), axis) for axis in np.concatenate((np.eye(3), -np.eye(3))).tolist()))
    mesh = surface(jack, 800)
    meshes.check(mesh)
    reach = np.abs(mesh.vertices).max(0)
    np.testing.assert_allclose(reach, reach.mean(), rtol=0.05)  # alike in all six directions
    assert np.linalg.norm(mesh.vertices, axis=1).min() < 0.45 * reach.mean()


@pytest.mark.parametrize(
    ("skeleton", "message"),
    [
        (sticks(*(((np.cos(a), np.sin(a), 0), (np.cos(a + 1.05), np.sin(a + 1.05), 0)) for a in np.arange(6) * 1.047)),
         "genus 1"),
        (sticks(((0, 0, 0), (0, 0, 1)), ((3, 0, 0), (3, 0, 1))), "has 2 components"),
        (sticks(((0, 0, 0), (0, 0, 100)), radius=0.01), "falls between the points of a grid"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(skeleton: Skeleton, message: str) -> None:
    with pytest.raises(InputError, match=message):
        surface(skeleton, 500)
