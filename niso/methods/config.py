"""Settings of methods; an experiment's configuration extends one of these classes."""

from __future__ import annotations

import dataclasses  # not `field`, which is a setting's name
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from niso.checks import check_choice
from niso.config import SPECTRAL, Optimisation, Strict, require
from niso.losses import Norm
from niso.methods.heads import HEADS
from niso.methods.spectra import SPECTRA
from niso.named_values import NamedValues, names_of
from niso.networks import EigenspaceHeadConfig, MLPConfig, SpectralHeadConfig, VectorNeuronConfig
from niso.spectrum import Eigenfunctions, Eigenvalues, Features

Start = Literal["noise", "smooth"]
"""What eigenfunctions of a table start as: random functions, or the smoothest ones on the latent grid."""


@dataclass(frozen=True)
class FieldConfig(Strict):
    """Settings of a `niso.FieldSpectrum`; its weight in memory and time is that of the networks."""

    features: Features = "fourier"
    """What the networks see of a point, see `niso.spectrum.features`."""
    frequencies: int = 48
    """Number of Fourier frequencies: random ones, or with "periodic" the lowest whole ones."""
    scale: float = 1.5
    """Standard deviation of random ones, in periods from one end of the domain to the other."""
    width: int = 128
    """Channels of each hidden layer."""
    layers: int = 2
    """Hidden layers; without any, the field is linear in the features."""
    gain: float = 1.0
    """Factor on the weights that the first layer starts with: a higher rank may need a larger one."""

    def __post_init__(self) -> None:
        require(self, "frequencies", "scale", "width", "gain", positive=True)
        require(self, "layers")


Confidence = Literal["none", "given", "learned"]
"""How far each latent point is trusted: all alike, as unseen pixels (NaN) say, or as the encoder finds out."""


@dataclass(frozen=True)
class IsometryConfig(Strict):
    """Settings of the pre-training of NIso."""

    rank: int | None = None
    """Number of eigenfunctions k, and size of the maps of every method but niso-no-basis; as many as the latent domain
    allows by default."""
    eigenvalues: Eigenvalues = "cumulative"
    """Parametrisation of the eigenvalues, see `niso.LearnedSpectrum`."""
    spectrum: Annotated[str, names_of(SPECTRA)] = "table"
    """How mass and eigenfunctions are learned: `niso.LearnedSpectrum` or `niso.FieldSpectrum`."""
    spectrum_settings: NamedValues = dataclasses.field(default_factory=dict)
    """Settings of a spectrum of one's own, see `niso.methods.part.Part.settings_class`."""
    method_settings: NamedValues = dataclasses.field(default_factory=dict)
    """Settings of a method of one's own."""
    start: Start = "noise"
    """What the eigenfunctions of a table are before training: noise, as published, or the smoothest functions on the
    latent points, see `niso.spectrum.smooth_functions`."""
    eigenfunctions: Eigenfunctions = "polar"
    """Parametrisation of the eigenfunctions, see `niso.LearnedSpectrum` and `niso.FieldSpectrum`."""
    norm: Norm = "l1"
    """Norm of the equivariance and reconstruction losses: mean absolute error or mean square."""
    equivariance: float = 0.5
    """Weight α of the equivariance loss."""
    whitened: bool = False
    """Whether all eigenfunctions count alike in the equivariance loss, the weak ones, too, see
    `niso.losses.equivariance`."""
    multiplicity: float = 0.1
    """Weight β of the multiplicity loss."""
    multiplicity_decay: float = 1.0
    """Factor that β reaches at the end, geometrically over the last 30 % of the steps."""
    eigenvalue_noise: float = 0.0
    """Standard deviation of noise on the eigenvalues wherever training solves for a map, at first."""
    eigenvalue_noise_decay: float | None = None
    """Factor that it reaches at the end, geometrically over all steps; None decays it as β."""
    spectral_dropout: float = 0.0
    """Probability of spectral dropout."""
    special: bool = False
    """Admit only maps of determinant +1."""
    damping: float = 0.0
    """Damping of the polar gradient; 0 is exact."""
    training: Annotated[Optimisation, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Optimisation)
    """Optimisation of the pre-training."""
    evaluation_pairs: int = 10_000
    """Held-out pairs that metrics of pairs are means over."""
    field: FieldConfig = FieldConfig()
    """The networks of a field."""

    def __post_init__(self) -> None:
        require(self, "equivariance", "multiplicity", "eigenvalue_noise", "damping")
        require(self, "multiplicity_decay", "eigenvalue_noise_decay", "spectral_dropout", most=1.0)
        require(self, "rank", least=1)
        require(self, "evaluation_pairs", least=2)  # maps are tried on other pairs
        check_choice("spectrum", self.spectrum, SPECTRA)
        SPECTRA.find(self.spectrum).own_settings(self)  # which name what is wrong with the user's own

    def weights_unread(self) -> dict[str, str]:
        """Settings of the equivariance loss that are not read, and why."""
        return {} if self.equivariance else {"whitened": "--equivariance is 0"}


