"""The terms of the Neural Isometries objective (paper eq. 9–11), and terms that are not in the paper, each named so.

The paper leaves the norms open. The released code takes mean absolute errors, "l1"; "l2" is the mean square.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from niso.checks import Scalar, check_choice, check_number, check_tensor, check_tensors, choices_of, described
from niso.collective import global_batch
from niso.functional_map import soft_mask
from niso.linalg import full_precision, matmul

Direction = Literal["both", "forward"]
"""Directions of the equivariance loss: a → b and back, or a → b alone."""

Norm = Literal["l1", "l2"]
"""Mean absolute error, or mean square error."""

DIRECTIONS, NORMS = choices_of(Direction), choices_of(Norm)

FAINTEST = 1e-4
"""Least size of an eigenfunction's coefficients, relative to the mean, at which a whitened loss counts it in full; and
least spread of latents or invariants, relative to their size, that a loss divides by. What is smaller may be rounding.
"""


def _mean_error(error: Tensor, norm: Norm) -> Tensor:
    check_choice("norm", norm, NORMS)
    if not error.numel():
        raise ValueError(f"there is nothing to take a mean over: {tuple(error.shape)} is empty")
    if norm == "l1" or error.is_complex():  # a complex number has a complex square
        error = error.abs()
    return (error if norm == "l1" else error.square()).mean()


def _spread(latents: Float[Tensor, "global rank channels"], norm: Norm) -> Float[Tensor, ""]:
    """Mean distance of latents from their mean, or `FAINTEST` of their size where they are nearly the same: to divide
    by rounding would give a loss of 1e31 on one pair that no T has changed."""
    least = _mean_error(FAINTEST * latents.detach(), norm).clamp_min(torch.finfo(latents.dtype).tiny)
    return _mean_error(latents - latents.mean(0), norm).maximum(least)


def _invariants(
    a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
) -> Float[Tensor, "2 global size"]:
    """Entries of aᵀa and bᵀb of the global batch."""
    views = torch.stack([matmul(a.mT, a), matmul(b.mT, b)], dim=1).flatten(2)
    return global_batch(views).transpose(0, 1)


def _unit_vectors(
    vectors: Float[Tensor, "... size"], before: Float[Tensor, "... size"] | None = None
) -> Float[Tensor, "... size"]:
    """Unit vectors; 0 for those that are far smaller than the others.

    Args:
        before: the same before they were centred. What is left of them is divided by `FAINTEST` of their mean length
            where it is shorter: it may be rounding.
    """
    size = vectors.detach().square().mean().sqrt().clamp_min(torch.finfo(vectors.dtype).tiny)
    size = size.where(size.isfinite(), vectors.detach().abs().amax())  # squares of finite numbers may overflow
    scaled = vectors / size
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True).clamp_min(1e-12)
    if before is not None:
        length = length.maximum(FAINTEST * torch.linalg.vector_norm(before.detach() / size, dim=-1).mean())
    return scaled / length


@full_precision
def equivariance(
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    tau: Float[Tensor, "*batch rank rank"],
    directions: Direction = "both",
    norm: Norm = "l1",
    relative: bool = False,
    whitened: bool = False,
) -> Float[Tensor, ""]:
    """Equivariance loss |τ a − b|, plus |τᵀ b − a| for "both" directions, each a mean over entries.

    The paper's eq. 9 has the first term alone; the released code has both.

    Args:
        a, b: coefficients of an observation and of the transformed one.
        tau: maps from a to b.
        relative: divide by the mean distance of the latents from their mean over the batch (not in the paper), or by
            `FAINTEST` of their size where they are nearly the same. Where the decoder starts with a normalisation,
            latents can otherwise shrink or draw together until this loss has no weight.
        whitened: weigh each eigenfunction by one over the mean size of its coefficients in the batch, so that weak
            ones count as much as strong ones (not in the paper). Eigenfunctions of high frequency are weak in natural
            images, and their errors otherwise drown. Sizes below `FAINTEST` of their mean, which may be rounding, count
            as if they were that. The weights pass no gradient.
        directions: both maps, or the one from a to b alone.
        norm: mean absolute or mean square error.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, or unknown directions or norm.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"), tau=(tau, "* rank rank"))
    check_choice("directions", directions, DIRECTIONS)
    return transport(a, b, tau @ a, tau.mT @ b if directions == "both" else None, norm, relative, whitened)


