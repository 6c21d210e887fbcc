"""What an experiment provides; everything around it (run folder, training, report) is `runner`'s."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from niso.config import Optimisation
from niso.results import Published
from niso.training.loop import Sampler

if TYPE_CHECKING:
    from niso.report import Picture


@dataclass(frozen=True)
class Phase:
    """One stretch of training: pre-training, or a head on top of it."""

    name: str
    objective: nn.Module
    sampler: Sampler
    optimisation: Optimisation


class Curve(TypedDict):
    """A figure y against x, each point a mean over `count` examples."""

    x: list[float]
    y: list[float]
    count: list[int]
    x_label: str
    y_label: str


class Experiment(ABC):
    """Data, models and evaluation of one experiment of the paper, for one configuration, method and seed.

    A subclass is one file of `niso.experiments`, registered by one line there. It is constructed with torch's
    generator seeded, so that its parameters depend on the seed alone.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """A paragraph for the report: what is done and what is to be seen."""
    config_class: ClassVar[type[Any]]
    presets: ClassVar[dict[str, Any]]
    methods: ClassVar[tuple[str, ...]] = ("niso",)
    metric_descriptions: ClassVar[dict[str, str]]
    targets: ClassVar[dict[str, dict[str, str]]] = {}
    """Goals of a preset's figures, for the report: preset → key → text."""
    published: ClassVar[tuple[Published, ...]] = ()
    """What others report, for comparisons of several runs."""

    def __init__(self, config: Any, method: str, seed: int, data_dir: Path | None, device: torch.device) -> None:
        self.config, self.method, self.seed, self.data_dir, self.device = (
            config,
            method,
            seed,
            data_dir,
            device,
        )
        self.autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Where networks are called outside of training: puts them in the precision of the run."""

    @classmethod
    def available(cls, config: Any) -> tuple[str, ...]:
        """Methods that a configuration has all for that they need: what `--methods all` stands for."""
        return cls.methods

    def facts(self) -> dict[str, Any]:
        """What a run is to record of its data beside its settings, e.g. a split that was drawn."""
        return {}

    @abstractmethod
    def phases(self) -> Iterator[Phase]:
        """The phases in order. A later one is built when the earlier ones are trained."""

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """Final figures, after all phases, by the keys of `metric_descriptions`."""

    def curves(self) -> dict[str, Curve]:
        """Figures that depend on something, by name: the report draws those of several runs in one picture."""
        return {}

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """What viewers and other programs may want of the results: the run folder gets each as NAME.safetensors."""
        return {}

    @abstractmethod
    def pictures(self) -> list[Picture]:
        """Figures for the report, in reading order."""
