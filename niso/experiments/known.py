"""What experiments say of their results: what metrics mean, what is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from niso.experiments import EXPERIMENTS
from niso.results import RUN_METRICS, Known


def known(experiment: str) -> Known:
    """What an experiment says of its results; nothing where there is no such experiment (any more)."""
    if experiment not in EXPERIMENTS:
        return Known()
    kind = EXPERIMENTS.find(experiment)
    defaults = {"config": asdict(kind.config_class())}
    metrics, pictures = (*kind.metrics, *RUN_METRICS), kind.pictures_of_curves

    def started_from(preset: str, method: str) -> Mapping[str, Any]:
        return asdict(kind.settings_of(preset, method)) if preset in kind.presets else {}

    return Known(tuple(kind.presets), kind.methods(), metrics, kind.published, defaults, started_from, pictures)
