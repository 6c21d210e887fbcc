"""Configuration: frozen dataclasses, read from and written to YAML; the settings that all experiments share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, get_args, get_type_hints

import yaml

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

C = TypeVar("C")

SPECTRAL = (
    "eigenfunction_learning_rate",
    "eigenvalue_learning_rate",
    "mass_learning_rate",
    "eigenfunction_beta2",
    "eigenfunction_eps",
    "eigenvalues_frozen",
)
"""The settings of `Optimisation` that are for a learned spectrum alone."""

MOST_THREADS = 1024
"""CPU threads of a process: far more than that, and the OpenMP library ends it."""


class Strict:
    """Base of configuration dataclasses: pydantic, which reads them from YAML, refuses unknown keys."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Optimisation(Strict):
    """How one phase is optimised: AdamW with a linear warm-up and a cosine decay of the learning rate.

    Raises:
        TypeError: a setting that is not a number, or not a whole one where it counts something.
        ValueError: a setting that is negative, not finite, or zero where it must be positive.
    """

    steps: int = 50_000
    """Optimiser steps."""
    batch_size: int = 16
    """Examples (pairs, triplets) of a step, over all processes."""
    learning_rate: float = 5e-4
    """Learning rate after the warm-up."""
    final_learning_rate: float = 5e-5
    """Learning rate at the end of the cosine; `learning_rate` where that is less, so that the rate never rises."""
    warmup_steps: int = 2_000
    """Steps of linear warm-up from 0, at most half of all steps."""
    cosine_steps: int | None = None
    """Where the cosine ends, if not at the last step (the released code: 1,000,000)."""
    weight_decay: float = 1e-4
    """Decoupled weight decay, on all parameters."""
    eigenfunction_learning_rate: float | None = None
    """Peak learning rate of eigenfunctions, where not `learning_rate`. It follows the same schedule."""
    eigenvalue_learning_rate: float | None = None
    """Peak learning rate of eigenvalues, where not `learning_rate`."""
    mass_learning_rate: float | None = None
    """Peak learning rate of the mass, where not `learning_rate`."""
    eigenfunction_beta2: float = 0.999
    """Decay rate of AdamW's second moments of the eigenfunctions."""
    eigenfunction_eps: float = 1e-8
    """What AdamW adds to the root of the eigenfunctions' second moments: it must lie below their gradients."""
    eigenvalues_frozen: float = 0.0
    """Share of the steps, from the first on, in which the eigenvalues stay where they start."""
    accumulation: int = 1
    """Parts that each process computes its examples in, one after the other, to save memory; gradients add up. Losses
    that compare examples (groups, contrastive, vicreg, relative and whitened ones) see one part at a time, and each
    part draws its own dropout."""

    def __post_init__(self) -> None:
        require(self, "steps", "batch_size", "accumulation", "cosine_steps", positive=True)
        require(self, "warmup_steps")
        require(self, "learning_rate", positive=True)
        require(self, "final_learning_rate", "weight_decay", "eigenfunction_eps")
        require(self, "eigenfunction_learning_rate", "eigenvalue_learning_rate", "mass_learning_rate")
        require(self, "eigenfunction_beta2", "eigenvalues_frozen", most=1.0)
        if self.eigenfunction_beta2 == 1:  # second moments would stay empty
            raise ValueError("eigenfunction_beta2 must be less than 1, got 1")

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0.

        Raises:
            ValueError: a step below 0.
        """
        if step < 0:
            raise ValueError(f"steps are counted from 0, got {step}")
        warmup = min(self.warmup_steps, self.steps // 2)
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        fraction = min(1.0, (step - warmup) / max(1, (self.cosine_steps or self.steps) - warmup))
        high = self.learning_rate
        low = min(self.final_learning_rate, high)
        return low + (high - low) * (1 + math.cos(math.pi * fraction)) / 2


@dataclass(frozen=True)
class Hardware(Strict):
    """Where and how a run computes."""

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    """Device kind; "auto" takes a GPU where there is one."""
    devices: int = 1
    """Processes on this machine, each with a GPU of its own or a share of the cores."""
    nodes: int = 1
    """Machines, as started by torchrun or SLURM."""
    speed: Literal["auto", "exact"] = "exact"
    """"auto" measures which precision, compilation and number of threads are fastest here, and takes these. "exact"
    takes what is set: by default float32, eager, one thread, which gives the same numbers bit for bit. Setting
    precision, compilation or threads means "exact"."""
    precision: Literal["32-true", "bf16-mixed", "64-true"] = "32-true"
    """Precision of encoder and decoder; the spectral part is never below float32."""
    compile: bool = False
    """Compile encoder and decoder: a minute at the first start, faster steps. A CPU needs a C++ compiler."""
    whole_step: bool = False
    """Compile everything from a batch to its loss terms as one, and its backward pass, the spectral part included."""
    threads: int = 1
    """CPU threads of a process. One is fastest for small SVDs; more pay for convolutions."""
    checkpoint_seconds: float = 30.0
    """Time between checkpoints: the most that a kill can cost."""

    def __post_init__(self) -> None:
        require(self, "devices", "nodes", "threads", positive=True)
        if self.threads > MOST_THREADS:
            raise ValueError(f"threads must be at most {MOST_THREADS}, got {self.threads}")
        require(self, "checkpoint_seconds")

    def alone(self) -> Hardware:
        """The same for one process, on a machine that perhaps lacks the GPU that was asked for."""
        accelerator = "auto" if self.accelerator == "gpu" else self.accelerator
        return replace(self, devices=1, nodes=1, accelerator=accelerator)


def flat(settings: Mapping[str, Any], prefix: str = "", named: bool = True) -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted names, e.g. training.steps.

    Args:
        named: whether settings that a part names, as those of `action_settings`, are told apart, too; otherwise they
            are one value.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping) and (named or not name.endswith("_settings")):
            yield from flat(value, f"{prefix}{name}.", named)
        else:
            yield f"{prefix}{name}", value


def overlaid(config: Any, changes: Mapping[str, Any]) -> Any:
    """A configuration with nested changes, checked anew."""
    nested = {
        name: overlaid(getattr(config, name), value) if is_dataclass(getattr(config, name)) else value
        for name, value in changes.items()
    }
    return replace(config, **nested)


def require(
    config: DataclassInstance, *names: str, positive: bool = False, least: int = 0, most: float = math.inf
) -> None:
    """Check that settings are numbers ≥ 0 (or > 0), at least `least` and at most `most`; or None where they may be.

    Raises:
        TypeError: one is not a number, or not a whole one where its annotation asks for that; the message names it.
        ValueError: one is too small or too large; the message names it.
    """
    annotations = {field.name: str(field.type) for field in fields(config)}
    for name in names:
        if (value := getattr(config, name)) is None:
            continue
        whole = "float" not in annotations[name]
        kind: Any = Integral if whole else Real
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
        if not value >= 0 or (positive and value == 0):  # NaN is neither
            raise ValueError(f"{name} must {'be positive' if positive else 'not be negative'}, got {value}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
        if value > most or value == math.inf:
            raise ValueError(f"{name} must be {'finite' if value == math.inf else f'at most {most:g}'}, got {value}")


@cache  # reports parse every metric of every run
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # networks and their configurations do without it

    return TypeAdapter(cast(Any, kind))


def to_yaml(config: Any) -> str:
    """A configuration (a dataclass, or a dictionary of them) as YAML, in the order of its fields."""
    values = _adapter(cast(Hashable, Any)).dump_python(config, mode="json")
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file that holds a mapping.

    Raises:
        InputError: the file is missing or is not a YAML mapping.
    """
    try:
        content = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read configuration {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # PyYAML makes numbers and dates of words
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        given = "it is empty" if content is None else f"not {type(content).__name__}"
        raise InputError(f"{path} must hold a mapping of settings, {given}")
    return content


def _parsed(text: str) -> Any:
    """The value of a YAML text. libyaml is much faster, which shows where many runs are compared; but it recurses
    without a limit, and says less of what is wrong: deep and faulty texts are for the other."""
    indented = (len(line) - len(line.lstrip(" -?:")) for line in text.splitlines())
    shallow = text.count("[") + text.count("{") < 100 and max(indented, default=0) < 100
    if shallow and yaml.__with_libyaml__:
        with suppress(yaml.YAMLError):
            return yaml.load(text, yaml.CSafeLoader)
    return yaml.safe_load(text)


def parse(kind: type[C], values: Any, source: Path | str) -> C:
    """A configuration from plain values, strictly: an unknown key or a wrong value is an error.

    Raises:
        InputError: one line that names the setting and, for an unknown one, the nearest right name.
    """
    from pydantic import ValidationError

    try:
        return cast(C, _adapter(cast(Hashable, kind)).validate_python(values))
    except ValidationError as error:
        problem = error.errors()[0]
        *parents, name = [str(part) for part in problem["loc"]] or [""]
        if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            raise InputError(f"{source}: unknown setting {name!r}{nearest(name, _names(kind, parents))}") from error
        message = problem["msg"].removeprefix("Value error, ")
        where = ".".join([*parents, name])
        raise InputError(f"{source}: {f'{where}: ' if where else ''}{message}") from error


def _names(kind: Any, parents: list[str]) -> list[str]:
    """Field names of the dataclass found by walking down `parents` from `kind`."""
    for parent in parents:
        hint = get_type_hints(kind).get(parent, kind)
        options = [hint, *get_args(hint)]
        kind = next((option for option in options if is_dataclass(option)), kind)
    return [field.name for field in fields(kind)]
