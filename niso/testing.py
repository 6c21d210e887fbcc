"""Assertions for tests of equivariant code, in this library and in yours; errors are computed in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Float64, Inexact
from torch import Tensor

from niso.checks import check_instance, check_tensor, check_tensors
from niso.functional_map import eigenvalue_blocks
from niso.spectrum import Spectrum


def relative_error(value: Inexact[Tensor, "*shape"], reference: Inexact[Tensor, "*shape"]) -> float:
    """‖value − reference‖ / max(‖reference‖, 1e-30), in float64 or complex128.

    Args:
        value: what was computed.
        reference: what it should be, of the same shape.

    Returns:
        The relative error; 0 is perfect.

    Raises:
        TypeError: not tensors.
        ValueError: the shapes differ (they would broadcast), or there is nothing to compare.
    """
    check_tensor("value", value)
    check_tensor("reference", reference)
    if value.shape != reference.shape:
        raise ValueError(f"value {tuple(value.shape)} and reference {tuple(reference.shape)} differ in shape")
    if not value.numel():
        raise ValueError(f"there is nothing to compare in {tuple(value.shape)}")
    complex_ = value.is_complex() or reference.is_complex()
    dtype = torch.complex128 if complex_ else torch.float64
    value, reference = value.detach().to(dtype), reference.detach().to(dtype)
    return float((value - reference).norm() / reference.norm().clamp_min(1e-30))


def assert_equivariant(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    act_in: Callable[[Tensor], Tensor],
    act_out: Callable[[Tensor], Tensor] = lambda y: y,
    tolerance: float = 1e-4,
) -> None:
    """Assert function(act_in(x)) = act_out(function(x)) to a relative tolerance.

    The default `act_out`, the identity, asserts invariance. Each row of the outputs, along their first dimension,
    counts by itself: the worst one decides. Its error is taken relative to its size, or to the root mean square of all
    rows' sizes where that is larger.

    Args:
        function: what is tested.
        x: its input, which stays as it is, also where one of the functions changes what it gets.
        act_in, act_out: the transformation of its inputs, and that of its outputs.
        tolerance: the largest relative error allowed.

    Raises:
        AssertionError: the relative error exceeds `tolerance` or is not a number; the message states it, and the row.
        TypeError, ValueError: outputs that cannot be compared, see `relative_error`.
    """
    value, reference = function(act_in(x.clone())), act_out(function(x.clone()))
    relative_error(value, reference)  # refuses what cannot be compared
    rows = value.shape[:1]
    value, reference = (part.detach().to(torch.complex128).reshape(*rows, -1) for part in (value, reference))
    sizes = reference.norm(dim=-1)
    least = sizes.square().mean().sqrt().clamp_min(1e-30)
    _check((value - reference).norm(dim=-1) / sizes.maximum(least), tolerance, "equivariance error", "row")


def assert_isometry(
    tau: Float[Tensor, "*batch rank rank"],
    spectrum: Spectrum | None = None,
    tolerance: float = 1e-4,
) -> None:
    """Assert that τᵀτ = I and, where a spectrum is given, that τ commutes with its eigenvalues (paper eq. 3).

    Each map counts by itself, and the worst one decides. Two numbers are measured of it: ‖τᵀτ − I‖ / √rank, and how
    far it mixes eigenspaces: the norm of its entries, relative to ‖τ‖, with entry (i, j) weighted by
    |λᵢ − λⱼ| / max(|λᵢ|, |λⱼ|). The weight is 1 between 0 and any other eigenvalue, and 0 where `isometric_map` counts
    both as one with mask="exact". So two eigenspaces that are exchanged show beside any larger eigenvalue.

    Args:
        tau: maps in the eigenbasis.
        spectrum: whose eigenvalues they should commute with.
        tolerance: the largest number allowed.

    Raises:
        AssertionError: one of the two fails; the message says which, by how much, and for which of the maps.
        TypeError: maps that are not a tensor, or a spectrum that is not a `Spectrum`.
        ValueError: maps that are not square, or not of the spectrum's rank, or no maps at all.
        FloatingPointError: an eigenvalue that is NaN or infinite.
    """
    check_tensors(tau=(tau, "* rank rank"))
    if spectrum is not None:
        check_instance("spectrum", spectrum, Spectrum, "niso.Spectrum")
        check_tensors(tau=(tau, "* rank rank"), eigenvalues=(spectrum.eigenvalues, "rank"))
    if not tau.numel():
        raise ValueError(f"there is nothing to compare in {tuple(tau.shape)}")
    tau = tau.detach().double()
    rank = tau.shape[-1]
    error = tau.mT @ tau - torch.eye(rank, dtype=tau.dtype, device=tau.device)
    _check(_norm(error) / rank**0.5, tolerance, "relative norm of τᵀτ − I", "map")
    if spectrum is not None:
        mixed = _norm(_apart(spectrum.eigenvalues.detach()) * tau) / _norm(tau)
        _check(mixed, tolerance, "τΛ ≠ Λτ: mixing of eigenspaces", "map")


def _norm(maps: Float[Tensor, "*batch rank rank"]) -> Float[Tensor, "*batch"]:
    return torch.linalg.matrix_norm(maps)


def _apart(eigenvalues: Float[Tensor, " rank"]) -> Float64[Tensor, "rank rank"]:
    """How far eigenvalues are apart, relative to the larger one; 0 where both count as one."""
    space = torch.empty(len(eigenvalues), dtype=torch.long, device=eigenvalues.device)
    count = 0
    for indices in eigenvalue_blocks(eigenvalues):
        space[indices] = torch.arange(count, count + len(indices), device=space.device)[:, None]
        count += len(indices)
    values = eigenvalues.double()
    sizes = values.abs()
    apart = (values[:, None] - values).abs() / torch.maximum(sizes[:, None], sizes)
    return apart.where(space[:, None] != space, 0)


def _check(errors: Float64[Tensor, "*batch"], tolerance: float, name: str, what: str) -> None:
    """AssertionError where an error exceeds the tolerance; it names the worst one."""
    worst = errors.flatten().argmax()  # of NaN, where there is one
    error = float(errors.flatten()[worst])
    if not error <= tolerance:  # also where it is not a number
        place = [int(index) for index in torch.unravel_index(worst, errors.shape)]
        where = "" if not place else f" in {what} {place[0] if len(place) == 1 else tuple(place)}"
        raise AssertionError(f"{name} {error:.3g} exceeds {tolerance:g}{where}")
