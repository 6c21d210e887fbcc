"""A diagnosis in words: what held-out metrics say is wrong, by which threshold, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from niso.errors import some_of

Measured = Mapping[str, float]
NOTHING = 1e-5
"""Mean differences of values of order one that are no more than rounding."""
NEARLY = 0.01
"""Difference of the views of a pair, relative to that of observations, below which a transformation hardly shows."""


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: what might be wrong, in a few words.
        bad: whether it is; None where it could not be measured.
        measure: the metric and its value beside the threshold.
        remedy: what to do; empty where nothing is wrong.
    """

    name: str
    bad: bool | None
    measure: str
    remedy: str

    def __str__(self) -> str:
        sign = "?" if self.bad is None else "!" if self.bad else "✓"
        return f"{sign} {self.name}: {self.measure}{f' → {self.remedy}' if self.remedy else ''}"


class Remedy(NamedTuple):
    """One thing to do.

    Attributes:
        text: what.
        unless: settings of methods that do so already.
        needs: a setting that the method must read.
        option: a setting that the experiment must have.
    """

    text: str
    unless: frozenset[str] = frozenset()
    needs: str = ""
    option: str = ""

    def helps(self, reads: Collection[str], options: Collection[str]) -> bool:
        can = (not self.needs or self.needs in reads) and (not self.option or self.option in options)
        return can and self.unless.isdisjoint(reads)


class Check(NamedTuple):
    """A threshold.

    Attributes:
        good, bad: what is said where the value is within the threshold and where it is not.
        value: the measured number; None where it was not measured.
        limit: the threshold.
        above: whether values above the limit are bad; otherwise those below are.
        formula: what the value is.
        remedies: what to do.
    """

    good: str
    bad: str
    value: Callable[[Measured], float | None]
    limit: float
    above: bool
    formula: str
    remedies: tuple[Remedy, ...]


GROUPS = frozenset({"group"})
OF_INVARIANTS = frozenset({"contrastive", "vicreg"})
"""Weights of losses on the invariants."""
LIGHTER = Remedy("a smaller weight of the equivariance loss", needs="equivariance", option="equivariance")
TOLD = 0.9
"""Share of its accuracy (above chance) without transformations that a head keeps under them, where invariants are good
enough."""
KEPT_APART = 0.25
"""How far retrieval by invariants is on the way from chance to 1 where they are good enough."""
FEW = 0.25
"""Mean average precision at random, of about 13 observations, above which twice as much can be chance."""
ALIKE = 0.5
"""The same, of 4 observations that differ, above which all that they have in common says nothing."""
ROUGH = 20
"""Held-out observations below which metrics are rough."""
REVERSED = 90.0
"""Mean angle above which directions of travel are nearer to the opposite of the true ones, in degrees."""
RECOGNISED = ("head", "linear", "knn", "linear_latents", "knn_latents")
"""Accuracies of the user's labels, without transformations."""
HEADS = (("accuracy_clean", "accuracy"), ("accuracy_base", "accuracy"), ("head", "head_transformed"))
"""Accuracies of heads without transformations and under them, in the experiments that have both."""


def _ratio(over: str, under: str) -> Callable[[Measured], float | None]:
    return lambda m: m[over] / max(m[under], 1e-12) if over in m and under in m else None


def _trained_on(m: Measured) -> float | None:
    """Error of held-out pairs relative to that of pairs trained on; None where both are no more than rounding."""
    ratio = _ratio("reconstruction_error", "reconstruction_error_train")(m)
    return None if ratio is not None and m["reconstruction_error"] < NOTHING else ratio


def _found(m: Measured) -> float | None:
    """How much better than at random observations are found by their transformed views, by whatever finds them best;
    None where there are so few that chance would find them."""
    chance = m.get("retrieval_map_chance", 1.0)
    best = max((m[f"retrieval_map{by}"] for by in ("", "_latents", "_raw") if f"retrieval_map{by}" in m), default=None)
    return None if best is None or chance > FEW else best / chance


def _equal(m: Measured) -> bool:
    """Whether the views of a pair differ by no more than rounding."""
    return m.get("identity_error", 1.0) < NOTHING


def _nearly_equal(m: Measured) -> float | None:
    """How far the views of a pair are apart, relative to how far observations are; None where that is far, or 0."""
    ratio = _ratio("identity_error", "constant_error")(m)
    return None if ratio is None or ratio >= NEARLY or _equal(m) else ratio


