"""Metrics that runs report, one value for each example of a batch or for each eigenfunction; none needs gradients.

All raise TypeError for arguments that are not tensors, or not of the right kind of numbers, and ValueError for shapes
that do not fit.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from niso.checks import check_instance, check_mass, check_number, check_tensors
from niso.linalg import full_precision, orthonormal
from niso.spectrum import Spectrum


@full_precision
def transport_error(
    moved: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    common: Float[Tensor, "*#batch rank #channels"] | None = None,
) -> Float[Tensor, " *batch"]:
    """`equivariance_error` from the product `moved` = τ a, where maps are too large to keep.

    Args:
        moved, b: coefficients that a map predicts, and those of the transformed observation.
        common: as in `equivariance_error`.

    Returns:
        One ratio for each pair; 0 is perfect.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    check_tensors(moved=(moved, "* rank channels"), b=(b, "* rank channels"))
    if common is not None:
        check_tensors(b=(b, "* rank channels"), common=(common, "* rank any"))
        if not torch.compiler.is_compiling() and not _fits(common.shape, b.shape):
            raise ValueError(
                f"common must have the shape of b, {tuple(b.shape)}, or 1 in places, not {tuple(common.shape)}"
            )
    target = b if common is None else b - common
    return _relative(moved - b, target)


def _relative(error: Float[Tensor, "*batch n m"], target: Float[Tensor, "*batch n m"]) -> Float[Tensor, " *batch"]:
    """‖error‖² / ‖target‖² of any size: first, both are divided by a power of two, which rounds nothing."""
    largest = target.detach().abs().amax((-2, -1), keepdim=True).clamp_min(4 * torch.finfo(target.dtype).tiny)
    scale = largest / 2 / torch.frexp(largest).mantissa  # squares might under- or overflow
    return (error / scale).square().sum((-2, -1)) / (target / scale).square().sum((-2, -1))


def _fits(shape: torch.Size, wanted: torch.Size) -> bool:
    """Whether a tensor of a shape broadcasts to another shape."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(size in (1, other) for size, other in pairs)


@full_precision
def equivariance_error(
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    tau: Float[Tensor, "*batch rank rank"],
    common: Float[Tensor, "*#batch rank #channels"] | None = None,
) -> Float[Tensor, " *batch"]:
    """Relative squared error ‖τ a − b‖² / ‖b‖² of each pair (paper, equivariance errors); not finite where b is 0.

    Where τ was solved from the same pair, a method whose maps fit any pair scores well whether or not it is
    equivariant: report `relative_map_error` with it.

    Args:
        a, b: coefficients of an observation and of the transformed one.
        tau: maps from a to b.
        common: coefficients of what all observations have in common. ‖b − common‖² then replaces ‖b‖² and gives
            the *centred* error, which a constant offset of the latents cannot make smaller.

    Returns:
        One ratio for each pair; 0 is perfect.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    check_tensors(a=(a, "* rank channels"), b=(b, "* rank channels"), tau=(tau, "* rank rank"))
    return transport_error(tau @ a, b, common)


def relative_map_error(
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    tau_other: Float[Tensor, "*batch rank rank"],
    common: Float[Tensor, "*#batch rank #channels"] | None = None,
) -> Float[Tensor, " *batch"]:
    """`equivariance_error` of a pair under the map of another observation: whether τ depends on T alone.

    Args:
        a, b: coefficients of ψ and Tψ, from which `tau_other` was not solved.
        tau_other: maps solved from other observations under the same transformations T.
        common: as in `equivariance_error`.

    Returns:
        One ratio for each pair; 0 is perfect.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    return equivariance_error(a, b, tau=tau_other, common=common)


@full_precision
def composition_error(
    map_ab: Float[Tensor, "*batch rank rank"],
    map_bc: Float[Tensor, "*batch rank rank"],
    map_ac: Float[Tensor, "*batch rank rank"],
) -> Float[Tensor, " *batch"]:
    """‖τ_ac − τ_bc τ_ab‖² / ‖τ_ac‖² of the maps between three observations; not finite where τ_ac is 0.

    Args:
        map_ab, map_bc, map_ac: maps from the first observation to the second, from that to the third, and from the
            first to the third.

    Returns:
        An error for each.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    check_tensors(map_ab=(map_ab, "* k k"), map_bc=(map_bc, "* k k"), map_ac=(map_ac, "* k k"))
    return _relative(map_ac - map_bc @ map_ab, map_ac)


