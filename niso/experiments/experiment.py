"""What an experiment provides; everything around it (run folder, training, report) is the runner's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from niso.collective import part_size
from niso.config import Optimisation, overlaid
from niso.errors import InputError
from niso.experiments.diagnosis import Finding, diagnose
from niso.experiments.own import Own
from niso.experiments.trial import tried_method, try_method
from niso.methods import METHODS
from niso.methods.method import Method, Networks
from niso.methods.part import Part, own_unread, unread_by
from niso.results import Metric, Published, Result
from niso.training.loop import Phase as Phase

if TYPE_CHECKING:
    from niso.report import Picture

PIXELS: dict[str, Any] = {"scaling": {"offset": [127.5], "scale": [127.5]}, "range": [0.0, 255.0]}
"""Scaling of pixels 0 … 255 to −1 … 1, and their range, see `Experiment.facts`."""


class Experiment(ABC):
    """Data, method and evaluation of one experiment, for one configuration and seed.

    A subclass lives in one file or folder of `niso.experiments` and is registered by one line there. It is constructed
    with torch's generator seeded, so that its parameters depend on the seed alone; `build` does the rest.

    Args:
        config: settings, of `config_class`.
        method: one of `methods()`.
        seed: of everything random.
        data_dir: the user's data; None for what niso has itself.
        device: where training computes.
        precision: a context that puts networks in the precision of the run, wherever they are called.
        chosen: the fact "chosen" of a training that has begun, see `facts`: it goes on with these networks, also where
            other ones would be chosen today.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """A paragraph for the report: what is done and what is to be seen."""
    config_class: ClassVar[type[Any]]
    presets: ClassVar[dict[str, Any]]
    preset_notes: ClassVar[dict[str, str]] = {}
    """Of each preset, in a line: what it costs, and what to expect."""
    method_settings: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}
    """Settings that a method has in place of its preset's: preset → method → nested values."""
    examples: ClassVar[dict[str, str]] = {}
    """Two calls for the help, and what each does."""
    main_settings: ClassVar[dict[str, str]] = {}
    """Flags of its own that people change, and what they do."""
    metrics: ClassVar[tuple[Metric, ...]]
    """What `evaluate` gives; the runner adds `niso.results.RUN_METRICS`."""
    figures: ClassVar[str]
    """The module whose `FIGURES` draw a result: functions of it, each giving one picture or several, in reading order.
    It is imported only where they are drawn."""
    targets: ClassVar[dict[str, dict[str, str]]] = {}
    """Goals of a preset's metrics, for the report: preset → key → text."""
    published: ClassVar[tuple[Published, ...]] = ()
    """What others report, for comparisons."""
    model_metric: ClassVar[str] = "relative_map_error"
    """Key of the metric that says most of a loaded model."""
    evaluation_settings: ClassVar[frozenset[str]] = frozenset()
    """Settings that metrics alone depend on, beside those named `evaluation_…`: a run may be resumed or evaluated with
    others. What part of the data is held out is none of them."""
    evaluation_facts: ClassVar[frozenset[str]] = frozenset()
    """Facts of the data that follow from these settings, and may therefore be others than when a run was trained."""
    pictures_of_curves: ClassVar[frozenset[str]] = frozenset()
    """Pictures that show curves of the result, under other names: a comparison draws these curves of several runs in
    one picture, and leaves out such pictures and those that are named as a curve."""
    announcement: str = ""
    """What is said before training: e.g. what was chosen from the data."""
    method: Method | None = None
    """What `make_method` gave to `build`; None where nothing of this kind is trained."""

    def __init__(
        self,
        config: Any,
        method: str,
        seed: int,
        data_dir: Path | None,
        device: torch.device,
        precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
        chosen: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.method_name, self.seed, self.chosen = config, method, seed, chosen
        self.data_dir, self.device, self.precision = data_dir, device, precision
        self.kind(method).own_settings(config)  # which names what is wrong with them, before the data is read
        self.build()

    @abstractmethod
    def build(self) -> None:
        """Open the data and make the untrained method.

        Raises:
            InputError: the data is missing or damaged, or the settings do not fit it.
        """

    def make_method(
        self,
        networks: Callable[[], Networks],
        settings: Any = None,
        observed: str = "observations",
        larger: str = "",
    ) -> Method:
        """The untrained method of the run, on its device. A spectrum that is not niso's own is tried.

        Args:
            observed, larger: see `niso.experiments.trial.tried_method`.

        Raises:
            InputError: see `niso.experiments.trial.tried_method`.
        """
        kind = METHODS.find(self.method_name)
        return tried_method(kind, settings or self.config, networks, self.precision, self.device, observed, larger)

    def try_first(self, phase: Phase) -> None:
        """Try what is not niso's own on the first batch of the first phase, before that is trained.

        Raises:
            InputError: see `niso.experiments.trial.try_method`.
        """
        if self.method is not None and self.method_name in METHODS.foreign:
            with torch.random.fork_rng([]):
                views = phase.sampler(0)
            try_method(self.method, phase.objective, views)

    @classmethod
    def settings_of(cls, preset: str, method: str | None = None) -> Any:
        """Settings of a preset, with those that this method has in their place."""
        own = cls.method_settings.get(preset, {}).get(method or "", {})
        return overlaid(cls.presets[preset], own)

    @classmethod
    @abstractmethod
    def methods(cls) -> tuple[str, ...]:
        """Names of the methods that suit it, the default first."""

    @classmethod
    def available(cls, config: Any, data_dir: Path | None = None) -> tuple[str, ...]:
        """Methods that have all they need in this configuration and data: what `--methods all` stands for."""
        return tuple(name for name in cls.methods() if cls.kind(name).available(config))

    @classmethod
    def kind(cls, method: str) -> type[Part]:
        """What a method is; errors as of `Registry.find`."""
        return METHODS.find(method)

    @classmethod
    def about(cls, method: str) -> str:
        """What a method is, in a sentence; empty where it does not say."""
        return cls.kind(method).about()

    @classmethod
    def reads(cls, method: str) -> frozenset[str]:
        """Settings that a method reads, or groups of them, of those that not all methods of the experiment read."""
        return cls.kind(method).settings()

    @classmethod
    def unread(cls, config: Any, method: str, data_dir: Path | None) -> dict[str, str]:
        """Settings that such a run does not read, or groups of them, and why: who names one on the command line is told
        so. A subclass adds those that its data and its other settings put out of force; "data_dir" is one of them.
        """
        others = {name: cls.reads(name) for name in cls.methods() if name != method}
        unread = {}
        for setting in sorted(frozenset().union(*others.values()) - cls.reads(method)):
            readers = [name for name, read in others.items() if setting in read]
            some = ", ".join(readers[:-1]) + " and " * (len(readers) > 1) + readers[-1]
            unread[setting] = f"the method {method} does not read it; {some} {'do' if len(readers) > 1 else 'does'}"
        return unread_by(cls.kind(method), config) | own_unread(cls.kind(method), method) | unread

    @classmethod
    def default_method(cls, config: Any, data_dir: Path | None) -> str:
        """The method that is trained where none is named."""
        return cls.methods()[0]

    def facts(self) -> dict[str, Any]:
        """What a run records of its data besides its settings, e.g. a split that was drawn.

        "data" says what observations are, for `niso.load`: `kind` and `shape`, see `niso.data.pairs.table.Kind`, and
        `scaling` with `offset` and `scale`, a number each or one a channel, by which values as a user has them become
        those that networks take. Values that lie far from `range`, the smallest and the largest value of the data, are
        refused. Scaled values are clipped to ±`clip`, and there may be any number of channels where `any_channels` is
        true. `classes` are the labels of a classifier, in the order of its scores. `preparation` says how maps of
        prepared shapes were prepared: others are refused. "chosen" is what else builds the networks again. All others
        say how the data is split: a run goes on, and is evaluated, with the same split alone.
        """
        return {}

    @classmethod
    def rebuild(cls, config: Any, facts: Mapping[str, Any], own: Own | None = None) -> tuple[Any, Networks]:
        """Settings of the method, and untrained networks, of a run: without its data, for `niso.load`.

        Args:
            facts: what the run recorded, see `facts`.
            own: encoder and decoder of the user's own, where the run was trained with such ones.

        Raises:
            InputError: the run cannot be built again; one line says why.
        """
        raise InputError(f"models of the experiment {cls.name} cannot be loaded: it does not implement `rebuild`")

    @classmethod
    def findings(cls, metrics: Mapping[str, float], method: str) -> tuple[Finding, ...]:
        """What the metrics of a method say is right and wrong: the command prints it after the notes of the result."""
        return tuple(diagnose(metrics, cls.reads(method), {field.name for field in fields(cls.config_class)}))

    @abstractmethod
    def phases(self) -> Iterator[Phase]:
        """The phases in order. A later one is built when the earlier ones are trained."""

    def weights(self, objective: nn.Module) -> dict[str, Tensor]:
        """What a run keeps for `niso.load`, after all phases: by default all of the last one's objective."""
        return objective.state_dict()

    @abstractmethod
    def evaluate(self) -> Result:
        """What came out, after all phases. Data is drawn by generators of the CPU: the same on every device."""

    @classmethod
    def draw(cls, result: Result) -> Iterator[Picture]:
        """Pictures of a result, in reading order; TypeError where there are no figures, or one gives something else."""
        from niso.report import Picture  # matplotlib is slow to import

        figures = getattr(import_module(cls.figures), "FIGURES", None)
        if not isinstance(figures, Iterable):
            given = type(figures).__name__
            raise TypeError(
                f"{cls.figures}: FIGURES must be a tuple of functions of a result, as (errors,), not {given}"
            )
        for figure in figures:
            drawn = figure(result)
            for picture in drawn if isinstance(drawn, Iterable) else [drawn]:
                if not isinstance(picture, Picture):
                    name = getattr(figure, "__name__", "a figure")
                    raise TypeError(
                        f"{cls.figures}: {name} gives a {type(picture).__name__}, not a niso.report.Picture"
                    )
                yield picture


def check_batch(method: Method, optimisation: Optimisation) -> None:
    """Refuse batches that a method's losses cannot be computed from.

    Args:
        optimisation: whose batches are taken, and in how many parts.

    Raises:
        InputError: the batch does not divide, a part cannot be cut into groups that share one T, or has too few
            observations to compare.
    """
    part = part_size(optimisation.batch_size, optimisation.accumulation)
    if part % method.group:
        raise InputError(f"a batch of {part} pairs cannot be cut into groups of {method.group}: choose a multiple")
    if (compared := optimisation.batch_size // optimisation.accumulation) < method.compared:
        raise InputError(
            f"the losses of this method compare at least {method.compared} pairs, and a step has {compared}: choose a "
            "larger --batch-size"
        )
