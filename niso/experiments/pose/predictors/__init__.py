"""Predictors of relative poses: the head on a method's maps, and baselines, each one file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.experiments.pose.predictors.predictor import Baseline

BASELINES: Registry[type[Baseline]] = Registry(
    "method",
    {
        "vit": "niso.experiments.pose.predictors.transformer.FramePredictor",
        "dinov2": "niso.experiments.pose.predictors.pretrained.DinoV2",
        "beit": "niso.experiments.pose.predictors.pretrained.Beit",
        "constant-motion": "niso.experiments.pose.predictors.constant_motion.ConstantMotion",
    },
    base="niso.experiments.pose.predictors.predictor.Baseline",
    group=__name__,
)
