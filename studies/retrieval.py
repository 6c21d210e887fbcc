"""Finding observations by their transformed views, with what runs of `niso run pairs` learned and by other means.

    python -m studies.retrieval --runs runs/photographs/*/ [--part validation]

Each held-out observation is looked for among all held-out ones of the first run, by its transformed view. Pictures are
also looked for by the descriptors SIFT and ORB of scikit-image, signals by the modulus of their Fourier transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import tyro
from torch import Tensor

import niso
from benchmarks.common import Named, table, write
from niso.experiments.pairs.experiment import Pairs
from niso.experiments.pairs.retrieval import Retrieved, retrieved
from niso.fitted import Fitted
from niso.methods.retrieval import CANDIDATES, scores, similarity
from niso.networks.invariants import inner_products

PARTS = 8
"""Soft parts of the spectrum, whose invariants are taken apart."""


@dataclass(frozen=True)
class Options(Named):
    """Options of the study of retrieval."""

    runs: tuple[str, ...] = ()
    """Run folders on the same data, one a method; the first one's pairs are taken."""
    part: Literal["test", "validation"] = "test"
    """Observations that are looked for: settings are chosen by those that validate."""
    count: int = 512
    """Transformed observations, at most."""
    candidates: tuple[int, ...] = (CANDIDATES,)
    """How many, nearest by invariants, are compared by maps."""
    sift: int = 2
    """Factor by which pictures are enlarged before SIFT looks for keypoints; of 1, 2 and 4 the best on validation."""
    orb: int = 4
    """The same for ORB."""


def parts_of(eigenvalues: Tensor) -> Tensor:
    """Weights (parts, rank) of coefficients: bumps around quantiles of the spectrum, of widths by its deviation."""
    middles = eigenvalues.quantile(torch.linspace(0, 1, PARTS))
    width = 2 * eigenvalues.std() / PARTS
    return torch.exp(-((eigenvalues - middles[:, None]) ** 2) / (4 * width**2))


def of_model(fitted: Fitted, x: Tensor, tx: Tensor, candidates: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    """Scores (queries, gallery) by what a model learned."""
    method, name = fitted.method, fitted.settings.method
    with torch.no_grad():
        latents = [torch.cat([method.latents(part).flatten(1) for part in view.split(256)]) for view in (tx, x)]
        yield f"{name}, latents", similarity(*latents)
        if not method.has_invariants:
            return
        a, b = (torch.cat([method.encode(part) for part in view.split(256)]) for view in (x, tx))
        yield f"{name}, invariants", similarity(*(inner_products(part) for part in (b, a)))
        if (spectrum := method.spectrum()) is not None:
            weights = parts_of(spectrum.eigenvalues)[:, :, None]
            apart = (torch.cat([inner_products(weight * part) for weight in weights], 1) for part in (b, a))
            yield f"{name}, invariants of {PARTS} parts of the spectrum", similarity(*apart)
        for count in candidates:
            found = torch.cat([*scores(method, b, a, count)])
            yield f"{name}, invariants, then the best map from the nearest {count}", found


def of_keypoints(make: Callable[[], object], enlarge: int, x: Tensor, tx: Tensor) -> Tensor:
    """Scores by descriptors of keypoints: the mean, over those of a query, of how near the nearest of a picture is."""
    from skimage.color import rgb2gray
    from skimage.transform import rescale

    def described(image: Tensor) -> np.ndarray:
        picture = rgb2gray((image.permute(1, 2, 0).numpy() + 1) / 2) if len(image) == 3 else image[0].numpy()
        extractor = make()
        try:
            extractor.detect_and_extract(rescale(picture, enlarge, order=3))  # type: ignore[attr-defined]
        except RuntimeError:  # there are no keypoints
            return np.empty((0, 1))
        found = np.asarray(extractor.descriptors, np.float32)  # type: ignore[attr-defined]
        found = 2 * found - 1 if extractor.descriptors.dtype == bool else found  # type: ignore[attr-defined]
        return found / np.linalg.norm(found, axis=1, keepdims=True).clip(1e-9)

    known = [described(image) for image in x]
    scores = torch.full((len(tx), len(x)), -1.0)
    if not any(map(len, known)):
        return scores
    there = [number for number, found in enumerate(known) if len(found)]
    starts = np.cumsum([0, *(len(known[number]) for number in there[:-1])])
    every = np.concatenate([known[number] for number in there])
    for query, image in enumerate(tx):
        if len(found := described(image)):
            best = np.maximum.reduceat(found @ every.T, starts, axis=1)
            scores[query, there] = torch.from_numpy(best.mean(0))
    return scores


def others(kind: str, options: Options, x: Tensor, tx: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Scores by what is not learned."""
    yield "values as they are", similarity(tx.flatten(1), x.flatten(1))
    if kind == "signals":
        yield (
            "modulus of the Fourier transform",
            similarity(*(torch.fft.rfft(v, dim=1).abs().flatten(1) for v in (tx, x))),
        )
    if kind == "images":
        from skimage.feature import ORB, SIFT

        yield "SIFT", of_keypoints(SIFT, options.sift, x, tx)
        yield "ORB", of_keypoints(lambda: ORB(n_keypoints=100, fast_threshold=0.02), options.orb, x, tx)


def main(options: Options) -> None:
    """Look for the observations by every means."""
    models = [niso.load(run) for run in options.runs]
    settings = models[0].settings
    torch.manual_seed(0)
    experiment = Pairs(settings.config, settings.method, settings.seed, settings.data_dir, torch.device("cpu"))
    x, tx, *_ = (torch.cat(column) for column in zip(*experiment.held_out(options.part), strict=True))
    x, tx = x[: options.count], tx[: options.count]
    x, right = x.unique(dim=0, return_inverse=True)
    found: dict[str, Retrieved] = {}
    for fitted in models:
        found |= {name: retrieved(scores, right) for name, scores in of_model(fitted, x, tx, options.candidates)}
    means = others(experiment.data.table.kind, options, x, tx)
    found |= {name: retrieved(scores, right) for name, scores in means}
    title = f"{len(tx)} transformed {experiment.data.table.kind} ({options.part}), looked for among {len(x)}"
    rows = [(name, of.mean_average_precision, of.first) for name, of in found.items()]
    table(title, ("by", "mean average precision", "nearest neighbour right"), rows)
    write("retrieval", options, {"results": {name: of._asdict() for name, of in found.items()}})


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
