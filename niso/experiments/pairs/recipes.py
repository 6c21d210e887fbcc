"""The recipes of `niso run pairs` and `niso.fit`: every setting that is not the user's or the data's, in one place.

*latent* trains networks, as homNIST's preset small does; *domain* trains a spectrum alone, as the torus does, for
functions that T moves without changing them. Both start from `niso.methods.recipes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from niso.experiments.pairs.presets import Architecture, Effort
from niso.methods import recipes as shared
from niso.methods.config import ClassifierConfig
from niso.networks.norm import Normalised
from niso.networks.padding import Padding


@dataclass(frozen=True)
class Chosen(ClassifierConfig):
    """All settings of a method on the user's pairs, resolved: what a run trains with.

    Attributes beside those of `ClassifierConfig`:
        architecture: networks.
        size: height and width that pictures are resized to.
        channels: width of each level, of the perceptron's layers, or of tokens.
        patch: pixels or samples that the ends of the networks read at once.
        blocks: residual or transformer blocks of a level.
        latent_channels: channels d of the latent functions.
        normalised: what networks normalise, see `niso.networks.ConvConfig`.
        padding: what convolutions see beyond the edges, see there.
        variation: deviation of the colours that single pictures are varied by before T, see
            `niso.data.pairs.variation`; 0 leaves pictures as they are.
    """

    architecture: Architecture = "conv"
    size: int = 32
    channels: tuple[int, ...] = (32, 64)
    patch: int = 2
    blocks: int = 2
    latent_channels: int = 32
    normalised: Normalised = "space"
    padding: Padding = "zeros"
    variation: float = 0.0


LATENT = Chosen(
    vector_neurons=shared.HEAD,
    rank=32,
    eigenvalues="shifted",
    relative_equivariance=0.03,
    multiplicity=0.01,
    multiplicity_decay=0.1,
    group=4,
    channels=(80,),
    normalised="channels",
    training=replace(shared.LATENT, steps=2_000),
)
"""Of homNIST's preset small, but for the networks: photographs and signals have colours, contrasts and levels, which
normalisation over space would take from them."""

DOMAIN = Chosen(
    vector_neurons=shared.HEAD,
    architecture="identity",
    eigenvalues="shifted",
    eigenfunctions="rotation",
    norm="l2",
    equivariance=0.0,
    multiplicity=0.04,
    multiplicity_decay=0.003,
    spectral_dropout=0.5,
    group=4,
    training=replace(
        shared.DOMAIN,
        steps=4_000,
        batch_size=16,
        warmup_steps=400,
        mass_learning_rate=1e-3,
        eigenvalues_frozen=0.1,
    ),
)
"""Of the torus's preset quick. With identity networks the equivariance loss is the reconstruction loss.

`python -m studies.fit` says what it finds in shifted signals, and in what time: benchmarks/results/fit.json."""

RECIPES: dict[Effort, dict[str, Chosen]] = {
    "quick": {"latent": LATENT, "domain": DOMAIN},
    "standard": {
        "latent": replace(
            LATENT,
            rank=48,
            channels=(128,),
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