def eigenspace_energy(
    mass: Float[Tensor, " points"],
    eigenfunctions: Float[Tensor, "points rank"],
    true_functions: Float[Tensor, "points true"],
    true_spaces: Int[Tensor, " true"],
) -> Float[Tensor, "rank spaces"]:
    """Share of every learned eigenfunction's energy in each true invariant subspace, in the M-inner product.

    The share is the energy of the eigenfunction's M-orthogonal projection onto the subspace. The shares of an
    eigenfunction add up to 1 where the subspaces are complete and M-orthogonal to one another.

    Args:
        mass: diagonal of M.
        eigenfunctions: learned eigenfunctions, in the columns.
        true_functions: bases of all true subspaces, in the columns.
        true_spaces: number (0, 1, …) of the subspace of each column of `true_functions`.

    Returns:
        Shares in [0, 1]: a row for each eigenfunction, a column for each subspace.

    Raises:
        TypeError: not tensors of the right kind of numbers.
        ValueError: shapes that do not fit, a mass that is not positive and finite, no true function at all, or linearly
            dependent ones in one subspace.
    """
    check_tensors(
        mass=(mass, "points"),
        eigenfunctions=(eigenfunctions, "points rank"),
        true_functions=(true_functions, "points true"),
    )
    check_mass(mass)
    check_tensors("integers", {"true": true_functions.shape[1]}, true_spaces=(true_spaces, "true"))
    if not len(true_spaces):
        raise ValueError("there are no true functions: give at least one")
    if (true_spaces < 0).any():
        raise ValueError("subspaces are numbered from 0 on")
    root = mass.double().sqrt()[:, None]
    phi, truth = root * eigenfunctions.double(), root * true_functions.double()
    total = phi.square().sum(0)
    shares = []
    for space in range(int(true_spaces.max()) + 1):
        h = orthonormal(truth[:, true_spaces == space])
        shares.append((h.mT @ phi).square().sum(0) / total)
    return torch.stack(shares, dim=-1)


def block_energy(
    tau: Float[Tensor, "*batch rank rank"], spaces: Int[Tensor, " rank"]
) -> tuple[Float[Tensor, " *batch"], Float[Tensor, " *batch"]]:
    """Share of ‖τ‖² between eigenfunctions of the same subspace, and the share that chance would give.

    Args:
        tau: maps in the eigenbasis.
        spaces: subspace of each eigenfunction, see `matched_spaces`.

    Returns:
        The share, and its expectation for labels `spaces` permuted at random, in closed form: the diagonal always
        counts, any other entry counts with the probability that two eigenfunctions have the same label.

    Raises:
        TypeError: not tensors of the right kind of numbers.
        ValueError: shapes that do not fit.
    """
    check_tensors(tau=(tau, "* rank rank"))
    check_tensors("integers", {"rank": tau.shape[-1]}, spaces=(spaces, "rank"))
    energy = tau.double().square()
    total = energy.sum((-2, -1))
    same = spaces[:, None] == spaces[None, :]
    share = (energy * same).sum((-2, -1)) / total
    rank = len(spaces)
    probability = (same.sum() - rank) / max(rank * (rank - 1), 1)
    diagonal = energy.diagonal(dim1=-2, dim2=-1).sum(-1) / total
    return share, diagonal + probability * (1 - diagonal)


def constant_part(
    spectrum: Spectrum, z: Float[Tensor, "*batch points channels"]
) -> Float[Tensor, "*batch rank channels"]:
    """Coefficients of each function's mean in the M-inner product, for `equivariance_error(common=…)`.

    Args:
        spectrum: with its mass and eigenfunctions.
        z: latent functions.

    Returns:
        Coefficients of functions that are constant.

    Raises:
        TypeError: not a spectrum, or not tensors of floating-point numbers.
        ValueError: shapes that do not fit.
    """
    check_instance("spectrum", spectrum, Spectrum, "niso.Spectrum")
    check_tensors(sizes={"points": len(spectrum.mass)}, z=(z, "* points channels"))
    weight = spectrum.mass / spectrum.mass.sum()
    mean = (weight[:, None] * z).sum(-2, keepdim=True)
    return spectrum.project(torch.ones_like(z[..., :1])) * mean


