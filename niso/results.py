"""What an evaluation gives: metrics, curves, and what others have published beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from torch import Tensor

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A number that an evaluation gives.

    Attributes:
        key: its name in metrics.json.
        text: what it is, in a few words.
        better: the direction that is better; None where neither is.
        unit: the unit, e.g. "s" or "°"; empty where there is none.
    """

    key: str
    text: str
    better: Better | None = None
    unit: str = ""


RUN_METRICS = (
    Metric("steps", "optimiser steps of all phases"),
    Metric("seconds", "time of training of all phases", "lower", "s"),
    Metric(
        "seconds_wall",
        "time from the start of the command to these metrics: data, training, evaluation; with interrupted commands, "
        "and of one that was killed at once the training alone",
        "lower",
        "s",
    ),
    Metric("seconds_pretrain", "time of pre-training", "lower", "s"),
    Metric("seconds_completion", "time of training under occlusion", "lower", "s"),
    Metric("seconds_head", "time of training the head, and what is trained on with it", "lower", "s"),
)
"""What the runner itself measures of a run: of any experiment, with the time of each phase that it has."""


class Curve(TypedDict):
    """A metric y against x; each point is a mean over `count` examples. `logarithmic` axes are y or xy."""

    x: list[float]
    y: list[float]
    count: list[int]
    x_label: str
    y_label: str
    logarithmic: NotRequired[str]


@dataclass
class Result:
    """What an experiment's evaluation gives. Figures are functions of it, and an experiment adds what they need.

    Attributes:
        metrics: values by the keys of the experiment's metrics.
        curves: metrics that depend on something, by name, in lists, arrays or tensors; a report draws those of several
            runs in one figure.
        tensors: what viewers and other programs read; the run folder gets each as NAME.safetensors.
        notes: what is to be said of the metrics, a sentence each; the command prints them, and the report shows them.
    """

    metrics: dict[str, float]
    curves: dict[str, Curve] = field(default_factory=dict, kw_only=True)
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Published:
    """What others report of one method.

    Attributes:
        name: the method, as they call it.
        values: values by the key of the metric that they correspond to, in its unit and with the digits given,
            e.g. {"accuracy": "0.9252 ± 0.0091"}.
        source: where they stand, and what they were measured on.
        method: our name of the same method; None where we have none.
    """

    name: str
    values: Mapping[str, str]
    source: str
    method: str | None = None


def of_paper(section: str) -> str:
    """Where values of the paper stand.

    Args:
        section: and on what they were measured, e.g. "§5.1".
    """
    return (
        f"Mitchel, Taylor and Sitzmann, Neural Isometries, NeurIPS 2024 ({section}, mean and standard error of five "
        "runs; equivariance error: appendix, which does not say what its ± is)"
    )


@dataclass(frozen=True)
class Known:
    """What an experiment says of its results; any of it may be empty.

    Attributes:
        presets: in the order of a table's rows.
        methods: likewise.
        metrics: in the order of a table's columns.
        published: what others report.
        defaults: settings of records from before there were such, as in a config.yaml.
        started_from: the `config` that a preset and a method begin with; empty where there is no such preset.
        pictures_of_curves: pictures of a run that a comparison leaves out, for it draws their curves; those that are
            named as a curve are left out in any case.
    """

    presets: Sequence[str] = ()
    methods: Sequence[str] = ()
    metrics: Sequence[Metric] = ()
    published: Sequence[Published] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    started_from: Callable[[str, str], Mapping[str, Any]] = field(default=lambda preset, method: {}, repr=False)
    pictures_of_curves: frozenset[str] = frozenset()

    def published_of(self, method: str) -> Mapping[str, str]:
        """Published values of a method of ours."""
        return next((entry.values for entry in self.published if entry.method == method), {})

    def place(self, preset: str, method: str) -> tuple[int, int]:
        """Where a preset and a method stand among the others; last where they are unknown."""
        pairs = ((self.presets, preset), (self.methods, method))
        first, second = (known.index(name) if name in known else len(known) for known, name in pairs)
        return first, second


def sources(published: Iterable[Published]) -> str:
    """Who reports which values: "method, method — source; method — source"."""
    names: dict[str, list[str]] = {}
    for entry in published:
        names.setdefault(entry.source, []).append(entry.name)
    return "; ".join(f"{', '.join(methods)} — {source}" for source, methods in names.items())
