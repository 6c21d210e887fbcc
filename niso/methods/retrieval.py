"""Retrieval: observations that are found by their transformed views, whatever T is.

Maps that commute with Ω leave the inner products of coefficients alone, also those within a part of the spectrum: they
are compared first. To the nearest, maps are then solved; that of the right one takes its coefficients to the query's.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from niso.methods.method import Method
from niso.networks.vector_neurons import inner_products

PARTS = 8
"""Soft parts of the spectrum, whose inner products are taken apart."""
AGAIN = 20
"""Observations nearest by invariants, which are then compared by maps."""
BATCH = 512
"""Maps solved at once."""


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


def parts_of(eigenvalues: Float[Tensor, " rank"]) -> Float[Tensor, "parts rank"]:
    """Weights of coefficients: bumps around the quantiles of the spectrum, two gaps wide."""
    middles = eigenvalues.quantile(torch.linspace(0, 1, PARTS, dtype=eigenvalues.dtype, device=eigenvalues.device))
    deviation = eigenvalues.std(correction=min(1, len(eigenvalues) - 1))
    width = (2 * deviation / PARTS).clamp_min(torch.finfo(eigenvalues.dtype).tiny ** 0.5)
    return torch.exp(-((eigenvalues - middles[:, None]) ** 2) / (4 * width**2))


def invariants(method: Method, a: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch features"]:
    """Inner products of coefficients within each part of the spectrum; of all where the method learns none."""
    spectrum = method.spectrum()
    if spectrum is None:
        return inner_products(a)
    weights = parts_of(spectrum.eigenvalues).to(a.dtype)
    return torch.cat([inner_products(weight[:, None] * a) for weight in weights], dim=1)


def scores(
    method: Method,
    queries: Float[Tensor, "queries rank channels"],
    gallery: Float[Tensor, "gallery rank channels"],
    again: int = AGAIN,
) -> Iterator[Float[Tensor, "some gallery"]]:
    """How near each of a gallery is to each query, some queries at a time.

    Args:
        queries, gallery: coefficients.
        again: how many, nearest by invariants, are compared by maps. Their scores are the cosines between coefficients
            that the map has transported and the query's, at most 1; those of all others are below −1. Where the method
            has no maps, scores are those by invariants, at most 1.
    """
    known = invariants(method, gallery)
    for part in queries.split(max(1, BATCH // min(again, len(gallery)))):
        found = similarity(invariants(method, part), known)
        if method.has_maps:
            nearest = found.topk(min(again, len(gallery)), dim=1).indices
            there, here = gallery[nearest.flatten()], part.repeat_interleave(nearest.shape[1], dim=0)
            moved = method.solve(there, here) @ there
            cosines = torch.cosine_similarity(moved.flatten(1), here.flatten(1), dim=1).view(nearest.shape)
            found = (found - 3).scatter(1, nearest, cosines.to(found.dtype))
        yield found
