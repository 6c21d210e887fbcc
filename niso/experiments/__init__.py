"""Experiments: the paper's and the user's own, a file or a folder and a line here each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.experiments.experiment import Experiment  # loads torch, which `niso --help` need not wait for

EXPERIMENTS: Registry[type[Experiment]] = Registry(
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
)