@full_precision
def transport(
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    forward: Float[Tensor, "*batch rank channels"],
    backward: Float[Tensor, "*batch rank channels"] | None = None,
    norm: Norm = "l1",
    relative: bool = False,
    whitened: bool = False,
) -> Float[Tensor, ""]:
    """`equivariance` from the products `forward` = τ a and `backward` = τᵀ b, which a model needs anyway.

    With `relative` or `whitened`, and several processes, this is a collective operation: all processes must call it.

    Args:
        a, b: coefficients of an observation and of the transformed one.
        forward, backward: τ a, and τᵀ b for both directions.
        norm: mean absolute or mean square error.
        relative, whitened: as in `equivariance`.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, or an unknown norm.

    Source: paper eq. 9 is the error of `forward` alone, as in `equivariance`.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"), forward=(forward, "* rank channels"))
    if backward is not None:
        check_tensors(a=(a, "* rank channels"), backward=(backward, "* rank channels"))
    errors = [forward - b] if backward is None else [forward - b, backward - a]
    if relative or whitened:
        views = torch.stack(torch.broadcast_tensors(a, b)).flatten(0, -3)
        if views.requires_grad:  # sizes are those of the global batch
            views = global_batch(views)
        if whitened:
            size = views.detach().abs().mean((0, 2))
            floor = (FAINTEST * size.mean()).clamp_min(torch.finfo(size.dtype).tiny)
            weights = (size.mean() / size.maximum(floor))[:, None]
            errors, views = [weights * error for error in errors], weights * views
    error = torch.stack([_mean_error(part, norm) for part in errors]).sum()
    return error / _spread(views, norm) if relative else error


@full_precision
def reconstruction(
    prediction: Shaped[Tensor, "*p"], target: Shaped[Tensor, "*t"], norm: Norm = "l1"
) -> Shaped[Tensor, ""]:
    """Reconstruction loss |D(τ E(ψ)) − Tψ| in one direction (one half of paper eq. 10), a mean over entries.

    Args:
        prediction: D(τ E(ψ)), of any shape.
        target: Tψ.
        norm: mean absolute or mean square error.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors, a prediction that holds no floating-point or complex numbers, or a target of booleans.
        ValueError: the shapes differ (they would broadcast), or the norm is unknown.
    """
    check_tensor("prediction", prediction)
    check_tensor("target", target)
    if not (prediction.is_floating_point() or prediction.is_complex()):
        raise TypeError(f"prediction must hold floating-point numbers, not {described(prediction)}")
    if target.dtype == torch.bool:
        raise TypeError(f"target must hold numbers, not {described(target)}: take target.float()")
    if prediction.shape != target.shape:
        raise ValueError(f"prediction {tuple(prediction.shape)} and target {tuple(target.shape)} differ in shape")
    return _mean_error(prediction - target, norm)


@full_precision
def multiplicity(eigenvalues: Float[Tensor, " rank"]) -> Float[Tensor, ""]:
    """Multiplicity loss ‖Δ_P‖ / k for the graph Laplacian Δ_P = diag(P1) − P of the eigenvalue mask.

    It is √(k − 1) for a fully degenerate spectrum and 1e-4 / k for a spectrum whose eigenvalues lie far apart.
    The Frobenius norm, the division by k and the 1e-8 under the root, which keeps the gradient at 0 finite, are those
    of the released code.

    Args:
        eigenvalues: diagonal of Λ, in any order.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not a tensor of floating-point numbers.
        ValueError: eigenvalues that are not (rank,).

    Source: paper §4.2 and eq. 22.
    """
    check_tensors(eigenvalues=(eigenvalues, "rank"))
    mask = soft_mask(eigenvalues)
    laplacian = torch.diag(mask.sum(-1)) - mask
    return (laplacian.square().sum() + 1e-8).sqrt() / len(eigenvalues)


@full_precision
def contrastive(
    a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"], temperature: float = 0.1
) -> Float[Tensor, ""]:
    """InfoNCE loss between the invariants aᵀa and bᵀb: each must single out its partner in the batch.

    An orthogonal map does not change the inner products aᵀa of the channels. They are centred by their mean over the
    batch and compared by their cosine; where they differ from the mean by less than `FAINTEST` of their length, which
    may be rounding, cosines are as much smaller. The loss is the mean of both directions; it is log(batch) where the
    invariants carry no information, and 0 for a batch of one. With several processes this is a collective operation
    over the global batch: all processes must call it.

    In the pair regime the other losses allow τ to carry all that an observation shows, with the same invariants for
    every observation. This loss asks for invariants that identify the observation and do not change under T.

    Args:
        a, b: coefficients of the observations and of the transformed ones.
        temperature: divisor of the cosines.

    Returns:
        The loss, a scalar; log(batch) where invariants carry nothing.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, no observation, or a temperature that is not positive.

    Source: not in the paper; the loss is that of van den Oord et al. 2018 and Chen et al. 2020.
    """
    check_tensors(a=(a, "batch rank channels"), b=(b, "batch rank channels"))
    check_number("temperature", temperature, positive=True)
    if not len(a):
        raise ValueError("a and b need at least one observation")
    views = _invariants(a, b)
    first, second = _unit_vectors(views - views.mean((0, 1)), views)
    scores = matmul(first, second.mT) / temperature
    partner = torch.arange(len(first), device=a.device)
    entropy = torch.nn.functional.cross_entropy
    return (entropy(scores, partner) + entropy(scores.mT, partner)) / 2


@full_precision
def vicreg(
    a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"], spread: float = 0.3
) -> Float[Tensor, ""]:
    """Variance, invariance and covariance of the invariants aᵀa and bᵀb: they must vary, agree, and vary in many ways.

    G = aᵀa / ‖aᵀa‖ is taken without its mean over the batch of n, those of a and of b each without their own, so that a
    shift of all of b's alike costs nothing; C is its covariance. The loss is

        max(0, 1 − √tr C / spread) + mean ‖G_a − G_b‖² / (2 tr C) + log((n − 1) tr C² / (tr C)²).

    The last term is 0 where G varies equally in n − 1 directions, and log(n − 1) where it varies in one. C is that of
    a and of b, their mean. No two observations are compared but ψ and Tψ. With several processes this is a collective
    operation over the global batch: all processes must call it.

    Args:
        a, b: coefficients of observations and of the transformed ones, at least three in all processes together, of two
            channels or more: of one, G is 1.
        spread: standard deviation of G, relative to its norm of 1, below which the first term acts; never above 1.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, fewer than three observations, a single channel, or a spread that is not
            positive.

    Source: not in the paper; Bardes et al. 2022 (VICReg), with the effective number of directions in place of the sum
    of squared covariances, so that no weight depends on the number of channels.
    """
    check_tensors(a=(a, "batch rank channels"), b=(b, "batch rank channels"))
    check_number("spread", spread, positive=True)
    if a.shape[-1] < 2:
        raise ValueError("invariants of a single channel cannot vary but in size: vicreg needs two channels or more")
    views = _invariants(a, b)
    if (count := views.shape[1]) < 3:
        raise ValueError(f"a and b need at least 3 observations, got {count}")
    views = _unit_vectors(views)
    views = views - views.mean(1, keepdim=True)
    among = matmul(views, views.mT) / (count - 1)  # n × n: it has the non-zero eigenvalues of C
    total = among.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-12)  # of unit vectors: what rounding leaves
    even = total.square() / (count - 1)  # the least that tr C² can be
    deviation = (1 - total.sqrt() / spread).clamp_min(0).mean()
    invariance = (views[0] - views[1]).square().sum(1).mean() / total.sum()
    directions = (among.square().sum((1, 2)).maximum(even) / even).log().mean()
    return deviation + invariance + directions


@full_precision
def completion(
    seen: Float[Tensor, "*batch n rank channels"], whole: Float[Tensor, "*batch n rank channels"], norm: Norm = "l1"
) -> Float[Tensor, ""]:
    """|a′ − a| of coefficients a′ of covered observations, relative to the spread of those of whole ones, a.

    With several processes this is a collective operation: all processes must call it.

    Args:
        seen: coefficients of covered observations, two or more.
        whole: those of the same without a cover.
        norm: mean absolute or mean square error.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, fewer than two observations, or an unknown norm.

    Source: not in the paper.
    """
    check_tensors(seen=(seen, "* rank channels"), whole=(whole, "* rank channels"))
    if seen.shape != whole.shape:
        raise ValueError(f"seen {tuple(seen.shape)} and whole {tuple(whole.shape)} differ in shape")
    views = global_batch(whole[None].flatten(0, -3))  # one observation may have no axis of a batch
    if len(views) < 2:
        raise ValueError(f"seen and whole need at least 2 observations, got {len(views)}")
    return _mean_error(seen - whole, norm) / _spread(views, norm)


@full_precision
def visibility(logits: Float[Tensor, "*batch"], seen: Bool[Tensor, "*batch"]) -> Float[Tensor, ""]:
    """Mean cross-entropy of predictions, as logits, of which pixels are seen (not in the paper).

    Args:
        logits: predictions.
        seen: the truth.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers and booleans.
        ValueError: the shapes differ, or are empty.
    """
    check_tensor("logits", logits, "floating-point numbers")
    check_tensor("seen", seen, "booleans")
    if logits.shape != seen.shape or not seen.numel():
        raise ValueError(f"logits and seen must be of one shape, not {tuple(logits.shape)} and {tuple(seen.shape)}")
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, seen.to(logits.dtype))


@full_precision
def composition(
    map_ab: Float[Tensor, "*batch rank rank"],
    map_bc: Float[Tensor, "*batch rank rank"],
    map_ac: Float[Tensor, "*batch rank rank"],
) -> Float[Tensor, ""]:
    """Mean of ‖τ_ac − τ_bc τ_ab‖² / k, which is 0 where maps of size k compose as transformations do, and at most 4
    where they are orthogonal.

    Args:
        map_ab, map_bc, map_ac: maps from the first observation to the second, from that to the third, and from the
            first to the third.

    Returns:
        The loss, a scalar.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, or no maps.

    Source: not in the paper.
    """
    check_tensors(map_ab=(map_ab, "* k k"), map_bc=(map_bc, "* k k"), map_ac=(map_ac, "* k k"))
    error = map_ac - matmul(map_bc, map_ab)
    return error.shape[-1] * _mean_error(error, "l2")


def decayed(weight: float, factor: float, progress: Scalar, share: float = 0.3) -> Scalar:
    """A weight after the share `progress` of training: over the last `share` it decays geometrically by `factor`.

    Args:
        weight: before the decay.
        factor: what it is multiplied with in the end.
        progress: share of the training that is done, 0 … 1, not its steps. Where the weight does not change it is not
            looked at.
        share: of the training in which it decays, its end.

    Returns:
        The weight now.

    Raises:
        TypeError: a factor or progress that is not a number.
        ValueError: a negative factor, or a progress outside [0, 1]; of a tensor on a CPU, but not in compiled code.

    Source: not in the paper.
    """
    if factor == 1 or not weight:  # compiled code then does not depend on the progress
        return weight
    check_number("factor", factor)
    check_number("progress, the share of training,", progress, most=1.0 + 1e-6)  # but for rounding
    late = progress - (1 - share)
    return weight * factor ** (late * (late > 0) / max(share, 1e-9))
