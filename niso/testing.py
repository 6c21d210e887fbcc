"""Assertions for tests of equivariant code, in this library and in yours; errors are computed in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from niso.checks import check_instance, check_tensor, check_tensors
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

    The default `act_out`, the identity, asserts invariance.

    Args:
        function: what is tested.
        x: its input, which stays as it is, also where one of the functions changes what it gets.
        act_in, act_out: the transformation of its inputs, and that of its outputs.
        tolerance: the largest relative error allowed.

    Raises:
        AssertionError: the relative error exceeds `tolerance` or is not a number; the message states it.
    """
    error = relative_error(function(act_in(x.clone())), act_out(function(x.clone())))
    _check(error, tolerance, "equivariance error")


def assert_isometry(
    tau: Float[Tensor, "*batch rank rank"],
    spectrum: Spectrum | None = None,
    tolerance: float = 1e-4,
) -> None:
    """Assert that τᵀτ = I and, where a spectrum is given, that τ commutes with its eigenvalues (paper eq. 3).

    Args:
        tau: maps in the eigenbasis.
        spectrum: whose eigenvalues they should commute with.
        tolerance: the largest relative error allowed.

    Raises:
        AssertionError: one of the two fails; the message says which, and by how much.
        TypeError: maps that are not a tensor, or a spectrum that is not a `Spectrum`.
        ValueError: maps that are not square, or not of the spectrum's rank.
    """
    check_tensors(tau=(tau, "* rank rank"))
    if spectrum is not None:
        check_instance("spectrum", spectrum, Spectrum, "niso.Spectrum")
        check_tensors(tau=(tau, "* rank rank"), eigenvalues=(spectrum.eigenvalues, "rank"))
    tau = tau.detach().double()
    identity = torch.eye(tau.shape[-1], dtype=tau.dtype, device=tau.device)
    error = relative_error(tau.mT @ tau, identity.expand_as(tau))
    _check(error, tolerance, "relative norm of τᵀτ − I")
    if spectrum is not None:
        eigenvalues = spectrum.eigenvalues.detach().double()
        commutator = tau * eigenvalues[..., None, :] - eigenvalues[..., :, None] * tau
        error = float(commutator.norm() / (tau * eigenvalues).norm().clamp_min(1e-30))
        _check(error, tolerance, "relative norm of τΛ − Λτ")


def _check(error: float, tolerance: float, name: str) -> None:
    if not error <= tolerance:  # also where it is not a number
        raise AssertionError(f"{name} {error:.3g} exceeds {tolerance:g}")
