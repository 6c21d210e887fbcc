"""Settings and presets of the shapes experiment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from niso.checks import check_choice
from niso.config import Optimisation, require
from niso.data.shapes.preparation import Preparation
from niso.methods import recipes
from niso.methods.config import ClassifierConfig
from niso.methods.heads import HEADS
from niso.networks import ConvConfig, VectorNeuronConfig

Labelled = Literal["base", "all"]
"""Maps that heads are trained on: of base shapes alone, or of their variants too."""
Tuning = Literal["labels", "labels-and-pairs", "none"]
"""What an encoder is trained on together with the head."""


@dataclass(frozen=True)
class ShapesConfig(ClassifierConfig):
    """Settings of the shapes experiment."""

    preparation: Preparation = field(default_factory=Preparation)
    """How the embedded shapes are prepared, where there is no --data-dir."""
    vertices: int = 2_000
    """Vertices of each embedded shape, about."""
    conv: ConvConfig = field(default_factory=lambda: ConvConfig((96, 192), 16, padding="longitude"))
    """Convolutional networks; size and channels of images are those of the maps, whatever is given."""
    train_shapes: int = 10
    """Shapes of each class to train on, drawn at random."""
    test_shapes: int = 4
    """Shapes of each class to test on, drawn from the others."""
    validation_shapes: int = 0
    """Of the shapes of each class to train on, so many are kept apart: settings are chosen by their metrics."""
    leave_out: tuple[str, ...] = ()
    """Classes to leave out. Classes with fewer shapes than are needed are left out, too, where two others remain."""
    clip: float = 2.5
    """Channels are clipped to their mean ± this many standard deviations."""
    base_share: float = 0.2
    """Probability that the first view of a pair is the base shape, not one of its conformal variants."""
    labelled: Labelled = "all"
    """Maps that heads are trained on: of training shapes and their variants, or of base shapes alone, as homNIST's of
    upright digits. The paper does not say."""
    tuning: Tuning = "labels"
    """What encoder, operator and mass are trained on together with the head: labels alone, as in the paper; the losses
    of the pre-training too, of pairs, so that what makes latents equivariant stays; or nothing: they stay frozen, as in
    the released code."""
    mobius: float = 2.0
    """Strength of the random Möbius transformations of the sphere, see `niso.geometry.mobius`: of those that
    groups of shapes share in the method niso-group, that the autoencoder's head is trained with, and under which the
    relative map error is taken. To be about as strong as those between shapes and their variants."""
    memory: float = 8.0
    """Maps up to this size, in gigabytes, are kept on the training device; larger ones are read batch by batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "vertices", "train_shapes", "test_shapes", "clip", positive=True)
        require(self, "base_share", most=1.0)
        require(self, "mobius", "memory", "validation_shapes")
        if self.validation_shapes >= self.train_shapes:
            fewer = max(self.train_shapes // 5, min(self.train_shapes - 1, 1))
            raise ValueError(
                f"validation_shapes ({self.validation_shapes}) must be below train_shapes ({self.train_shapes}), which "
                f"they are taken from: give --validation-shapes, {fewer} for example"
            )
        check_choice("labelled", self.labelled, Labelled)
        check_choice("tuning", self.tuning, Tuning)
        if self.tuning == "labels-and-pairs" and HEADS.find(self.classifier).of_operator:
            raise ValueError(f"classifier {self.classifier} keeps the eigenvalues that labels-and-pairs trains on")


PAPER = ShapesConfig(
    train_shapes=12,
    validation_shapes=2,
    conv=ConvConfig((96, 192), 16, (32, 64, 128, 256), blocks=2, latent_channels=64, padding="longitude"),
    rank=64,
    multiplicity=0.01,
    training=Optimisation(steps=50_000),
    head=Optimisation(steps=10_000),
    vector_neurons=VectorNeuronConfig(layers=4),
)
"""The paper's text: 10 shapes of each class to train on (and 2 more that validate), 4 levels of 2 blocks, 32 to 256
channels, k = d = 64, α = 0.5, β = 0.01, 50,000 steps of 16 pairs, head, encoder, operator and mass 10,000 steps.

`niso run shapes --preset paper --data-dir PREPARED --accelerator gpu --precision bf16-mixed`. Expected: the paper's
90.3 %. Not yet run."""

SMALL = replace(
    PAPER,
    preparation=Preparation(height=24, width=48, eigenpairs=64, maps="shared"),
    vertices=1_000,
    train_shapes=10,
    conv=ConvConfig((24, 48), 16, (48,), blocks=2, latent_channels=32, stem_channels=32, patch=2, padding="longitude"),
    rank=32,
    eigenvalues="shifted",
    multiplicity=0.001,
    multiplicity_decay=0.1,
    nft_maps=800,
    training=replace(recipes.LATENT, steps=2_000),
    head=Optimisation(steps=1_200, batch_size=32, learning_rate=5e-4, final_learning_rate=0.0, warmup_steps=100),
    vector_neurons=replace(recipes.HEAD, layers=4),
    evaluation_pairs=1_000,
)
"""The embedded shapes on one core: a network of 0.18 million parameters, maps of 24×48 points.

`niso run shapes --preset small --precision bf16-mixed --compile`: five minutes on one core of an AMD EPYC, two runs at
a time, and the preparation of the shapes before the first. Records, from before the validation split: results/shapes.
The weight of the multiplicity loss was chosen on test shapes, and again at quick on validation shapes
(docs/experiments/index.md, "How settings are chosen")."""

QUICK = replace(
    SMALL,
    preparation=replace(SMALL.preparation, height=16, width=32),
    conv=replace(SMALL.conv, image_size=(16, 32), channels=(32,)),
    training=replace(SMALL.training, steps=800, warmup_steps=100),
    head=replace(SMALL.head, steps=600, warmup_steps=50),
    nft_maps=320,
    evaluation_pairs=200,
)
"""The embedded shapes on 16×32 points.

`niso run shapes`: a minute or two on one core of an AMD EPYC, two runs at a time, and the preparation of the shapes
before the first. Records, from before the validation split: results/shapes."""

FINE = replace(
    QUICK,
    preparation=replace(QUICK.preparation, height=48, width=96),
    conv=replace(QUICK.conv, image_size=(48, 96), patch=6),
)
"""The network of `quick` on 48×96 points, by squares of 6×6: the latent grid is the same.

`niso run shapes --preset fine`: about twice as long as `quick`; the shapes take 0.9 GB of the cache. Records, of short
runs: results/shapes-tuning."""

PRESETS: dict[str, Any] = {"quick": QUICK, "fine": FINE, "small": SMALL, "paper": PAPER}
