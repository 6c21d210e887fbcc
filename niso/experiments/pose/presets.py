"""Settings and presets of the pose experiment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from niso.config import Optimisation, require
from niso.data.video.clips import Motion, check_fields_of_view
from niso.experiments.pose.losses import Scale
from niso.methods import recipes
from niso.methods.config import GroupConfig, PartialViewsConfig
from niso.networks import ConvConfig, MLPConfig
from niso.networks.two_view import TwoViewConfig


@dataclass(frozen=True)
class PoseConfig(PartialViewsConfig, GroupConfig):
    """Settings of the pose experiment."""

    head: Optimisation = field(default_factory=lambda: Optimisation(steps=10_000))
    """Optimisation of the head."""

    size: int = 144
    """Height and width of frames in pixels; frames of another size are resized."""
    clips: int = 96
    """Number of rendered clips to train on, where there is no --data-dir; each shows another room."""
    clip_frames: int = 30
    """Number of frames of each of these clips."""
    test_clips: int = 8
    """Number of rendered clips to test on; with --data-dir, only where none of its sequences to test on has poses."""
    test_frames: int = 120
    """Number of frames of each of these clips. The shorter a path, the nearer it is to a straight line, the trivial
    prediction."""
    motions: tuple[Motion, ...] = ("orbit", "walk")
    """Motions of the cameras in rendered clips, in turn. "free" is the nearest to hand-held footage."""
    fields_of_view: tuple[float, float] | None = None
    """Smallest and largest field of view of rendered clips in degrees, across the square that is cut out of an image;
    each clip draws its own. Mixed with footage, clips should have its cameras' field of view: the wider it is, the less
    a turn moves a picture. By default 65 degrees, and 40 to 70 on free paths."""
    shared: float | None = None
    """Share of the examples of pre-training that come from other rendered clips, in which different rooms are seen
    under the same camera motion; by default all in the methods niso-group, which take these rooms in groups, and none
    in other methods."""
    shared_clips: int = 384
    """Number of these clips, of `clip_frames` frames each."""
    shared_motions: tuple[Motion, ...] = ("orbit", "walk")
    """Motions of their cameras; in a "turn", frames are related by homographies exactly."""
    rooms: int = 4
    """Rooms that each of these motions is seen in."""
    composition: float = 0.0
    """Weight of the composition loss, see `niso.losses.composition`."""
    quality: float = 0.25
    """Share of CO3Dv2's sequences to use, those with the highest quality scores; 1 also takes those without a score."""
    held_out: float = 0.1
    """Share of these sequences to test on."""
    split_file: Path | None = None
    """A JSON file {"train": [names], "test": [names]} of CO3Dv2's sequences, in place of --quality and --held-out."""
    validation: float = 0.0
    """Share of the training sequences with poses that are kept for validation, at least one of five or more: nothing is
    trained on them, and settings are chosen by their metrics."""
    rendered: float = 0.0
    """With --data-dir, the share of pairs that are drawn from the rendered clips, in pre-training and for the head, so
    that the poses of a few sequences are not learned by heart. With 1, training uses the clips alone and --data-dir is
    for testing. Where no footage has poses, it is for pre-training, and the head is trained and tested on the clips."""
    mirrored: bool = False
    """Also train on every sequence mirrored left to right, frames and cameras: twice as many motions."""
    conv: ConvConfig = field(default_factory=lambda: ConvConfig((144, 144), 3))
    """Convolutional networks; the size and channels of images in it are replaced by those of the frames."""
    transformer: TwoViewConfig = field(default_factory=TwoViewConfig)
    """The two-view transformer of the method vit; the methods dinov2 and beit use its decoder."""
    dinov2: str | None = None
    """For the method dinov2: the folder of such a model in the format of transformers (config.json,
    preprocessor_config.json, model.safetensors), or its name on the Hugging Face hub, e.g. facebook/dinov2-base."""
    beit: str | None = None
    """The same for the method beit, e.g. microsoft/beit-base-patch16-224-pt22k."""
    download: bool = False
    """Fetch these models from the Hugging Face hub if they are given by name and are not in its cache."""
    skip: int = 10
    """The most frames left out between the two of a pair in pre-training."""
    signed: bool = False
    """Pre-train on pairs in both directions of time, and on pairs of a frame with itself (the released code)."""
    head_skip: int = 9
    """The most frames left out between the two of a pair that the head is trained on."""
    backwards: bool = False
    """Train the head on pairs in both directions of time. It then cannot learn which way cameras travel, forwards in
    driving for example, and takes it from how they turn: what a few sequences teach of that fails on others."""
    head_group: int = 4
    """Number of consecutive pairs of the head's batches that are of the same sequence and share a scale."""
    translation_scale: Scale = "projection"
    """How the scale is chosen: the paper's "projection" leaves the sign of a sequence's translations open; "norm" and
    "unit" do not, and with "unit" slow cameras count as much as fast ones."""
    standardise: bool = False
    """Give the head maps τ minus their mean over some pairs, divided by their standard deviation there."""
    mlp: MLPConfig = field(default_factory=lambda: MLPConfig(layers=5, channels=512))
    """The head on maps."""
    memory: float = 8.0
    """Gigabytes up to which all frames are kept on the training device, and all features while the head is trained;
    more of them are read, or encoded, batch by batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("size", "clips", "test_clips", "shared_clips", "rooms", "quality", "head_group")
        require(self, *names, positive=True)
        require(self, "quality", "held_out", "rendered", "shared", most=1.0)
        require(self, "validation", most=0.5)
        require(self, "skip", "head_skip", "memory", "composition")
        for name in ("motions", "shared_motions"):
            if not getattr(self, name):
                raise ValueError(f"{name} must name at least one motion")
        require(self, "clip_frames", "test_frames", least=3)
        if self.fields_of_view is not None:
            check_fields_of_view(*self.fields_of_view)
        if self.held_out >= 1:
            raise ValueError("held_out must be below 1: nothing would be left to train on")
        if self.head.batch_size % self.head_group:
            raise ValueError(
                f"head.batch_size ({self.head.batch_size}) must be a multiple of head_group ({self.head_group})"
            )


PAPER = PoseConfig(
    validation=0.05,
    evaluation_pairs=500,
    conv=ConvConfig((144, 144), 3, (64, 128, 256), blocks=4, latent_channels=128),
    rank=128,
    multiplicity=0.025,
    training=Optimisation(steps=200_000, batch_size=8),
    head=Optimisation(steps=20_000),
)
"""The paper's text: 3 levels of 4 blocks, 64 to 256 channels, k = d = 128, α = 0.5, β = 0.025, 200,000 steps of 8 pairs
of skips 0 … 10; head of 5 × 512 units, 20,000 steps of 4 × 4 pairs.

