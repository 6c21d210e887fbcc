"""The paper's experiments: one file each, one line here each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from niso.experiments.experiment import Experiment  # loads torch, which `niso --help` need not wait for

EXPERIMENTS = {
    "torus": "niso.experiments.laplacian.torus.Torus",
    "sphere": "niso.experiments.laplacian.sphere.Sphere",
    "homnist": "niso.experiments.homnist.experiment.Homnist",
    "shapes": "niso.experiments.shapes.experiment.Shapes",
    "pose": "niso.experiments.pose.experiment.Pose",
}


def find_experiment(name: str) -> type[Experiment]:
    """The class of an experiment, imported when asked for.

    Raises:
        InputError: there is no such experiment; names the nearest.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment {name!r}{nearest(name, EXPERIMENTS)}")
    module, _, attribute = EXPERIMENTS[name].rpartition(".")
    found: type[Experiment] = getattr(import_module(module), attribute)
    return found
