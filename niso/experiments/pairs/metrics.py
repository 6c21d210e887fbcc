"""The metrics of a run on the user's pairs."""

from __future__ import annotations

from dataclasses import replace

from niso.experiments.head import ACCURACY_CHANCE
from niso.methods.evaluation.latents import INVARIANTS_ROUNDING, LATENT_METRICS
from niso.methods.evaluation.pairs import PAIR_METRICS, RECONSTRUCTION_ERROR
from niso.results import Metric

PROBES = {"linear": "a linear probe", "knn": "the 5 nearest neighbours"}
FEATURES = {"": "the invariants aᵀa", "_latents": "the encoder's latents, as they are"}
RETRIEVAL = {
    "map": "mean average precision of finding a held-out observation, among at most evaluation_pairs, by its "
    "transformed view",
    "first": "share of held-out observations that are the nearest neighbour of their transformed view",
}
MATCHED = "invariants, and then the best map from each of the nearest 20, as `niso find` does"
VALIDATED = ("retrieval_map", "retrieval_map_matched")
"""Metrics of retrieval that validation observations have, too."""
SETS = {"": "", "_transformed": ", under held-out transformations"}

METRICS: tuple[Metric, ...] = (
    *(metric for metric in PAIR_METRICS if metric is not RECONSTRUCTION_ERROR),
    replace(
        RECONSTRUCTION_ERROR,
        text="mean absolute error of D(τ E(ψ)) against Tψ, values scaled to order one; for the autoencoder, of "
        "D(E(Tψ))",
    ),
    Metric("identity_error", "mean absolute difference of ψ and Tψ: the error of doing nothing"),
    Metric("constant_error", "mean absolute error of the median of Tψ trained on: the error of one prediction for all"),
    *LATENT_METRICS,
    INVARIANTS_ROUNDING,
    *(Metric(f"{metric.key}_val", f"{metric.key} of validation observations", "lower") for metric in PAIR_METRICS),
    Metric("reconstruction_error_train", "reconstruction_error of observations that were trained on", "lower"),
    *(
        Metric(f"{name}{features}{kind}", f"accuracy of {what} on {of}{where}", "higher")
        for kind, where in SETS.items()
        for features, of in FEATURES.items()
        for name, what in PROBES.items()
    ),
    *(
        Metric(
            f"head{kind}",
            f"accuracy of the method's own head, trained on observations as they are, that of the autoencoder on "
            f"transformed ones too{where}",
            "higher",
        )
        for kind, where in SETS.items()
    ),
    ACCURACY_CHANCE,
    *(
        Metric(f"retrieval_{which}{name}", f"{text}, by {of}", "higher")
        for name, of in {**FEATURES, "_raw": "its values", "_matched": MATCHED}.items()
        for which, text in RETRIEVAL.items()
    ),
    Metric("retrieval_map_chance", "retrieval_map of observations in random order"),
    *(Metric(f"{key}_val", f"{key} of validation observations", "higher") for key in VALIDATED),
    *(
        Metric(
            f"pair_discrimination{second}",
            f"share of mismatched pairs, {of} and {view} of another, that their map fits worse than the map of a true "
            "pair fits that (of at most 256 pairs, four strangers each): 1/2 where nothing "
            "relates the two",
            "higher",
        )
        for second, of, view in (("", "ψ", "the Tψ"), ("_second", "of triplets Tψ", "the T²ψ"))
    ),
    Metric("training_observations", "observations, or pairs, to train on"),
    Metric("held_out_observations", "observations, or pairs, that were held out"),
)