`niso run pose --preset paper --data-dir CO3D --accelerator gpu --precision bf16-mixed`; add --devices 4 for several
GPUs. Expected: ATE 0.031, 0.044, 0.057 at skips 1, 3, 5. Not yet run."""

RELEASED = replace(
    PAPER,
    special=True,
    damping=1e-8,
    skip=11,
    signed=True,
    training=replace(PAPER.training, steps=50_000, cosine_steps=1_000_000),
    head=Optimisation(steps=5_000, batch_size=48, cosine_steps=1_000_000),
    mlp=MLPConfig(layers=6, channels=512),
)
"""The settings of the released code where they are known to differ: SO(k), damped gradient, pairs up to 12 frames apart
in both directions, 50,000 steps, a head of 6 layers trained for 5,000 steps of 48 pairs. Left out are its linear skip
connection, its clips that start at the first frame, and the training of Φ and M along with the head. Not yet run."""

SMALL = PoseConfig(
    validation=0.05,
    evaluation_pairs=500,
    size=64,
    clips=384,
    test_clips=24,
    conv=ConvConfig((64, 64), 3, (32, 64), blocks=2, latent_channels=32, stem_channels=32, patch=2),
    transformer=TwoViewConfig(patch=16, channels=96, heads=4, encoder_blocks=2, decoder_blocks=2),
    rank=32,
    eigenvalues="shifted",
    relative_equivariance=0.03,
    multiplicity=0.001,
    multiplicity_decay=0.1,
    mirrored=True,
    translation_scale="norm",
    standardise=True,
    nft_maps=800,
    training=replace(recipes.LATENT, steps=1_000, batch_size=8, warmup_steps=200),
    completion=replace(recipes.COMPLETION, steps=1_000, batch_size=8),
    head=Optimisation(steps=6_000, batch_size=32, learning_rate=1e-3, final_learning_rate=0.0, warmup_steps=200),
    mlp=MLPConfig(layers=3, channels=256),
)
"""The rendered clips, or other data, on one core: a network of 0.37 million parameters on 64×64 pixels.

`niso run pose --preset small`: nine to fourteen minutes on one core, two runs at a time, and the
rendering of the clips before the first. Records: results/pose/pose-small-*.json. The weight of the multiplicity loss
was chosen on test clips, and again at quick on validation clips (docs/experiments/index.md, "How settings are
chosen")."""

QUICK = replace(
    SMALL,
    conv=ConvConfig((64, 64), 3, (32, 48), blocks=1, latent_channels=32, stem_channels=32, patch=4),
    training=replace(SMALL.training, steps=800, warmup_steps=100),
    head=replace(SMALL.head, steps=800, warmup_steps=100),
    nft_maps=320,
    evaluation_pairs=200,
)
"""The rendered clips and a smaller network, with a latent grid of 8×8 points.

`niso run pose`: a minute on one core of an AMD EPYC with two runs at a time, and another minute to render the clips the
first time. Records: results/pose-groups/pairs; with heads trained in both directions of time, and from before the
validation split: results/pose/pose-quick-*.json."""

PRESETS: dict[str, Any] = {"quick": QUICK, "small": SMALL, "paper": PAPER, "released": RELEASED}
