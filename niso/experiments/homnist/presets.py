"""Settings and presets of the homNIST experiment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from niso.config import Optimisation, require
from niso.data.digits import DIGITS
from niso.data.digits.homnist import COPIES
from niso.errors import nearest
from niso.geometry import ACTIONS
from niso.methods import recipes
from niso.methods.config import ClassifierConfig, PartialViewsConfig
from niso.named_values import NamedValues
from niso.networks import ConvConfig, VectorNeuronConfig, ViTConfig

Architecture = Literal["conv", "vit"]
FirstView = Literal["upright", "transformed"]


@dataclass(frozen=True)
class HomnistConfig(PartialViewsConfig, ClassifierConfig):
    """Settings of the homNIST experiment."""

    digits: str = "mnist"
    """Data set, see `niso.data.digits`: MNIST (in --data-dir, or downloaded once), or "embedded", scikit-learn's, which
    need no download."""
    action: str = "homography"
    """Transformations of images, see `niso.geometry.ACTIONS`."""
    action_settings: NamedValues = field(default_factory=dict)
    """Their settings, e.g. deviation=0.5 of homographies half as strong."""
    first_view: FirstView = "upright"
    """What encoders are trained on beside Tψ: upright digits ψ, or digits that are themselves under random
    transformations, so that Tψ is under two."""
    architecture: Architecture = "conv"
    """Which encoder and decoder."""
    conv: ConvConfig = field(default_factory=ConvConfig)
    """Convolutional networks; image_size is that of the digits, whatever is given."""
    vit: ViTConfig = field(default_factory=ViTConfig)
    """Transformers; image_size is that of the digits, whatever is given."""
    published: bool = False
    """Evaluate on the published .mat file, the only one in --data-dir, instead of a generated test set."""
    validation: float = 0.0
    """Share of the training digits, evenly spread, that nothing is trained on: settings are chosen by their metrics."""
    test_digits: int | None = None
    """Test digits, evenly spread over all; all by default."""
    test_copies: int = COPIES
    """Homographies of each test digit: with all of MNIST, 32 is the full set of 320,000, 1 the 10k subset."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "validation", most=0.5)
        for name, known in (
            ("digits", DIGITS),
            ("action", ACTIONS),
            ("first_view", get_args(FirstView)),
            ("architecture", get_args(Architecture)),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}{nearest(getattr(self, name), known)}")
        if self.published and self.action != "homography":
            raise ValueError(f"published test digits are under homographies, not under {self.action}")
        require(self, "test_digits", least=2)  # maps are tried on other digits
        if not 1 <= self.test_copies <= COPIES:
            raise ValueError(f"test_copies must lie between 1 and {COPIES}, got {self.test_copies}")


PAPER = HomnistConfig(
    rank=32,
    validation=0.1,
    conv=ConvConfig(channels=(128, 256)),
    training=Optimisation(steps=50_000),
    head=Optimisation(steps=10_000),
)
"""The paper's text: channels 128 and 256, α = 0.5, β = 0.1, 50,000 steps of 16 pairs, head of 10,000 steps.

`niso run homnist --preset paper --data-dir MNIST --accelerator gpu --precision bf16-mixed`. Expected: the paper's
92.5 % (pairs), 97.4 % (triplets). Not yet run."""

RELEASED = HomnistConfig(
    rank=32,
    validation=0.1,
    conv=ConvConfig(channels=(64, 128)),
    special=True,
    damping=1e-8,
    training=Optimisation(steps=50_000, cosine_steps=1_000_000),
    head=Optimisation(steps=20_000, cosine_steps=1_000_000),
    vector_neurons=VectorNeuronConfig(variant="released"),
)
"""The released code's settings where they differ: channels 64 and 128 (2,186,385 parameters), SO(k), damped gradient, a
learning rate that hardly falls, its own head, trained for 20,000 steps.

`niso run homnist --preset released --method niso --data-dir MNIST --precision bf16-mixed --whole-step`: ten
milliseconds a step on an NVIDIA H200, two thirds of a second on one core of an Intel Xeon with bfloat16 matrix units.
Pairs recognise 71 % of the perturbed digits, triplets 81 % (results/homnist-long/released-50000-steps). With
`--head.cosine-steps None` pairs recognise 79 % and triplets, whose head has 10,000 steps then, 87 %
(benchmarks/results/heads-released.json and heads-released-triplet.json)."""

SMALL = HomnistConfig(
    rank=32,
    validation=0.1,
    conv=ConvConfig(channels=(32, 64), blocks=2, stem_channels=32, patch=2),
    spectrum="field",
    eigenvalues="shifted",
    multiplicity=0.01,
    multiplicity_decay=0.1,
    training=recipes.LATENT,
    completion=recipes.COMPLETION,
    head=Optimisation(steps=2_400, batch_size=64, learning_rate=2e-3, final_learning_rate=0.0, warmup_steps=100),
    label_smoothing=0.1,
    vector_neurons=recipes.HEAD,
    test_digits=5_000,
    test_copies=4,
    evaluation_pairs=2_000,
)
"""MNIST on one core: a network of 0.37 million parameters on half the resolution, and a test set of 20,000 images.

`niso run homnist --preset small --data-dir MNIST`, about a quarter of an hour in float32 on one core of an
AMD EPYC (Zen 3), two runs at a time. Records, without smoothed labels: results/homnist-small, in float32; with a
head of 800 steps, results/homnist-spectrum/field. Those of results/homnist have the operator as a table, too, and are
from before the validation split; settings were chosen on test digits, see docs/experiments/index.md ("How settings are
chosen")."""

