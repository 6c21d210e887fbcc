"""Retrieval: each held-out observation is looked for, by its transformed view, among all held-out observations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.data.evenly import evenly
from niso.experiments.pairs.metrics import RETRIEVAL
from niso.methods.method import Method
from niso.methods.retrieval import scores, similarity, tells_apart
from niso.networks.invariants import inner_products

MAPS = 100_000
"""Maps that are solved, at most, where each query is compared with the whole gallery by them: some seconds."""


class Retrieved(NamedTuple):
    """What was found.

    Attributes:
        mean_average_precision: mean over queries; one observation is right, so that it is the mean of 1 / rank.
        first: share of the queries whose nearest neighbour is right.
    """

    mean_average_precision: float
    first: float


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
    isometries, their invariants, and by these and the best maps.

    Args:
        batches: of observations ψ and Tψ; whatever follows is not looked at.
    """
    columns = list[tuple[Tensor, ...]]()
    for x, tx, *_ in batches:
        columns.append((x.flatten(1), tx.flatten(1), method.latents(x).flatten(1), method.latents(tx).flatten(1)))
        if method.has_invariants:
            columns[-1] += (method.encode(x), method.encode(tx))
    x, tx, *others = (torch.cat(column) for column in zip(*columns, strict=True))
    gallery, right = x.unique(dim=0, return_inverse=True)  # a picture may be there under several T
    first = torch.full((len(gallery),), len(x), device=x.device).scatter_reduce(
        0, right, torch.arange(len(x), device=x.device), "amin"
    )
    features = {"_raw": (x, tx), "_latents": tuple(others[:2])}
    coefficients = others[2:]
    if coefficients:
        features[""] = tuple(inner_products(part) for part in coefficients)
    found = {name: retrieved(similarity(there, here[first]), right) for name, (here, there) in features.items()}
    if coefficients:
        a, b = coefficients[0][first], coefficients[1]
        few = len(b) if tells_apart(inner_products(a)) else max(1, MAPS // len(a))
        some = evenly(few, len(b)).to(b.device)
        found["_matched"] = retrieved(torch.cat([*scores(method, b[some], a)]), right[some])
    return {
        f"retrieval_{which}{name}": value
        for name, of in found.items()
        for which, value in zip(RETRIEVAL, of, strict=True)
    } | {"retrieval_map_chance": chance(len(gallery))}
