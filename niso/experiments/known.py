"""What experiments say of their results: what metrics mean, what is published."""

from __future__ import annotations

from dataclasses import asdict

from niso.experiments import EXPERIMENTS
from niso.results import RUN_METRICS, Known


def known(experiment: str) -> Known:
    """What an experiment says of its results; nothing where there is no such experiment (any more)."""
    if experiment not in EXPERIMENTS:
        return Known()
    kind = EXPERIMENTS.find(experiment)
    defaults = {"config": asdict(kind.config_class())}
    metrics = (*kind.metrics, *RUN_METRICS)
    return Known(tuple(kind.presets), kind.methods(), metrics, kind.published, defaults)
