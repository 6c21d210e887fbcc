"""The classical operator of a surface, its Laplacian, as a spectrum, for comparisons with learned ones."""

from __future__ import annotations

import numpy as np
import torch

from niso.errors import InputError
from niso.geometry.mesh import surface
from niso.geometry.mesh.spectrum import Eigenpairs, Laplacian, eigenpairs, laplacian
from niso.geometry.mesh.surface import Mesh
from niso.spectrum import FixedSpectrum


def fixed_spectrum(mesh: Mesh, rank: int, name: str = "the mesh") -> FixedSpectrum:
    """The first eigenpairs of the Laplace–Beltrami operator of a surface, of any genus and with or without boundary.

    The surface is scaled to area 1, so that sizes do not matter. Linear finite elements with a lumped mass, see
    `niso.geometry.mesh.spectrum.laplacian`; no flow through the boundary (Neumann). Signs, and bases of multiple
    eigenvalues, are arbitrary.

    Args:
        name: of the mesh in error messages.

    Raises:
        InputError: the mesh is no connected manifold (`surface.check_surface`), or has too few vertices for the rank.
    """
    operator, (values, functions) = classical(mesh, rank, name)
    parts = operator.mass, functions, values
    return FixedSpectrum(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


def classical(mesh: Mesh, rank: int, name: str) -> tuple[Laplacian, Eigenpairs]:
    """The operator and its first eigenpairs, see `fixed_spectrum`."""
    surface.check_surface(mesh, name)
    try:
        operator = laplacian(surface.unit_area(mesh))
        return operator, eigenpairs(operator, rank)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
