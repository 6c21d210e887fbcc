"""Predictors of relative poses: the head on a method's maps, and baselines, each one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from niso.experiments.pose.predictors.predictor import Baseline

BASELINES = {
    "vit": "niso.experiments.pose.predictors.transformer.FramePredictor",
    "dinov2": "niso.experiments.pose.predictors.pretrained.DinoV2",
    "beit": "niso.experiments.pose.predictors.pretrained.Beit",
    "constant-motion": "niso.experiments.pose.predictors.constant_motion.ConstantMotion",
}


def find_baseline(name: str) -> type[Baseline]:
    """The class of a baseline, imported when asked for.

    Raises:
        InputError: there is no such baseline; names the nearest.
    """
    if name not in BASELINES:
        raise InputError(f"unknown method {name!r}{nearest(name, BASELINES)}")
    module, _, attribute = BASELINES[name].rpartition(".")
    baseline: type[Baseline] = getattr(import_module(module), attribute)
    return baseline
