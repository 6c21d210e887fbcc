"""The tuned recipes: every setting that is not the user's or the data's, in one place.

`niso run pairs`, `niso.fit` and whoever asks `recipe` use them. There are two, for what an encoder can do: *domain*,
for functions that T moves without changing them, as on the torus, where no network is needed; and *latent*, for
anything else, as in homNIST. Each setting comes from the experiment that it was chosen in, by its validation data,
see docs/notation.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from niso.config import Optimisation
from niso.experiments.pairs.presets import Architecture, Effort
from niso.methods.config import GroupConfig
from niso.networks import VectorNeuronConfig

HEAD = VectorNeuronConfig(variant="released", invariant_channels=32, expansion=2)


@dataclass(frozen=True)
class Chosen(GroupConfig):
    """All settings of a method on the user's pairs, resolved: what a run trains with.

    Attributes beside those of `GroupConfig`:
        architecture: networks.
        size: height and width that pictures are resized to.
        channels: width of each level, of the perceptron's layers, or of tokens.
        patch: pixels or samples that the ends of the networks read at once.
        blocks: residual or transformer blocks of a level.
        latent_channels: channels d of the latent functions.
    """

    architecture: Architecture = "conv"
    size: int = 32
    channels: tuple[int, ...] = (32, 64)
    patch: int = 2
    blocks: int = 2
    latent_channels: int = 32


LATENT = Chosen(
    vector_neurons=HEAD,
    rank=32,
    eigenvalues="shifted",
    relative_equivariance=0.03,
    multiplicity=0.01,
    multiplicity_decay=0.1,
    group=4,
    training=Optimisation(
        steps=1_500,
        learning_rate=2e-3,
        final_learning_rate=0.0,
        warmup_steps=300,
        eigenvalue_learning_rate=2e-2,
    ),
)
"""Of homNIST's preset small."""

DOMAIN = Chosen(
    vector_neurons=HEAD,
    architecture="identity",
    eigenvalues="shifted",
    eigenfunctions="rotation",
    norm="l2",
    equivariance=0.0,
    multiplicity=0.04,
    multiplicity_decay=0.003,
    spectral_dropout=0.5,
    group=4,
    training=Optimisation(
        steps=4_000,
        batch_size=16,
        learning_rate=0.02,
        final_learning_rate=0.0,
        warmup_steps=400,
        weight_decay=0.0,
        eigenfunction_beta2=0.99,
        eigenfunction_eps=1e-12,
        eigenvalue_learning_rate=0.3,
        mass_learning_rate=1e-3,
        eigenvalues_frozen=0.1,
    ),
)
"""Of the torus's preset quick. With identity networks the equivariance loss is the reconstruction loss.

1,000 signals of 32 samples and one channel, each shifted circularly by an offset of its own, about 40 s on one core of
an AMD EPYC. Energy of the eigenfunctions in Fourier planes after 2,000 steps 0.999, 0.977 and 0.965 (seeds 10
to 12), after 3,000 steps 0.998 and 0.998 (11 and 12), after 4,000 steps 0.999 (13)."""

RECIPES: dict[Effort, dict[str, Chosen]] = {
    "quick": {"latent": LATENT, "domain": DOMAIN},
    "standard": {
        "latent": replace(
            LATENT,
            rank=48,
            channels=(64, 128),
            group=8,
            training=replace(LATENT.training, steps=6_000, batch_size=32, warmup_steps=600),
        ),
        "domain": replace(DOMAIN, training=replace(DOMAIN.training, steps=12_000, warmup_steps=1_200)),
    },
    "large": {
        "latent": replace(
            LATENT,
            rank=64,
            size=64,
            channels=(64, 128, 256),
            group=8,
            training=replace(LATENT.training, steps=30_000, batch_size=64, warmup_steps=2_000, learning_rate=1e-3),
        ),
        "domain": replace(DOMAIN, training=replace(DOMAIN.training, steps=30_000, warmup_steps=3_000)),
    },
}


def recipe(effort: Effort, architecture: Architecture) -> Chosen:
    """The settings of an effort for networks of this kind, before anything is known of the data."""
    return RECIPES[effort]["domain" if architecture == "identity" else "latent"]