def _against_nothing(m: Measured) -> float | None:
    """Error of predictions relative to that of doing nothing; None where doing nothing is right, or nearly."""
    right = _equal(m) or _nearly_equal(m) is not None
    return None if right else _ratio("reconstruction_error", "identity_error")(m)


def _unrecognised(m: Measured) -> float | None:
    """Errors of whatever recognises labels best, relative to those of naming the most frequent one."""
    accuracies, chance = [m[key] for key in RECOGNISED if key in m], m.get("accuracy_chance", 1.0)
    return (1 - max(accuracies)) / (1 - chance) if accuracies and chance < 1 else None


def _above_chance(m: Measured) -> float | None:
    """How much of the energy of maps that chance would not leave within true eigenspaces is there."""
    chance = m.get("map_block_energy_chance", 1.0)
    return (m["map_block_energy"] - chance) / (1 - chance) if chance < 1 else None


def _kept_apart(m: Measured) -> bool:
    """Whether observations are found by the invariants of their transformed views."""
    chance = m.get("retrieval_map_chance", 1.0)
    return chance <= FEW and m.get("retrieval_map", 0.0) - chance >= KEPT_APART * (1 - chance)


def _unless_told(key: str) -> Callable[[Measured], float | None]:
    """A measure of collapse; None where a head recognises transformed observations nearly as well as others, or where
    these are found by invariants: then invariants tell them apart, however much they have in common. None, too, where
    hardly any observations differ."""

    def value(m: Measured) -> float | None:
        chance = m.get("accuracy_chance", 0.0)
        heads = ((m[plain] - chance, m[under] - chance) for plain, under in HEADS if plain in m and under in m)
        told = any(under >= TOLD * plain > 0 for plain, under in heads)
        alike = m.get("retrieval_map_chance", 0.0) > ALIKE
        return None if told or alike or _kept_apart(m) else m.get(key)

    return value


def _direction(m: Measured) -> float | None:
    """The largest angle of directions of travel at any skip, of validation sequences, too."""
    angles = [angle for key, angle in m.items() if key.startswith("translation_angle_deg") and not math.isnan(angle)]
    return max(angles, default=None)


MAPS = Check(
    "maps know the transformation",
    "maps carry content, not the transformation alone",
    lambda m: m.get("relative_map_error_centred"),
    0.5,  # half of what the mean of all observations leaves
    True,
    "relative_map_error_centred",
    (
        Remedy("share each T among several observations and train niso-group", GROUPS),
        Remedy("a smaller --rank with more latent channels", GROUPS, needs="rank"),
        Remedy("train for longer (--steps)", needs="group"),
        Remedy("where DATA gives the groups, see whether all pairs of one share one T", needs="group"),
    ),
)

RELATED = Check(
    "maps fit true pairs better than mismatched ones",
    "maps fit mismatched pairs nearly as well as true ones: latents hold little of what relates views, if anything",
    lambda m: m.get("pair_discrimination"),
    0.7,  # 0.5 where nothing relates views, 0.95 and more where latents tell true pairs
    False,
    "pair_discrimination",
    (
        Remedy("where DATA gives pairs, see whether each row of tx is the transformed one of the same row of x"),
        Remedy("see whether views show the same, as crops do not"),
        Remedy("train niso-vicreg, or in groups niso-group-vicreg, whose invariants must vary", OF_INVARIANTS),
        Remedy("train for longer (--steps)"),
    ),
)

UNMIXED = (
    Remedy("train for longer (--steps)"),
    Remedy("noise on eigenvalues, which separates mixed eigenfunctions (--eigenvalue-noise)"),
    Remedy("eigenfunctions as fields of the place (--preset field)"),
)
"""What to do where true eigenspaces were not found."""

