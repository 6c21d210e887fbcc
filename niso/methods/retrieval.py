"""Retrieval: observations that are found by their transformed views, whatever T is.

Isometries leave the inner products of coefficients alone: they are compared first. From the nearest, maps are then
solved; that from the right one takes its coefficients to the query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_tensors
from niso.methods.method import Method
from niso.networks.invariants import inner_products

CANDIDATES = 20
"""Observations nearest by invariants, which are then compared by maps. Of validation patches of photographs, 50 find
no more: benchmarks/results/retrieval_validation.json."""
BATCH = 512
"""Maps solved at once."""
ALIKE = 0.01
"""Relative spread of an only number below which it tells no observations apart: all are then compared by maps."""
TOGETHER = 1e-3
"""How far correlations of features may be from 1 or −1 where they vary along one direction alone. Their cosines are 1
or −1 to rounding or, with a little noise, say how the noise lies and not what is near."""


def similarity(
    queries: Float[Tensor, "queries features"], gallery: Float[Tensor, "gallery features"]
) -> Float[Tensor, "queries gallery"]:
    """Cosines of features, centred and scaled by the gallery first; minus distances if they vary in one direction."""
    return _similarity_to(gallery)(queries)


def _similarity_to(gallery: Float[Tensor, "gallery features"]) -> Callable[[Tensor], Tensor]:
    """The same for any queries, so that a large gallery is scaled once."""
    mean, deviation = gallery.mean(0), gallery.std(0, correction=0)
    used = deviation > 1e-6 * gallery.abs().max().clamp_min(1e-30)

    def scaled(features: Tensor) -> Tensor:
        return ((features - mean) / deviation)[:, used]

    known = scaled(gallery)
    if _of_one_direction(known):
        exact = "donot_use_mm_for_euclid_dist"  # by products, that of an observation to itself is not zero
        return lambda queries: -torch.cdist(scaled(queries), known, compute_mode=exact)
    known = torch.nn.functional.normalize(known, dim=1)
    return lambda queries: torch.nn.functional.normalize(scaled(queries), dim=1) @ known.mT


def _of_one_direction(known: Float[Tensor, "gallery features"]) -> bool:
    """Whether features, centred and scaled, all say the same."""
    correlations = known.mT @ known[:, :1] / len(known)  # with the first
    return bool((correlations.abs() > 1 - TOGETHER).all())


def tells_apart(gallery: Float[Tensor, "gallery features"]) -> bool:
    """Whether features say which are alike. They do not where they are one number that hardly varies, as the energy of
    observations does that were standardised one by one."""
    mean, deviation = gallery.mean(0), gallery.std(0, correction=0)
    if deviation.norm() > ALIKE * mean.norm():
        return True
    used = deviation > 0
    return not _of_one_direction(((gallery - mean) / deviation)[:, used])


def scores(
    method: Method,
    queries: Float[Tensor, "queries rank channels"],
    gallery: Float[Tensor, "gallery rank channels"],
    candidates: int = CANDIDATES,
) -> Iterator[Float[Tensor, "some gallery"]]:
    """How near each of a gallery is to each query, some queries at a time.

    Args:
        queries, gallery: coefficients.
        candidates: how many, nearest by invariants, are compared by maps; all where invariants tell none apart. Their
            scores are `agreement` of coefficients that the map has transported and the query's, from −1 to 1; those
            of all others are below −1.

    Raises:
        ValueError: queries of another rank, or of other channels, than the gallery's.
    """
    check_tensors(gallery=(gallery, "gallery rank channels"), queries=(queries, "queries rank channels"))
    invariants = inner_products(gallery)
    near = _similarity_to(invariants)
    count = min(candidates, len(gallery)) if tells_apart(invariants) else len(gallery)
    for part in queries.split(max(1, BATCH // count)):
        found = near(inner_products(part))
        nearest = found.topk(count, dim=1).indices
        there, here = gallery[nearest.flatten()], part.repeat_interleave(count, dim=0)
        moved = method.solve(there, here) @ there
        agreed = agreement(moved, here).view(nearest.shape)
        yield (found - 3).scatter(1, nearest, agreed.to(found.dtype))


def agreement(
    first: Float[Tensor, "some rank channels"], second: Float[Tensor, "some rank channels"]
) -> Float[Tensor, " some"]:
    """2⟨a, b⟩ / (‖a‖² + ‖b‖²), which is 1 − ‖a − b‖² / (‖a‖² + ‖b‖²): 1 where both are the same, −1 where they are
    opposite, 0 where both are 0. Unlike a cosine it falls where norms differ, which no isometry changes."""
    a, b = first.flatten(1), second.flatten(1)
    largest = torch.maximum(a.abs().amax(1), b.abs().amax(1)).clamp_min(torch.finfo(a.dtype).tiny)[:, None]
    a, b = a / largest, b / largest  # squares of what is small would be 0
    energy = a.square().sum(1) + b.square().sum(1)
    return (2 * (a * b).sum(1) / energy.clamp_min(torch.finfo(a.dtype).tiny)).clamp(-1, 1)  # but for rounding
