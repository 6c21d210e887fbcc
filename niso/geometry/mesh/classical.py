"""The classical operator of a surface, its Laplacian, as a spectrum, for comparisons with learned ones."""

from __future__ import annotations

import numpy as np
import torch

from niso.errors import InputError
from niso.geometry.mesh.spectrum import eigenpairs, laplacian
from niso.geometry.mesh.surface import Mesh, check_surface, vertex_areas
from niso.spectrum import FixedSpectrum


def fixed_spectrum(mesh: Mesh, rank: int, unit_area: bool = True, name: str = "the mesh") -> FixedSpectrum:
    """The first eigenpairs of the Laplace–Beltrami operator of a surface, of any genus and with or without boundary.

    Linear finite elements with a lumped mass, see `niso.geometry.mesh.spectrum.laplacian`; no flow through the boundary
    (Neumann). Signs, and bases of multiple eigenvalues, are arbitrary.

    Args:
        unit_area: of the surface scaled to area 1, so that sizes do not matter; otherwise λ are in 1/length².
        name: of the mesh in error messages.

    Raises:
        InputError: the mesh is no connected manifold (`surface.check_surface`), or has too few vertices for the rank.
    """
    check_surface(mesh, name)
    if unit_area:
        mesh = Mesh(mesh.vertices / np.sqrt(vertex_areas(mesh).sum()), mesh.faces)
    try:
        operator = laplacian(mesh)
        values, functions = eigenpairs(operator, rank)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    parts = operator.mass, functions, values
    return FixedSpectrum(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))
