"""A learned operator, and maps in its basis, as figures show them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.methods.method import Method
from niso.spectrum import Spectrum

FINER = 4
"""Pictures of a field are on a grid so many times as fine, along each axis, as the latent one."""


class Operator(NamedTuple):
    """A learned operator, on the CPU.

    Attributes:
        spectrum: with eigenvalues in ascending order.
        mask: that maps are solved under; None where there is none.
        grid: height and width of the latent grid, or the three sides of volumes'.
        areas: given ones of the latent points, of mean 1.
        drawn: the spectrum on the grid that pictures show: finer than the latent one where it is a field.
        drawn_grid: sides of that one.
    """

    spectrum: Spectrum
    mask: Float[Tensor, "rank rank"] | None
    grid: tuple[int, ...]
    areas: Float[Tensor, " points"]
    drawn: Spectrum
    drawn_grid: tuple[int, ...]


@torch.no_grad()
def learned_operator(method: Method) -> Operator | None:
    """The operator that a method has learned; None where it learns none."""
    spectrum, mask = method.spectrum(), method.mask()
    if spectrum is None:
        return None
    sides = tuple(FINER * side for side in method.grid)
    fine = method.spectrum_at(method.domain(*sides))
    drawn, drawn_grid = (spectrum, method.grid) if fine is None else (fine, sides)
    order = spectrum.eigenvalues.argsort().cpu()
    ordered, drawn = (
        Spectrum(mass, functions[:, order], eigenvalues[order])
        for mass, functions, eigenvalues in (map(Tensor.cpu, part) for part in (spectrum, drawn))
    )
    mask = None if mask is None else mask.cpu()[order][:, order]
    return Operator(ordered, mask, method.grid, method.domain(*method.grid).weights, drawn, drawn_grid)


def in_ascending_order(method: Method, tau: Float[Tensor, "maps rank rank"]) -> Float[Tensor, "maps rank rank"]:
    """Maps on the CPU, with eigenfunctions in ascending eigenvalue where the method has any."""
    spectrum = method.spectrum()
    if spectrum is None:
        return tau.cpu()
    order = spectrum.eigenvalues.argsort()
    return tau[:, order][:, :, order].cpu()
