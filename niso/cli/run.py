"""`niso run EXPERIMENT`: train and evaluate; a preset, overlaid by a configuration file, overlaid by flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from tyro.conf import arg, create_mutex_group

from niso.cli.metrics import print_metrics
from niso.cli.parsing import parse, parse_known
from niso.config import Hardware, read_yaml, require
from niso.errors import InputError, nearest
from niso.experiments import EXPERIMENTS, find_experiment
from niso.experiments.experiment import Experiment
from niso.experiments.settings import Settings, check_choice, methods_of

FILE_KEYS = ("experiment", "preset", "method", "seed", "data_dir", "hardware", "config")

HELP = """usage: niso run EXPERIMENT [options]

Train and evaluate an experiment in a new run folder, and write a report.

experiments: {experiments}
`niso run EXPERIMENT --help` lists its presets, methods and settings."""

_ONE_OR_MORE = create_mutex_group(required=False, title="methods")


@dataclass(frozen=True)
class Base:
    """Options that decide what the others are by default."""

    preset: str | None = None
    """Named settings; every other flag overrides one of them."""
    config: Path | None = None
    """YAML file of settings, e.g. the config.yaml of another run; it overrides the preset."""


@dataclass(frozen=True)
class Options(Base):
    """Options of every experiment."""

    method: Annotated[str, _ONE_OR_MORE] = ""
    """What is trained."""
    methods: Annotated[tuple[str, ...] | None, _ONE_OR_MORE, arg(metavar="all|METHOD…")] = None
    """Several methods, or all: each seed of each in a folder inside --out."""
    seed: int = 0
    """Seed of everything random."""
    seeds: int = 1
    """Seeds to train, from --seed on, each in a folder inside --out."""
    parallel: int = 1
    """Runs to train side by side, each in a process of its own."""
    data_dir: Path | None = None
    """Local data instead of what is shipped with the libraries."""
    out: Path | None = None
    """Run folder; runs/EXPERIMENT-PRESET-METHOD-seedN by default."""
    hardware: Annotated[Hardware, arg(name="")] = field(default_factory=Hardware)

    def __post_init__(self) -> None:
        require(self, "seeds", "parallel", positive=True)


class Call(NamedTuple):
    """What `niso run` is asked for: one run, or several seeds and methods."""

    settings: Settings
    """Of the first run."""
    out: Path
    seeds: int
    methods: tuple[str, ...]
    parallel: int
    """How many runs at a time."""


def main(arguments: list[str]) -> None:
    """`niso run …`.

    Raises:
        NisoError: anything wrong with the call, the data or the training, in one line.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(HELP.format(experiments=", ".join(EXPERIMENTS)))
        return
    call = parse_run(arguments)
    if call.seeds > 1 or len(call.methods) > 1:
        from niso.runs.sweep import run_sweep

        print(run_sweep(call.settings, call.seeds, call.methods, call.out, call.parallel))
        return
    from niso.runs.runner import run

    print_metrics(run(call.settings, call.out), call.out)


def parse_run(arguments: list[str]) -> Call:
    """What the arguments after `niso run` ask for.

    Raises:
        InputError: anything wrong with them, in one line.
    """
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"`niso run` needs an experiment{nearest('', EXPERIMENTS)}")
    kind, program = find_experiment(arguments[0]), f"niso run {arguments[0]}"
    base = parse_known(Base, program, arguments[1:])
    given = _before_flags(kind, base)
    every = make_dataclass(
        "Options",
        [("settings", Annotated[kind.config_class, arg(name="")])],
        bases=(Options,),
        frozen=True,
        kw_only=True,
    )
    default = every(
        preset=given.preset,
        method=given.method,
        seed=given.seed,
        data_dir=given.data_dir,
        hardware=given.hardware,
        settings=given.config,
    )
    about = f"{kind.summary}\n\nPresets: {', '.join(kind.presets)}\n\nMethods: {', '.join(methods_of(kind))}"
    options: Any = parse(every, program, arguments[1:], default, about)
    methods = _methods(kind, options)
    values = {"method": methods[0], "seed": options.seed, "data_dir": options.data_dir}
    try:
        settings = replace(given, **values, hardware=options.hardware, config=options.settings)
    except ValueError as error:  # from the class's own checks
        raise InputError(str(error)) from error
    if options.parallel > 1 and settings.hardware.devices * settings.hardware.nodes > 1:
        raise InputError("--parallel trains each run in one process: leave --devices and --nodes at 1")
    last = options.seed + options.seeds - 1
    which = f"seed{options.seed}" if options.seeds == 1 else f"seeds{options.seed}-{last}"
    names = "all" if len(methods) > 1 and methods == kind.available(options.settings) else "+".join(methods)
    out = options.out or Path("runs") / f"{kind.name}-{given.preset}-{names}-{which}"
    return Call(settings, out, options.seeds, methods, options.parallel)


def _before_flags(kind: type[Experiment], base: Base) -> Settings:
    """The preset overlaid by the configuration file."""
    file = _read_file(base.config, kind) if base.config else {}
    preset = base.preset or file.get("preset", next(iter(kind.presets)))
    check_choice("preset", preset, kind.presets)
    values = {
        "method": methods_of(kind)[0],
        **file,
        "experiment": kind.name,
        "preset": preset,
        "config": _overlay(asdict(kind.presets[preset]), file.get("config")),
        "hardware": _overlay(asdict(Hardware()), file.get("hardware")),
    }
    return Settings.load(values, base.config or Path("options"))


def _methods(kind: type[Experiment], options: Options) -> tuple[str, ...]:
    """The methods to train: those of --methods, or the one of --method."""
    known = methods_of(kind)
    if options.methods is None:
        check_choice("method", options.method, known)
        return (options.method,)
    if not options.methods:
        raise InputError(f"--methods needs one or more of {', '.join(known)}, or all")
    if options.methods == ("all",):
        return kind.available(options.settings)  # type: ignore[attr-defined]
    for method in options.methods:
        check_choice("method", method, known)
    if len(set(options.methods)) < len(options.methods):
        raise InputError(f"--methods names a method twice: {' '.join(options.methods)}")
    return options.methods


def _read_file(path: Path, kind: type[Experiment]) -> dict[str, Any]:
    values = read_yaml(path)
    for key in values:
        if key not in FILE_KEYS:
            raise InputError(f"{path}: unknown setting {key!r}{nearest(str(key), FILE_KEYS)}")
    for key in ("config", "hardware"):
        if not isinstance(values.get(key) or {}, Mapping):
            raise InputError(f"{path}: {key} must be a mapping, not {values[key]!r}")
    if values.get("experiment", kind.name) != kind.name:
        raise InputError(f"{path} is a configuration of {values['experiment']!r}, not of {kind.name!r}")
    return values


def _overlay(base: dict[str, Any], changes: Mapping[Any, Any] | None) -> dict[str, Any]:
    """`base` with nested `changes`; keys that `base` lacks are kept, for `parse` to refuse them by name."""
    merged = dict(base)
    for key, value in (changes or {}).items():
        nested = isinstance(merged.get(key), dict) and isinstance(value, Mapping)
        merged[key] = _overlay(merged[key], value) if nested else value
    return merged
