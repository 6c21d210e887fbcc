"""Settings and presets of the descriptors experiment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from niso.checks import check_choice
from niso.config import Optimisation, require
from niso.experiments.descriptors.surfaces import Surfaces
from niso.methods.config import FieldConfig, IsometryConfig
from niso.networks.mlp import MLPConfig


@dataclass(frozen=True)
class DescriptorsConfig(IsometryConfig):
    """Settings of the experiment."""

    surfaces: Surfaces = "family"
    """Surfaces that niso makes, where there is no --data-dir of meshes."""
    vertices: int = 500
    """Vertices of each, about."""
    train_shapes: int = 20
    """Surfaces to train on, each with a partner."""
    validation_shapes: int = 5
    """Other surfaces: settings are chosen by their metrics."""
    test_shapes: int = 10
    """Other surfaces, to test on."""
    strength: float = 0.1
    """Of the deformations that make partners, see `niso.geometry.mesh.deformation`: the relative change of lengths."""
    times: int = 8
    """Times of the heat kernel signature."""
    energies: int = 8
    """Energies of the wave kernel signature."""
    eigenpairs: int = 48
    """Eigenpairs of the Laplacian in the descriptors."""
    latent_channels: int = 16
    """Channels d of the latent functions."""
    mlp: MLPConfig = field(default_factory=lambda: MLPConfig(2, 64))
    """Encoder and decoder of single points."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("vertices", "train_shapes", "test_shapes", "times", "energies", "latent_channels")
        require(self, *names, positive=True)
        require(self, "eigenpairs", least=2)  # the first function is constant
        require(self, "strength", "validation_shapes")
        check_choice("surfaces", self.surfaces, Surfaces)


QUICK = DescriptorsConfig(
    rank=20,
    spectrum="field",
    eigenvalues="shifted",
    norm="l2",
    multiplicity=0.001,
    field=FieldConfig(features="fourier", frequencies=48, scale=0.3, width=64, layers=1),
    training=Optimisation(
        steps=1_000,
        batch_size=4,
        learning_rate=2e-3,
        final_learning_rate=0.0,
        warmup_steps=100,
        eigenvalue_learning_rate=1e-2,
    ),
)
"""Twenty pairs of surfaces of 500 vertices.

`niso run descriptors`: four minutes on one core of an Intel Xeon. Records: results/descriptors."""

TORI = replace(QUICK, surfaces="tori")
"""The same with lumpy tori. `niso run descriptors --preset tori`. Records: results/descriptors."""

OPEN = replace(QUICK, surfaces="open")
"""The same with the embedded classes, cut open at one end. `niso run descriptors --preset open`. Records:
results/descriptors."""

PRESETS = {"quick": QUICK, "tori": TORI, "open": OPEN}