CHECKS = (
    Check(
        "the observations of a pair differ",
        "the observations of a pair are equal",
        lambda m: m["identity_error"] if _equal(m) else None,
        NOTHING,
        False,
        "identity_error",
        (
            Remedy("see whether the second view is the transformed one"),
            Remedy("clip or remove values that are far off, by which all others are scaled to nearly 0"),
        ),
    ),
    Check(
        "the observations of a pair differ",
        "the observations of a pair are nearly equal: there is hardly a transformation to learn",
        _nearly_equal,
        NEARLY,
        False,
        "identity_error / constant_error",
        (Remedy("pairs that are further apart"), Remedy("see whether the second view is the transformed one")),
    ),
    Check(
        "predictions beat doing nothing",
        "predictions are no better than doing nothing",
        _against_nothing,
        0.9,
        True,
        "reconstruction_error / identity_error",
        (
            Remedy("train for longer (--steps), with more latent channels or a larger --rank"),
            Remedy("see whether the loss still falls"),
        ),
    ),
    Check(
        "predictions tell observations apart",
        "predictions are nearly the same for all observations",
        _ratio("reconstruction_error", "constant_error"),
        0.9,
        True,
        "reconstruction_error / constant_error",
        (
            Remedy("add --norm l2, where most values of an observation are alike"),
            Remedy("train for longer (--steps), with more latent channels or a larger --rank"),
            LIGHTER,
        ),
    ),
    Check(
        "observations are found by their transformed views",
        "observations are not found by their transformed views: nothing may relate the two",
        _found,
        2.0,
        False,
        "retrieval_map / retrieval_map_chance, the best of invariants, latents and values",
        (
            Remedy("see whether each row of tx is the transformed one of the same row of x"),
            Remedy("train for longer (--steps)"),
        ),
    ),
    RELATED,
    RELATED._replace(
        good="maps fit second pairs of triplets better than mismatched ones",
        bad="maps fit mismatched second pairs of triplets nearly as well as true ones: nothing may relate these",
        value=lambda m: m.get("pair_discrimination_second"),
        formula="pair_discrimination_second",
        remedies=(Remedy("see whether each row of ttx is the transformed one of the same row of tx"),),
    ),
    Check(
        "labels are recognised",
        "labels are recognised hardly better than by naming the most frequent one",
        _unrecognised,
        0.9,
        True,
        "(1 − the best accuracy) / (1 − accuracy_chance)",
        (
            Remedy("see whether each label is that of its row"),
            Remedy("train for longer (--steps)"),
            Remedy("more labelled observations of the rare classes"),
        ),
    ),
    MAPS,
    MAPS._replace(  # what all latents share makes this one small: only where there is no other
        value=lambda m: (
            None if m.keys() & {"relative_map_error_centred", "eigenspace_energy"} else m.get("relative_map_error")
        ),
        formula="relative_map_error",
    ),
    Check(
        "maps of others are better than none",
        "maps of another observation predict worse than no map",
        _ratio("relative_map_error_centred", "identity_relative_map_error_centred"),
        1.0,
        True,
        "relative_map_error_centred / identity_relative_map_error_centred",
        (Remedy("train for longer (--steps)"), *MAPS.remedies),
    ),
    Check(
        "eigenfunctions lie in true eigenspaces",
        "eigenfunctions are mixed over true eigenspaces",
        lambda m: m.get("eigenspace_energy"),
        0.95,
        False,
        "eigenspace_energy",
        (*UNMIXED, Remedy("a smaller --multiplicity, so that eigenvalues do not move apart too early")),
    ),
    Check(
        "each eigenfunction lies in one true eigenspace",
        "some eigenfunctions are mixed over true eigenspaces",
        lambda m: m.get("eigenspace_energy_worst"),
        0.75,  # at 0.5 two spaces are mixed evenly
        False,
        "eigenspace_energy_worst",
        UNMIXED,
    ),
    Check(
        "maps move true eigenspaces into themselves",
        "maps mix true eigenspaces",
        _above_chance,
        0.9,
        False,
        "(map_block_energy − chance) / (1 − chance)",
        UNMIXED,
    ),
    Check(
        "eigenvalues form the blocks of true degrees",
        "eigenvalues do not form the blocks of true degrees",
        lambda m: m.get("blocks_found"),
        0.99,
        False,
        "blocks_found",
        UNMIXED,
    ),
    Check(
        "invariants tell observations apart",
        "invariants collapse: aᵀa is nearly the same for all observations",
        _unless_told("invariants_common"),
        0.99,
        True,
        "share of the mean in aᵀa",
        (
            Remedy("networks, where there are none (--architecture conv, or pointwise)", option="reading"),
            Remedy("train niso-vicreg, or in groups niso-group-vicreg, whose invariants must vary", OF_INVARIANTS),
            Remedy("a larger --vicreg", needs="vicreg"),
            Remedy("a larger --contrastive", needs="contrastive"),
            LIGHTER,
        ),
    ),
    Check(
        "coefficients span several directions",
        "coefficients have nearly one direction",
        _unless_told("latent_rank"),
        1.5,
        False,
        "effective number of singular values of a",
        (Remedy("more latent channels"), LIGHTER),
    ),
    Check(
        "the spectrum has parts",
        "the spectrum is still degenerate: eigenvalues are nearly equal, τ is any orthogonal matrix",
        lambda m: m.get("mask_mean"),
        0.9,
        True,
        "mean of the mask exp(−|λᵢ − λⱼ|)",
        (Remedy("a larger --multiplicity", needs="multiplicity"), Remedy("more steps")),
    ),
    Check(
        "the spectrum is not split entirely",
        "the spectrum is split entirely: τ is ±1 on each eigenfunction",
        lambda m: m.get("single_eigenvalues"),
        0.95,
        True,
        "share of eigenvalues that are alone",
        (
            Remedy("a smaller --multiplicity", needs="multiplicity"),
            Remedy("one that decays (--multiplicity-decay 0.1)", needs="multiplicity", option="multiplicity_decay"),
        ),
    ),
    Check(
        "latents keep their size",
        "latents shrink: the equivariance loss has no weight any more",
        _unless_told("latent_spread"),
        1e-3,
        False,
        "root mean square of the centred coefficients",
        (
            Remedy(
                "measure the equivariance loss relative to the spread (--relative-equivariance 0.03)",
                needs="relative_equivariance",
            ),
            Remedy("where plain pairs do not take that, train niso-vicreg", GROUPS | OF_INVARIANTS),
        ),
    ),
    Check(
        "held-out pairs are predicted as those trained on",
        "too few pairs: held-out ones are predicted much worse than those trained on",
        _trained_on,
        1.5,
        True,
        "reconstruction_error / reconstruction_error_train",
        (Remedy("more data, fewer steps or a smaller preset"),),
    ),
    Check(
        "directions of travel are nearer to the true ones than to their opposite",
        "predicted directions of travel are nearer to the opposite of the true ones",
        _direction,
        REVERSED,
        True,
        "largest translation_angle_deg, also of validation sequences",
        (
            Remedy("sequences to train on whose cameras travel as those of the others do"),
            Remedy("no pairs that run backwards in time (--no-backwards)", option="backwards"),
        ),
    ),
)


