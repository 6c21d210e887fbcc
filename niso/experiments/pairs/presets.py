"""Settings of a run on the user's own pairs; whatever is None is chosen from the data, and said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from niso.checks import check_choice
from niso.config import Optimisation, Strict, require
from niso.data.pairs.reading import Reading
from niso.losses import Norm
from niso.methods.config import ClassifierConfig
from niso.methods.heads import HEADS
from niso.methods.spectra import SPECTRA
from niso.named_values import NamedValues, names_of
from niso.networks.padding import Padding

OF_PARTS = ("spectrum", "spectrum_settings", "method_settings", "classifier", "classifier_settings")
"""Settings that choose parts, and those of parts of one's own."""
Effort = Literal["quick", "standard", "large"]
Architecture = Literal["conv", "vit", "pointwise", "identity", "own"]


@dataclass(frozen=True)
class Training(Strict):
    """Optimisation of the pre-training: what is None is that of the recipe, see `niso.experiments.pairs.recipes`."""

    steps: int | None = None
    """Optimiser steps."""
    batch_size: int | None = None
    """Pairs of a step."""
    learning_rate: float | None = None
    """Peak learning rate of the networks."""

    def __post_init__(self) -> None:
        require(self, "steps", "batch_size", "learning_rate", positive=True)


@dataclass(frozen=True)
class PairsConfig(Strict):
    """Settings of a run on the user's own pairs. What is None is chosen from the data."""

    effort: Annotated[Effort, tyro.conf.Suppress] = "quick"
    """Size of networks and length of training: the preset's name."""
    reading: Annotated[Reading, tyro.conf.arg(name="")] = field(default_factory=Reading)
    """How DATA is read."""
    architecture: Literal["auto", "conv", "vit", "pointwise", "identity"] = "auto"
    """Networks. By default convolutions of images and of signals, a perceptron at each point of functions on points;
    and none (identity) where T moves the values of signals or functions without changing their energy."""
    encoder: str | None = None
    """The user's own encoder, module:Class, a torch.nn.Module that is made without arguments and gives latents
    (batch, points, channels), or (batch, channels, height, width)."""
    decoder: str | None = None
    """The user's own decoder, module:Class."""
    padding: Padding | None = None
    """What convolutions see beyond the edges: zeros; circular, the other side, for observations that go round; or
    longitude, that left and right alone, for panoramas and longitude-latitude grids. By default circular for
    --transform shift and warp, which go round, and longitude for mobius; zeros for others."""
    rank: int | None = None
    """Eigenfunctions k."""
    latent_channels: int | None = None
    """Channels d of the latent functions."""
    spectrum: Annotated[str, names_of(SPECTRA)] = "table"
    """How mass and eigenfunctions are learned: a number for each latent point, or a field over their places."""
    spectrum_settings: NamedValues = field(default_factory=dict)
    """Settings of a spectrum of one's own."""
    method_settings: NamedValues = field(default_factory=dict)
    """Settings of a method of one's own."""
    group_size: int | None = None
    """Pairs that share one T in the method niso-group; by default a number that divides the batch."""
    norm: Norm | None = None
    """Norm of the losses: mean absolute error (l1) or mean square (l2)."""
    relative_equivariance: float | None = None
    """Weight of the equivariance loss, relative to the latents' spread."""
    multiplicity: float | None = None
    """Weight of the multiplicity loss."""
    spectral_dropout: float | None = None
    """Probability of spectral dropout."""
    variation: float | None = None
    """How far the colours of single pictures are varied before T is applied, in training, where they are also mirrored
    and turned; 0 leaves them as they are. By default 0.2 for crops, and 0 for others."""
    contrastive: float = ClassifierConfig.contrastive
    """Weight of the contrastive loss in the methods niso-contrastive and contrastive."""
    vicreg: float = ClassifierConfig.vicreg
    """Weight of the variance, invariance and covariance of invariants in niso-vicreg, niso-group-vicreg and vicreg."""
    nft_epochs: int = ClassifierConfig.nft_epochs
    """Epochs of the block diagonalisation in the methods nft."""
    nft_maps: int = ClassifierConfig.nft_maps
    """Maps that it is fitted to."""
    validation: float = 0.1
    """Share of the observations that settings are chosen by: nothing trains on them."""
    test: float = 0.1
    """Share of the observations that are held out for the final metrics."""
    training: Annotated[Training, tyro.conf.arg(name="")] = field(default_factory=Training)
    """Optimisation of the pre-training."""
    head: Optimisation = field(
        default_factory=lambda: Optimisation(
            steps=600, batch_size=64, learning_rate=2e-3, final_learning_rate=0.0, warmup_steps=100
        )
    )
    """Optimisation of the head that is trained where there are labels."""
    classifier: Annotated[str, names_of(HEADS)] = "vector-neurons"
    """Which head that is. "spectral" and "eigenspaces" are for methods whose maps commute with an operator."""
    classifier_settings: NamedValues = field(default_factory=dict)
    """Settings of a head of one's own."""
    evaluation_pairs: int = 512
    """Held-out pairs that metrics are means over, at most."""

    def __post_init__(self) -> None:
        require(self, "rank", "latent_channels", "group_size", "nft_maps", positive=True)
        require(self, "evaluation_pairs", least=2)  # maps are tried on other pairs
        require(self, "relative_equivariance", "multiplicity", "variation", "contrastive", "vicreg", "nft_epochs")
        require(self, "spectral_dropout", most=1.0)
        for name in ("validation", "test"):
            if not 0 < getattr(self, name) <= 0.4:
                raise ValueError(f"{name} must lie above 0 and not above 0.4, got {getattr(self, name)}")
        for name, parts in (("spectrum", SPECTRA), ("classifier", HEADS)):
            check_choice(name, getattr(self, name), parts)
            parts.find(getattr(self, name)).own_settings(self)
        if (self.encoder is None) != (self.decoder is None):
            raise ValueError("--encoder and --decoder go together: name both, module:Class")


QUICK = PairsConfig()
"""A first look, on a CPU."""
STANDARD = PairsConfig(effort="standard", evaluation_pairs=2_000)
"""Wider networks, larger groups and batches, and more steps."""
LARGE = PairsConfig(effort="large", evaluation_pairs=2_000)
"""For a GPU: pictures of 64×64 pixels, three levels, 30,000 steps."""

PRESETS: dict[str, Any] = {"quick": QUICK, "standard": STANDARD, "large": LARGE}
