"""Classification heads on what a method has learned: made, and trained while it stays as it is (paper §4.4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from niso.checks import described
from niso.collective import local_part, part_size
from niso.config import SPECTRAL
from niso.errors import InputError, counted, foreign
from niso.experiments.alone import CUT, TRIED, check_alone, seeded
from niso.experiments.experiment import Phase
from niso.linalg import matmul
from niso.messages import say
from niso.methods.config import ClassifierConfig
from niso.methods.heads import HEADS
from niso.methods.method import Batches, Method
from niso.networks import ClassificationObjective
from niso.results import Metric
from niso.training.loop import Sampler
from niso.training.mode import in_mode

ACCURACY_CHANCE = Metric("accuracy_chance", "share of the most frequent class among those that accuracies are of")
OF_FROZEN = {f"head.{name}": "the head is trained on frozen networks" for name in SPECTRAL}
"""Settings that the training of a head alone does not read, and why."""
INVARIANT = 1e-2
"""Share of the largest score by which an orthogonal map may change scores: rounding."""


@torch.no_grad()
def make_head(method: Method, config: ClassifierConfig, x: Shaped[Tensor, "batch ..."], classes: int) -> nn.Module:
    """An untrained classifier of what a method makes of observations like these, where they are."""
    method.model.eval()
    return method.head(config, method.head_features(x), classes).to(x.device)


def try_head(method: Method, config: ClassifierConfig, x: Shaped[Tensor, "batch ..."], classes: int) -> None:
    """Try a classifier of what an untrained method makes of some observations; the generator of the CPU, by which
    weights are drawn, stays as it is.

    Raises:
        InputError: batches of its training do not divide, see `part_size`; it cannot be made, gives something else than
            finite scores of each class, which depend on an observation alone and have gradients, changes its features,
            or has nothing to train.
    """
    part_size(config.head.batch_size, config.head.accumulation)
    x, kind = x[:TRIED], type(method)
    name = f"classifier {config.classifier}: {kind.head_of(config).__name__}"
    if kind.head is not Method.head:
        name = f"{kind.__name__}.head"
    fails = foreign(f"{name} does not classify features of this method")
    with fails, torch.random.fork_rng([]), method.precision(), in_mode(method.model, False):
        head = make_head(method, config, x, classes).eval()
        with torch.no_grad():
            features = method.head_features(x)
        before = features._version  # counts what is done in place
        scores, redrawn = (_scores(name, head, features, classes, seed) for seed in (0, 1))
        if features._version != before:
            raise InputError(f"{name} changes the features that it gets, which metrics need: let it make others")
        one = _scores(name, head, features[[0] * len(x)], classes)  # and itself in place of the others
        _scores(name, head, features[:1], classes)
        of_operator = method.head_of(config).of_operator
        invariant = _is_invariant(method, config)
        turned = _scores(name, head, _turned(features, of_operator), classes) if invariant else scores
    if not any(parameter.requires_grad for parameter in head.parameters()):
        raise InputError(f"{name} has no parameters to train: choose another classifier, or give it some")
    if not scores.requires_grad:
        raise InputError(f"{name} {CUT}")
    if features.isfinite().all() and not scores.isfinite().all():
        raise InputError(f"{name} gives scores that are not finite")
    check_alone(f"scores of {name}", scores[0], one[0], redrawn[0])
    if (change := (turned - scores).abs().max()) > INVARIANT * scores.abs().max():
        share = change / scores.abs().max()
        maps = "other signs of eigenfunctions" if of_operator else "orthogonal maps of features"
        say(f"! scores of {name} change by {share:.2g} under {maps}, which should leave them alone")


def _scores(
    name: str, head: nn.Module, features: Float[Tensor, "batch length channels"], classes: int, seed: int = 0
) -> Float[Tensor, "batch classes"]:
    """Scores by random numbers of a seed, with gradients; InputError where they are no such tensor."""
    with seeded(seed, features.device), torch.enable_grad():
        scores = head(features)
    shape = len(features), classes
    if not (isinstance(scores, Tensor) and scores.shape == shape and scores.is_floating_point()):
        raise InputError(f"{name} must give scores of {classes} classes, here {shape}, not {described(scores)}")
    if scores.device != features.device:
        raise InputError(f"{name} gives scores on {scores.device}, but its features are on {features.device}")
    return scores


def _is_invariant(method: Method, config: ClassifierConfig) -> bool:
    """Whether a head that is not niso's own should be left alone by orthogonal maps of what this method gives, or by
    those that commute with its operator."""
    kind = method.head_of(config)
    named = config.classifier in HEADS.foreign and kind is HEADS.find(config.classifier)
    own = type(method).head is not Method.head or method.augmented_head
    return named and not own and method.has_invariants


def _turned(
    features: Float[Tensor, "batch length channels"], of_operator: bool
) -> Float[Tensor, "batch length channels"]:
    """Features under a random orthogonal map, drawn by the generator of the CPU: `of_operator`, under one that commutes
    with every Λ, which changes the signs of half of the eigenfunctions."""
    length = features.shape[1]
    if of_operator:
        signs = 2.0 * (torch.randperm(length, device="cpu") % 2) - 1
        return features * signs.to(features)[:, None]
    q = torch.linalg.qr(torch.randn(length, length, device="cpu", dtype=features.dtype)).Q
    return matmul(q.to(features.device), features)


def frozen_phase(
    method: Method,
    head: nn.Module,
    config: ClassifierConfig,
    x: Shaped[Tensor, "batch ..."],
    labelled: Sampler,
    examples: Callable[[], Batches] | None,
    chosen: Callable[[int], Int[Tensor, " batch"]] | None = None,
) -> Phase:
    """The training of a head alone, on frozen networks, in full precision where a lower one is too coarse.

    Args:
        x: observations like those that are classified, the same in all processes.
        labelled: random (observations, labels), this process's part, which are encoded as they come.
        examples: all (observations, labels), batch by batch, from which batches are drawn instead where the head needs
            no augmentation: their features are computed once. None where that is more work, or they are never the same.
        chosen: this process's part of a step's batch of these, by their numbers; any of them by default.
    """
    method.read_finely(x)
    objective = partial(ClassificationObjective, method.model, head, smoothing=config.label_smoothing)
    if examples is None or method.augmented_head:
        return Phase("head", objective(method.head_features), labelled, config.head)

    @cache
    def encoded() -> tuple[Tensor, ...]:
        with torch.no_grad():
            parts = [(method.head_features(x), labels) for x, labels in examples()]
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def sample(step: int) -> tuple[Tensor, ...]:
        features, labels = encoded()
        index = chosen(step) if chosen else local_part(torch.randint(len(labels), (config.head.batch_size,)))
        index = index.to(labels.device, non_blocking=True)
        return features[index], labels[index]

    return Phase("head", objective(nn.Identity()), sample, config.head, prepare=encoded)


@torch.no_grad()
def classes_of(
    head: nn.Module,
    features: Float[Tensor, "batch length channels"],
    precision: Callable[[], AbstractContextManager[Any]],
) -> Int[Tensor, " batch"]:
    """The most probable classes by a trained classifier of features; errors as of `check_scores`.

    Args:
        precision: a context that puts networks in the precision of the run.
    """
    head.eval()
    with precision():
        return check_scores(head(features)).argmax(-1)


def check_scores(scores: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
    """Scores of a trained classifier, as they are.

    Raises:
        InputError: some are not finite: they say nothing, and the first class would seem to be the most probable.
    """
    if wrong := int((~scores.isfinite()).any(1).sum()):
        raise InputError(
            f"the classifier's scores are not finite for {wrong} of {counted(len(scores), 'observation')}: look at its "
            "head, or train it by a lower learning rate"
        )
    return scores


def accuracy_chance(labels: Int[Tensor, " observations"]) -> float:
    """The accuracy of one answer for all, the most frequent label: what `ACCURACY_CHANCE` is."""
    return labels.bincount().max().item() / len(labels)