def diagnose(measured: Measured, reads: Collection[str], options: Collection[str]) -> Iterator[Finding]:
    """A finding for each check that the metrics allow, and one for metrics that are not finite, what is wrong first.

    Args:
        reads: settings of the method that was trained: no remedy is what it does already, or cannot do.
        options: settings of the experiment, which remedies may name.
    """
    findings = []
    measured = {key: value if math.isfinite(value) else math.nan for key, value in measured.items()}
    if broken := [key for key, value in measured.items() if math.isnan(value)]:
        remedy = "a smaller learning rate; observations that differ, without values that are far too large"
        findings.append(Finding("metrics are not finite", True, some_of(broken), remedy))
    for check in CHECKS:
        value = check.value(measured)
        if value is None or math.isnan(value):
            continue
        bad = not (value <= check.limit if check.above else value >= check.limit)
        sign = "≤" if check.above else "≥"
        measure = f"{check.formula} {value:.3g} ({'not ' if bad else ''}{sign} {check.limit:g})"
        remedy = "; ".join(remedy.text for remedy in check.remedies if bad and remedy.helps(reads, options))
        findings.append(Finding(check.bad if bad else check.good, bad, measure, remedy))
    findings += [Finding(words, None, cause, remedy) for words, cause, remedy in _unmeasured(measured)]
    yield from sorted(findings, key=lambda finding: not finding.bad)


def _unmeasured(m: Measured) -> Iterator[tuple[str, str, str]]:
    """What could not be measured, or only roughly: words, the cause, and a remedy."""
    if "relative_map_error" not in m and "equivariance_error" in m:
        words = "whether maps know the transformation alone cannot be measured"
        yield words, "no two held-out pairs are known to share one T", ""
    held_out, chance = m.get("held_out_observations", math.nan), m.get("retrieval_map_chance", 0.0)
    if held_out < ROUGH or (held_out >= ROUGH and chance > FEW):
        cause = f"held_out_observations {held_out:g} ({'not ' if held_out < ROUGH else ''}≥ {ROUGH})"
        if chance > FEW:
            cause += ", and too few that differ to say whether they are found by their transformed views"
        yield "metrics are rough", cause, "more data, or a larger part of it (--test)"
