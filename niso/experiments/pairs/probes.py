"""What features are worth: simple classifiers on features of labelled observations, clean and transformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.methods.method import Batches, Method
from niso.networks.invariants import inner_products

NEIGHBOURS = 5


class Features(NamedTuple):
    """What a method makes of labelled observations.

    Attributes:
        head: what its own head gets: coefficients, where it has maps.
        latents: the encoder's, flat.
    """

    head: Float[Tensor, "observations length channels"]
    latents: Float[Tensor, "observations features"]
    labels: Int[Tensor, " observations"]


def features_of(method: Method, batches: Batches) -> Features | None:
    """Features of labelled observations; None where there are none."""
    parts = [(method.head_features(x), method.latents(x).flatten(1), labels) for x, labels in batches]
    return Features(*(torch.cat(column) for column in zip(*parts, strict=True))) if parts else None


def probes(sets: Mapping[str, Features], invariants: bool) -> dict[str, float]:
    """Accuracies of probes of the invariants, where maps are isometries, and of the latents.

    Args:
        sets: "train", which probes are fitted to, and what they are tested on.
    """
    kinds: dict[str, Callable[[Features], Tensor]] = {"_latents": lambda features: features.latents}
    if invariants:
        kinds = {"": lambda features: inner_products(features.head), **kinds}
    values: dict[str, float] = {}
    for kind, of in kinds.items():
        known = {name: (of(features), features.labels) for name, features in sets.items()}
        scores = probe(known.pop("train"), known)
        values |= {f"{name}{kind}{test}": score for name, tests in scores.items() for test, score in tests.items()}
    return values


def probe(
    train: tuple[Float[Tensor, "train features"], Int[Tensor, " train"]],
    tests: dict[str, tuple[Float[Tensor, "_test features"], Int[Tensor, " _test"]]],
) -> dict[str, dict[str, float]]:
    """Accuracies of a linear probe and of the nearest neighbours, by the names of the test sets.

    Features are centred and scaled by the training set. The linear probe is ridge regression on the classes, its
    penalty chosen by leave-one-out errors of the training set; the neighbours are 5, by Euclidean distance.
    """
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, labels = (part.cpu().double().numpy() for part in train)
    used = features.std(0) > 1e-9 * np.abs(features).max()  # others are rounding, which scaling would make large
    asked = {test: (of.cpu().double().numpy() * used, truth.cpu().numpy()) for test, (of, truth) in tests.items()}
    classifiers = {
        "linear": RidgeClassifierCV(np.logspace(-2, 4, 7)),
        "knn": KNeighborsClassifier(min(NEIGHBOURS, len(labels))),
    }
    scores: dict[str, dict[str, float]] = {}
    for name, classifier in classifiers.items():
        fitted = make_pipeline(StandardScaler(), classifier).fit(features * used, labels)
        scores[name] = {test: float(fitted.score(*of)) for test, of in asked.items()}
    return scores