@dataclass(frozen=True)
class PartialViewsConfig(IsometryConfig):
    """The same for images that are seen in part."""

    occlusion: float | None = None
    """Largest share of each image that occluders cover, in `completion` and in the training of the head; 0 trains
    without. Where given, metrics are also measured under occlusion."""
    confidence: Confidence = "none"
    """How far each latent point is trusted: all alike, by the true mask of what is seen, or as the encoder learns."""
    completion: Optimisation = dataclasses.field(default_factory=Optimisation)
    """Optimisation of the encoder under occlusion, after pre-training without, see `CompletionObjective`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "occlusion", most=1.0)

    def views_unread(self) -> dict[str, str]:
        """Settings that others put out of force, and why."""
        unread = {f"completion.{name}": "the operator stays as it was pre-trained" for name in SPECTRAL}
        without = self.occlusion is None or (self.confidence == "learned" and not self.occlusion)
        if self.confidence != "none" and without:
            unread["confidence"] = "without --occlusion nothing is covered, and all points are seen"
        if not self.occlusion:
            unread["completion"] = "without --occlusion nothing is covered"
        return unread


@dataclass(frozen=True)
class MethodConfig(IsometryConfig):
    """Settings of all methods that pre-train on pairs."""

    relative_equivariance: float | None = None
    """Weight of the equivariance loss relative to the latents' spread, see `niso.losses.equivariance`. Where given, it
    replaces `equivariance`."""
    contrastive: float = 0.1
    """Weight of the contrastive loss in the methods niso-contrastive and contrastive, see
    `niso.losses.contrastive`."""
    vicreg: float = 0.3
    """Weight of the variance, invariance and covariance of invariants in the methods niso-vicreg, niso-group-vicreg and
    vicreg, see `niso.losses.vicreg`."""
    complete: bool = False
    """In the method niso-no-basis, solve for the whole orthogonal matrix that an SVD makes of b aᵀ, an arbitrary
    rotation where b aᵀ is zero; otherwise τ is zero there. It takes an SVD of N × N for every pair."""
    nft_epochs: int = 50
    """In the methods nft, epochs of the block diagonalisation after pre-training; 0 leaves it out."""
    nft_maps: int = 3_200
    """In the methods nft, maps that the block diagonalisation is fitted to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "relative_equivariance", "contrastive", "vicreg", "nft_epochs")
        require(self, "nft_maps", least=1)

    @property
    def equivariance_weight(self) -> float:
        """Weight α of the equivariance loss, the absolute one or the relative one."""
        return self.equivariance if self.relative_equivariance is None else self.relative_equivariance

    def weights_unread(self) -> dict[str, str]:
        """The same for the two weights that there are."""
        if self.relative_equivariance is None:
            return super().weights_unread()
        given = f"--relative-equivariance, here {self.relative_equivariance:g},"
        return {"equivariance": f"{given} replaces it; change that, or set it to None"}


@dataclass(frozen=True)
class GroupConfig(MethodConfig):
    """The same where several observations can share one transformation."""

    group: int = 4
    """Observations that share one T in the methods niso-group, in pose rooms under one motion; the batch is a multiple
    of it."""
    leave_one_out: bool = True
    """In the methods niso-group, solve each member's map from the others alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "group", least=1)


@dataclass(frozen=True)
class ClassifierConfig(GroupConfig):
    """Settings of methods and of the classification heads on top of them."""

    head: Optimisation = dataclasses.field(default_factory=lambda: Optimisation(steps=10_000))
    """Optimisation of the head."""
    label_smoothing: float = 0.0
    """Share of each label that goes to all classes alike, in the training of the head. The paper has none."""
    classifier: Annotated[str, names_of(HEADS)] = "vector-neurons"
    """The invariant head. "spectral" and "eigenspaces" are for methods whose maps commute with an operator. The
    autoencoder has a perceptron."""
    classifier_settings: NamedValues = dataclasses.field(default_factory=dict)
    """Settings of a head of one's own."""
    vector_neurons: VectorNeuronConfig = dataclasses.field(default_factory=VectorNeuronConfig)
    """The head of vector neurons."""
    spectral_head: SpectralHeadConfig = dataclasses.field(default_factory=SpectralHeadConfig)
    """The spectral head."""
    eigenspace_head: EigenspaceHeadConfig = dataclasses.field(default_factory=EigenspaceHeadConfig)
    """The head on soft eigenspaces."""
    mlp: MLPConfig = dataclasses.field(default_factory=MLPConfig)
    """The autoencoder's head."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "label_smoothing", most=1.0)
        check_choice("classifier", self.classifier, HEADS)
        head = HEADS.find(self.classifier)
        head.own_settings(self)
        if head.standardises:
            over = f"classifier {self.classifier} standardises its features over a batch"
            if self.head.batch_size < 2:
                raise ValueError(f"{over}: take a larger one")
            if self.head.accumulation > 1:
                raise ValueError(f"{over}: accumulate none")