MEDIUM = replace(
    SMALL,
    training=replace(SMALL.training, steps=3_000),
    head=replace(SMALL.head, steps=4_800),
    test_digits=None,
)
"""Like `small`, for longer; 40,000 test images.

`niso run homnist --preset medium --data-dir MNIST`, forty minutes on one core in float32. Records:
results/homnist-medium; with a table and from before the validation split: results/homnist/homnist-medium-*.json."""

LARGE = replace(
    MEDIUM,
    conv=ConvConfig(channels=(64, 128), blocks=2, stem_channels=48, latent_channels=64, patch=2),
    training=replace(SMALL.training, steps=12_000),
    test_copies=COPIES,
)
"""A wider network of 1.4 million parameters, and more latent channels, for longer; the whole test set.

`niso run homnist --preset large --data-dir MNIST --precision bf16-mixed --compile`, half an hour on one core of an
Intel Xeon with bfloat16 matrix units, beside another run. Expected: 99.4 % by niso-group, 98.7 % by niso. Records:
results/homnist-smoothed, of groups as `medium` with these settings."""

LONG = replace(
    SMALL,
    eigenvalues="cumulative",
    multiplicity=0.1,
    multiplicity_decay=1.0,
    training=Optimisation(steps=50_000, learning_rate=5e-4, final_learning_rate=5e-5, warmup_steps=2_000),
    head=replace(SMALL.head, steps=10_000),
    label_smoothing=0.0,
    test_digits=None,
    test_copies=COPIES,
)
"""The network of `small` with the published losses, eigenvalues, learning rate and steps; the whole test set.

Its operator is a field, with which validation digits are told better than with a published table; that is `--spectrum
table --rank 32 --conv.latent-channels 32`, with which `--start smooth --first-view transformed` lift pairs from 70 to
92 % after 12,000 steps, and from 73 to 94 % after all. Pairs are better with a tenth of the published weight of L_M,
`--multiplicity 0.01`: 94 to 99 % of the perturbed digits (three seeds) instead of 91 %
(results/homnist-long/multiplicity-0.01-50000-steps). So are triplets: 97.6 instead of 95.3 % after 12,000 steps, and
98.3 % after all (three seeds).

`niso run homnist --preset long --method niso --data-dir MNIST --precision 32-true --compile`, two hours on one core of
an Intel Xeon. Records: results/homnist-long."""

QUICK = replace(
    SMALL,
    digits="embedded",
    conv=ConvConfig(channels=(32,), blocks=2, stem_channels=32, patch=2),
    training=replace(SMALL.training, steps=3_000),
    head=replace(SMALL.head, steps=600),
    test_digits=None,
    test_copies=8,
    evaluation_pairs=500,
)
"""scikit-learn's digits, on 24×24 pixels: no download, a few minutes.

`niso run homnist`, about 3 minutes on one core of an AMD EPYC. Records, in float32:
results/homnist-labels/quick-smoothed; without smoothed labels results/homnist-quick; with a table and from before the
validation split: results/homnist/homnist-quick-*.json."""

_FEWER = {"rank": 16, "conv": {"latent_channels": 64}}
_PAIRS: dict[str, dict[str, Any]] = dict.fromkeys(("niso", "niso-no-equivariance", "niso-no-multiplicity"), _FEWER)
_RELATIVE: dict[str, dict[str, Any]] = {
    method: {"relative_equivariance": weight}
    for method, weight in (
        ("niso-triplet", 0.03),
        ("niso-group", 0.03),
        ("niso-vicreg", 0.03),
        ("niso-group-vicreg", 0.3),
    )
}
METHOD_SETTINGS = {
    "quick": _RELATIVE,
    "small": _PAIRS | _RELATIVE,
    "medium": _PAIRS | _RELATIVE,
    "large": _PAIRS | _RELATIVE,
    "long": _PAIRS,
}
"""What is better for one method alone, chosen on validation digits (docs/experiments/homnist-studies.md). Maps of fewer
eigenfunctions carry less of what a pair shows; others lose by them or gain nothing, and pairs lose at `quick`. A
relative weight of L_E is for methods whose maps transport other observations than they are solved from, or whose
invariants must vary: in other pairs it drives what a digit is from its invariants into its map."""

PRESETS: dict[str, Any] = {
    "quick": QUICK,
    "small": SMALL,
    "medium": MEDIUM,
    "large": LARGE,
    "long": LONG,
    "paper": PAPER,
    "released": RELEASED,
}
