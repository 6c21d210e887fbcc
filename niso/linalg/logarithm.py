"""The logarithm of rotations: maps as one-parameter groups, to be halved, repeated and averaged."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_tensors

TOLERANCE = 1e-3
"""Largest entry of τᵀτ − I of what counts as orthogonal: maps solved in float32 are so to 1e-5."""


@torch.no_grad()
def logarithm(tau: Float[Tensor, "*batch k k"]) -> Float[Tensor, "*batch k k"]:
    """The skew-symmetric W of least norm with exp(W) = τ, for rotations τ.

    `torch.matrix_exp(t * W)` is τ to the power t: with t = ½ half of the transformation, with t = 2 its repetition.
    What commutes with τ, as Λ does, commutes with its powers, unless τ turns a plane by half a circle: then there are
    several logarithms, and this is one.

    Args:
        tau: orthogonal matrices of determinant +1, as from `isometric_map(…, special=True)`.

    Returns:
        W, without a gradient. Its eigenvalues are ± i θ with angles θ in [0, π].

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: matrices that are not square or not orthogonal, or of determinant −1, which have no real logarithm.
        NotImplementedError: a call under a transformation of `torch.func`.
    """
    check_tensors(tau=(tau, "* k k"))
    if torch._C._are_functorch_transforms_active():
        raise NotImplementedError("logarithm cannot be taken under a transformation of torch.func: take it outside")
    matrices = tau.detach().cpu().double().resolve_neg().reshape(-1, *tau.shape[-2:])
    error = matrices.mT @ matrices - torch.eye(tau.shape[-1], dtype=torch.float64, device="cpu")
    if matrices.numel() and not float(error.abs().amax()) <= TOLERANCE:
        raise ValueError("logarithm needs orthogonal matrices: τᵀτ is not the identity")
    logarithms = [torch.from_numpy(_logarithm(matrix, number)) for number, matrix in enumerate(matrices.numpy())]
    return (torch.stack(logarithms) if logarithms else matrices).reshape(tau.shape).to(tau)


def _logarithm(matrix: np.ndarray, number: int) -> np.ndarray:
    """Of one matrix, by its real Schur form: of an orthogonal one it is block-diagonal, ±1 and rotations of a plane."""
    from scipy.linalg import schur  # slow to import

    form, vectors = schur(matrix, output="real")
    angles, place, reversed_ = np.zeros_like(form), 0, []
    while place < len(form):
        if place + 1 < len(form) and abs(form[place + 1, place]) > np.finfo(float).eps * len(form):
            (c, b), (a, d) = form[place : place + 2, place : place + 2]
            angles[place + 1, place] = np.arctan2((a - b) / 2, (c + d) / 2)
            place += 2
        else:
            reversed_ += [place] * bool(form[place, place] < 0)
            place += 1
    if len(reversed_) % 2:
        raise ValueError(
            f"logarithm: matrix {number} is a reflection (determinant −1), which has no real logarithm: "
            "solve maps with special=True"
        )
    for first, second in zip(reversed_[::2], reversed_[1::2], strict=True):  # together a half turn of their plane
        angles[second, first] = np.pi
    skew: np.ndarray = vectors @ (angles - angles.T) @ vectors.T
    return skew
