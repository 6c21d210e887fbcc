"""Retrieval: each held-out observation is looked for, by its transformed view, among all held-out observations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.experiments.pairs.metrics import RETRIEVAL
from niso.methods.method import Method
from niso.networks.vector_neurons import inner_products


class Retrieved(NamedTuple):
    """What was found.

    Attributes:
        mean_average_precision: mean over queries; one observation is right, so that it is the mean of 1 / rank.
        first: share of the queries whose nearest neighbour is right.
    """

    mean_average_precision: float
    first: float


def similarity(
    queries: Float[Tensor, "queries features"], gallery: Float[Tensor, "gallery features"]
) -> Float[Tensor, "queries gallery"]:
    """Cosines of features, which are centred and scaled by the gallery first; of one alone, less the distance."""
    mean, deviation = gallery.mean(0), gallery.std(0, correction=0)
    used = deviation > 1e-6 * gallery.abs().max().clamp_min(1e-30)
    first, second = (((part - mean) / deviation)[:, used] for part in (queries, gallery))
    if used.sum() == 1:  # whose cosines are all 1 or −1
        return -(first - second.mT).abs()  # `torch.cdist` of many rows is less exact
    first, second = (torch.nn.functional.normalize(part, dim=1) for part in (first, second))
    return first @ second.mT


def retrieved(scores: Float[Tensor, "queries gallery"], right: Int[Tensor, " queries"]) -> Retrieved:
    """How well scores single out what is right; an entry of the gallery each.

    Ties count as in the mean over their orders, as do scores that are NaN.
    """
    own = scores.gather(1, right[:, None])
    before, last = (scores > own).sum(1), (~(scores < own)).sum(1)
    sums = (1 / torch.arange(1, scores.shape[1] + 1, dtype=torch.float64, device=scores.device)).cumsum(0)
    sums = torch.nn.functional.pad(sums, (1, 0))  # of 1 / rank, over the ranks up to one
    tied = (last - before).double()
    average = (sums[last] - sums[before]) / tied
    return Retrieved(average.mean().item(), ((before == 0) / tied).mean().item())


def chance(gallery: int) -> float:
    """Mean average precision of a gallery of this size in random order: the mean of 1 / rank."""
    return sum(1 / rank for rank in range(1, gallery + 1)) / gallery


def retrieval(method: Method, batches: Iterable[tuple[Tensor, ...]]) -> dict[str, float]:
    """How well observations are found by their transformed views: by their values, their latents and, where maps are
    isometries, their invariants.

    Args:
        batches: of observations ψ and Tψ; whatever follows is not looked at.
    """
    columns = list[tuple[Tensor, ...]]()
    for x, tx, *_ in batches:
        columns.append((x.flatten(1), tx.flatten(1), method.latents(x).flatten(1), method.latents(tx).flatten(1)))
        if method.has_invariants:
            columns[-1] += tuple(inner_products(method.encode(view)) for view in (x, tx))
    x, tx, *others = (torch.cat(column) for column in zip(*columns, strict=True))
    gallery, right = x.unique(dim=0, return_inverse=True)  # a picture may be there under several T
    first = torch.full((len(gallery),), len(x), device=x.device).scatter_reduce(
        0, right, torch.arange(len(x), device=x.device), "amin"
    )
    features = {"_raw": (x, tx), "_latents": others[:2], **({"": others[2:]} if method.has_invariants else {})}
    found = {name: retrieved(similarity(b, a[first]), right) for name, (a, b) in features.items()}
    return {
        f"retrieval_{which}{name}": value
        for name, of in found.items()
        for which, value in zip(RETRIEVAL, of, strict=True)
    } | {"retrieval_map_chance": chance(len(gallery))}
