"""Settings of the methods that homNIST and shapes compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from niso.config import Optimisation, Strict, require
from niso.losses import Norm
from niso.networks import MLPConfig, VectorNeuronConfig
from niso.spectrum import Eigenfunctions, Eigenvalues


@dataclass(frozen=True)
class MethodConfig(Strict):
    """Settings of NIso, of the baselines and of their heads."""

    rank: int = 32
    """Number of eigenfunctions k, and size of the maps of every method."""
    eigenvalues: Eigenvalues = "cumulative"
    """Parametrisation of the eigenvalues, see `niso.LearnedSpectrum`."""
    eigenfunctions: Eigenfunctions = "polar"
    """Parametrisation of the eigenfunctions, see `niso.LearnedSpectrum`."""
    norm: Norm = "l1"
    """Norm of the equivariance and reconstruction losses: mean absolute error or mean square."""
    equivariance: float = 0.5
    """Weight α of the equivariance loss."""
    relative_equivariance: float | None = None
    """Weight of the equivariance loss relative to the latents' spread, see `niso.losses.equivariance`. It takes the
    place of the former where the experiment says so."""
    multiplicity: float = 0.1
    """Weight β of the multiplicity loss."""
    multiplicity_decay: float = 1.0
    """Factor that β reaches at the end, geometrically over the last 30 % of the steps."""
    spectral_dropout: float = 0.0
    """Probability of spectral dropout."""
    special: bool = False
    """Maps of determinant +1 only."""
    damping: float = 0.0
    """Damping of the polar gradient; 0 is exact."""
    nft_tall: bool = False
    """In the methods nft, all points as rows of the latent instead of as many as the rank."""
    nft_epochs: int = 50
    """In the methods nft, epochs of the block diagonalisation after pre-training; 0 leaves it out."""
    nft_maps: int = 3_200
    """In the methods nft, maps that the block diagonalisation is fitted to."""
    training: Annotated[Optimisation, tyro.conf.arg(name="")] = field(default_factory=Optimisation)
    """Optimisation of the pre-training."""
    head: Optimisation = field(default_factory=lambda: Optimisation(steps=10_000))
    """Optimisation of the head."""
    vector_neurons: VectorNeuronConfig = field(default_factory=VectorNeuronConfig)
    """The equivariant head, of all methods but the autoencoder."""
    mlp: MLPConfig = field(default_factory=MLPConfig)
    """The autoencoder's head."""
    evaluation_pairs: int = 10_000
    """Held-out pairs for the figures of pairs."""

    def __post_init__(self) -> None:
        for name in ("rank", "nft_maps", "evaluation_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        require(self, "equivariance", "multiplicity", "damping")
        require(self, "multiplicity_decay", "spectral_dropout", most=1.0)
        if self.relative_equivariance is not None:
            require(self, "relative_equivariance")
        if self.nft_epochs < 0:
            raise ValueError(f"nft_epochs must not be negative, got {self.nft_epochs}")