def matched_spaces(energy: Float[Tensor, "rank spaces"], dimensions: Int[Tensor, " spaces"]) -> Int[Tensor, " rank"]:
    """Assignment of every eigenfunction to a true subspace that has the largest total energy.

    No subspace gets more eigenfunctions than its dimension; where there are fewer eigenfunctions than dimensions,
    some subspaces get fewer or none.

    Args:
        energy: shares from `eigenspace_energy`.
        dimensions: dimension of each true subspace.

    Returns:
        Number of the subspace of each eigenfunction.

    Raises:
        TypeError: not tensors of the right kind of numbers.
        ValueError: a negative dimension, or there are more eigenfunctions than the dimensions add up to.
    """
    from scipy.optimize import linear_sum_assignment

    check_tensors(energy=(energy, "rank spaces"))
    check_tensors("integers", {"spaces": energy.shape[1]}, dimensions=(dimensions, "spaces"))
    if (dimensions < 0).any():
        raise ValueError(f"dimensions must not be negative, got {dimensions.tolist()}")
    device, energy, dimensions = energy.device, energy.detach().double().cpu(), dimensions.cpu()
    places = torch.arange(len(dimensions), device="cpu").repeat_interleave(dimensions)
    if len(energy) > len(places):
        raise ValueError(f"{len(energy)} eigenfunctions do not fit into subspaces of {len(places)} dimensions")
    _, place = linear_sum_assignment(energy[:, places].numpy(), maximize=True)
    return places[torch.from_numpy(place)].to(device)


def clusters(eigenvalues: Float[Tensor, " rank"], gap: float = math.log(2)) -> Int[Tensor, " rank"]:
    """Cluster (0, 1, … in ascending order) of every eigenvalue.

    Neighbours at most `gap` apart are in the same cluster. By default, these have an entry of P_Λ of at least ½.

    Args:
        eigenvalues: diagonal of Λ, in any order.
        gap: the largest distance between neighbours of one cluster.

    Returns:
        Number of the cluster of each eigenvalue.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: eigenvalues that are not (rank,), or not finite; a negative gap.
    """
    check_tensors(eigenvalues=(eigenvalues, "rank"))
    check_number("gap", gap)
    if not eigenvalues.isfinite().all():
        raise ValueError("eigenvalues must be finite")
    values, order = eigenvalues.sort()
    return (values.diff(prepend=values[:1]) > gap).long().cumsum(0)[order.argsort()]


def is_cluster(labels: Int[Tensor, " rank"], members: Bool[Tensor, " rank"]) -> bool:
    """Whether exactly the eigenvalues `members` form one cluster.

    Args:
        labels: clusters from `clusters`.
        members: mask of the eigenvalues in question.

    Returns:
        Whether they are all of one cluster, and no others are in it.

    Raises:
        TypeError: not tensors of whole numbers and of booleans.
        ValueError: shapes that do not fit.
    """
    check_tensors("integers", labels=(labels, "rank"))
    check_tensors("booleans", {"rank": len(labels)}, members=(members, "rank"))
    inside = labels[members]
    return len(inside) > 0 and bool((inside == inside[0]).all() and (labels == inside[0]).sum() == len(inside))


def principal_angles(
    mass: Float[Tensor, " points"],
    eigenfunctions: Float[Tensor, "points some"],
    true_functions: Float[Tensor, "points others"],
) -> Float[Tensor, " angles"]:
    """Principal angles between the spans of two sets of functions in the M-inner product, in radians, ascending.

    There are as many angles as the smaller set has functions. Small angles are as accurate as large ones.

    Args:
        mass: diagonal of M.
        eigenfunctions, true_functions: the two sets, in the columns.

    Returns:
        Angles in [0, π/2].

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, a mass that is not positive and finite, or functions that are linearly
            dependent.

    Source: Björck and Golub 1973.
    """
    check_tensors(
        mass=(mass, "points"),
        eigenfunctions=(eigenfunctions, "points some"),
        true_functions=(true_functions, "points others"),
    )
    check_mass(mass)
    root = mass.double().sqrt()[:, None]
    first, second = (orthonormal(root * part.double()) for part in (eigenfunctions, true_functions))
    if first.shape[1] > second.shape[1]:
        first, second = second, first
    cosines = torch.linalg.svdvals(second.mT @ first).clamp(max=1)
    sines = torch.linalg.svdvals(first - second @ (second.mT @ first)).clamp(max=1).flip(0)
    return torch.where(cosines.square() < 0.5, cosines.acos(), sines.asin())
