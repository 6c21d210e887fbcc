"""Experiments: the paper's and the user's own, a file or a folder and a line here each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.errors import InputError
from niso.registry import Registry

if TYPE_CHECKING:
    from niso.experiments.experiment import Experiment  # loads torch, which `niso --help` need not wait for

REQUIRED = "summary", "config_class", "presets", "metrics", "figures"
"""What a class of an experiment says of itself, beside its name: some of it is read only after the training."""


class Experiments(Registry["type[Experiment]"]):
    """The registry of experiments, whose classes say their names, too."""

    def find(self, name: str) -> type[Experiment]:
        """The experiment of this name.

        Raises:
            InputError: see `Registry.find`; or its class has another name, or lacks something.
        """
        kind, where = super().find(name), f"experiment {name!r}: its class {self[name]}"
        if (own := getattr(kind, "name", None)) != name:
            raise InputError(f"{where} has name = {own!r}: give it this name")
        if missing := [part for part in REQUIRED if not hasattr(kind, part)]:
            raise InputError(
                f"{where} lacks {', '.join(missing)}: niso.experiments.experiment.Experiment says what it is"
            )
        return kind


EXPERIMENTS = Experiments(
    "experiment",
    {
        "torus": "niso.experiments.torus.experiment.Torus",
        "sphere": "niso.experiments.sphere.experiment.Sphere",
        "homnist": "niso.experiments.homnist.experiment.Homnist",
        "shapes": "niso.experiments.shapes.experiment.Shapes",
        "pose": "niso.experiments.pose.experiment.Pose",
        "descriptors": "niso.experiments.descriptors.experiment.Descriptors",
        "pairs": "niso.experiments.pairs.experiment.Pairs",
    },
    base="niso.experiments.experiment.Experiment",
    group=__name__,
)
