"""`niso run EXPERIMENT`: train and evaluate; a preset, overlaid by a configuration file, overlaid by flags."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from tyro.conf import arg, create_mutex_group

from niso.cli import short
from niso.cli.metrics import print_metrics
from niso.cli.options import make_launcher
from niso.cli.parsing import HELP_ALL, flags_of, named_options, parse, parse_known, refuse_unread
from niso.config import Hardware, read_yaml, require
from niso.errors import InputError, nearest
from niso.experiments import EXPERIMENTS
from niso.experiments.settings import Settings, check_known, check_method
from niso.files.json import parse_json
from niso.named_values import NamedValues
from niso.training.run import RUNS, Run

if TYPE_CHECKING:
    from niso.experiments.experiment import Experiment
    from niso.runs.cluster import Launcher

FIXING = ("precision", "compile", "whole_step", "threads")
"""Settings of the hardware that `--speed auto` chooses: one that a flag or a file sets turns it off."""

_ONE_OR_MORE = create_mutex_group(required=False, title="methods")


@dataclass(frozen=True)
class Options:
    """Options of every experiment."""

    preset: Annotated[str | None, arg(metavar="PRESET")] = None
    """Named settings; every other option overrides one of them."""
    config: Annotated[Path | None, arg(metavar="FILE")] = None
    """YAML file of settings, e.g. the config.yaml of another run; it overrides the preset. Or the record of a run, as
    `niso record` writes it, which is then trained again."""
    method: Annotated[str | None, _ONE_OR_MORE, arg(metavar="METHOD")] = None
    """What is trained."""
    methods: Annotated[tuple[str, ...] | None, _ONE_OR_MORE, arg(metavar="all|METHOD…")] = None
    """Several methods, or all: each seed of each in a folder inside --out."""
    seed: int = 0
    """Seed of everything random."""
    seeds: int = 1
    """Seeds to train, from --seed on, each in a folder inside --out."""
    parallel: int = 1
    """Runs to train side by side, each in a process of its own."""
    launcher: Literal["slurm", "local"] | None = None
    """Make each run a job of SLURM, and do not wait; "local": of this machine, to try that out. Needs submitit."""
    job: NamedValues = field(default_factory=dict)
    """With --launcher: parameters of the jobs as submitit names them, e.g. slurm_partition=gpu timeout_min=240."""
    data_dir: Annotated[Path | None, arg(aliases=("--data",))] = None
    """Local data instead of what is shipped with the libraries."""
    out: Path | None = None
    """Run folder; runs/EXPERIMENT-PRESET-METHOD-seedN by default."""
    hardware: Annotated[Hardware, arg(name="")] = field(default_factory=Hardware)

    def __post_init__(self) -> None:
        require(self, "seed")
        require(self, "seeds", "parallel", positive=True)


class Call(NamedTuple):
    """What `niso run` is asked for: one run, or several seeds and methods."""

    several: tuple[Settings, ...]
    """Of the first seed, for each method."""
    out: Path
    seeds: int
    parallel: int
    """How many runs at a time."""
    launcher: Launcher | None
    """Who starts the runs, if not this process."""

    @property
    def settings(self) -> Settings:
        """Of the first run."""
        return self.several[0]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(settings.method for settings in self.several)


def main(arguments: list[str], began: float | None = None) -> None:
    """`niso run …`, of a command that began at a time of `time.monotonic`."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(short.of_run(tuple(EXPERIMENTS)))
        return
    if arguments[:1] == [HELP_ALL]:
        about = "Train and evaluate an experiment in a new run folder, and write a report.\n\n"
        about += "`niso run EXPERIMENT --help-all` lists all settings of an experiment: " + ", ".join(EXPERIMENTS)
        parse(Options, "niso run EXPERIMENT", arguments, about=about)
    call = parse_run(arguments)
    from niso.runs import runner, sweep
    from niso.training.environment import called

    with called(["run", *arguments]):
        if call.seeds > 1 or len(call.methods) > 1 or call.launcher:
            print(sweep.run_sweep(call.several, call.seeds, call.out, call.parallel, call.launcher))
        else:
            print_metrics(runner.run(call.settings, call.out, began), call.out)


def parse_run(arguments: list[str]) -> Call:
    """What the arguments after `niso run` ask for.

    Raises:
        InputError: anything wrong with them, in one line.
        UnicodeEncodeError: a path holds bytes that are no text.
        SystemExit: help was asked for, and printed.
    """
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"`niso run` needs an experiment{nearest('', EXPERIMENTS)}")
    experiment, *rest = arguments
    kind, program = EXPERIMENTS.find(experiment), f"niso run {experiment}"
    first = parse_known(Options, program, rest)
    file = _read(first.config, kind, first) if first.config else {}
    given = _before_flags(kind, first.preset, first.config, file, first.method)
    if {"-h", "--help"} & set(rest):
        print(short.of_experiment(kind, given.preset, given.config, flags_of(kind.config_class)))
        raise SystemExit(0)
    every = make_options(kind)
    about = short.about(kind)

    def with_flags(given: Settings) -> Any:
        shared = {name: getattr(given, name) for name in ("preset", "method", "seed", "data_dir", "hardware")}
        return parse(every, program, rest, every(**shared, settings=given.config), about)

    options = with_flags(given)
    if first.method is None and first.methods is None and "method" not in file:
        options = replace(options, method=kind.default_method(options.settings, options.data_dir))
    methods = _methods(kind, options)
    available = kind.available(options.settings, options.data_dir) if len(methods) > 1 else methods
    for method in methods:
        if method not in available:  # before others are trained
            raise InputError(
                f"--methods: {method} lacks something in this data or these settings: --method {method} says what"
            )
    named = {path.removeprefix("settings."): flag for path, flag in named_options(every, rest).items()}
    values = {"seed": options.seed, "data_dir": options.data_dir, "hardware": _hardware(options.hardware, named)}
    several = []
    for method in methods:
        base = _before_flags(kind, first.preset, first.config, file, method)
        config = options.settings if base.config == given.config else with_flags(base).settings
        several.append(replace(given, **values, method=method, config=config))
    refuse_unread(named, [kind.unread(run.config, run.method, run.data_dir) for run in several])
    for path in filter(None, (options.out, options.data_dir)):
        str(path).encode()  # config.yaml and records could not name it
    _check_parallel(options, len(methods))
    named_methods = "all" if len(methods) > 1 and methods == available else "+".join(methods)
    out = options.out or RUNS / f"{kind.name}-{given.preset}-{named_methods}-{_seeds(options)}"
    launcher = make_launcher(options.launcher, options.job, options.parallel)
    return Call(tuple(several), out, options.seeds, options.parallel, launcher)


def _hardware(hardware: Hardware, named: Mapping[str, str]) -> Hardware:
    """That of the runs, of which nothing is chosen where a flag sets what `FIXING` holds.

    Args:
        named: flags that are given, by what they set.
    """
    fixed = [named[name] for name in (f"hardware.{name}" for name in FIXING) if name in named]
    if not fixed:
        return hardware
    if hardware.speed == "auto" and "hardware.speed" in named:
        raise InputError(f"--speed auto and {fixed[0]} exclude each other: leave one out")
    return replace(hardware, speed="exact")


def _check_parallel(options: Any, methods: int) -> None:
    """InputError where --parallel cannot be had, or has no effect on runs of so many methods."""
    if options.parallel == 1:
        return
    if options.hardware.devices * options.hardware.nodes > 1:
        raise InputError("--parallel trains each run in one process: leave --devices and --nodes at 1")
    if options.seeds == methods == 1 and not options.launcher:
        raise InputError("--parallel has no effect, leave it out: there is one run; --seeds and --methods make several")


def _seeds(options: Any) -> str:
    """The seeds of runs, in the name of their folder."""
    last = options.seed + options.seeds - 1
    return f"seed{options.seed}" if options.seeds == 1 else f"seeds{options.seed}-{last}"


def make_options(kind: type[Experiment]) -> type[Any]:
    """The dataclass of all options of an experiment, its settings among them."""
    return _options_with(cast(Hashable, kind.config_class))


@cache  # tyro reads the sources of a class that it has not met
def _options_with(config_class: type[Any]) -> type[Any]:
    settings_field = ("settings", Annotated[config_class, arg(name="")])
    return make_dataclass("Options", [settings_field], bases=(Options,), frozen=True, kw_only=True)


def _read(path: Path, kind: type[Experiment], options: Options) -> Mapping[Any, Any]:
    """What a file of settings holds; of a record all of them, those that are newer than it at their defaults.

    Raises:
        InputError: it cannot be read, is of another experiment, or is the record of a run on data that --data-dir must
            name, or beside which --preset would change nothing.
    """
    if not _is_record(path):
        file = read_yaml(path)
        _check_experiment(path, file, kind)
        return file
    values = dict(Run.read(path).settings)
    _check_experiment(path, values, kind)
    data = values.pop("data_dir", None)
    if data and not options.data_dir:
        raise InputError(f"{path} is the record of a run on the data {data}: give that by --data-dir")
    if options.preset not in (None, values["preset"]):
        raise InputError(f"--preset has no effect, leave it out: the record {path} has all settings")
    return Settings.load(values, path).dump()


def _is_record(path: Path) -> bool:
    """Whether a file is a record of a run, or a damaged one, and no file of settings that happens to be JSON."""
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return True
    return not isinstance(content, dict) or "config" not in content


def _check_experiment(path: Path, file: Mapping[Any, Any], kind: type[Experiment]) -> None:
    """InputError where settings are of another experiment."""
    if file.get("experiment", kind.name) != kind.name:
        raise InputError(f"{path} is a configuration of {file['experiment']!r}, not of {kind.name!r}")


def _before_flags(
    kind: type[Experiment], preset: str | None, path: Path | None, file: Mapping[Any, Any], method: str | None
) -> Settings:
    """A preset, with what a method has in its place, overlaid by what a configuration file holds.

    The file may name the preset and, unless one is given, the method.
    """
    for key in ("config", "hardware"):
        if not isinstance(file.get(key) or {}, Mapping):
            raise InputError(f"{path}: {key} must be a mapping, not {file[key]!r}")
    hardware = {"speed": "auto", **(file.get("hardware") or {})}
    if hardware["speed"] == "auto" and any(name in hardware for name in FIXING):  # as that of a run which chose them
        hardware["speed"] = "exact"
    preset = preset or file.get("preset", next(iter(kind.presets)))
    check_known("preset", preset, kind.presets)
    method = method or file.get("method")
    base = kind.settings_of(preset, method if isinstance(method, str) else None)
    values = {
        "method": kind.methods()[0],
        **file,
        "experiment": kind.name,
        "preset": preset,
        "config": _overlay(asdict(base), file.get("config")),
        "hardware": _overlay(asdict(Hardware()), hardware),
    }
    return Settings.load(values, path or Path("options"))


def _methods(kind: type[Experiment], options: Any) -> tuple[str, ...]:
    """The methods to train: those of --methods, or the one of --method."""
    if options.methods == ("all",):
        return kind.available(options.settings, options.data_dir)
    methods: tuple[str, ...] = (options.method,) if options.methods is None else options.methods
    if not methods:
        raise InputError(f"--methods needs one or more of {', '.join(kind.methods())}, or all")
    for method in methods:
        check_method(method, kind.methods())
    if len(set(methods)) < len(methods):
        raise InputError(f"--methods names a method twice: {' '.join(methods)}")
    return methods


def _overlay(base: dict[str, Any], changes: Mapping[Any, Any] | None) -> dict[str, Any]:
    """`base` with nested `changes`; keys that `base` lacks are kept, for `parse` to refuse them by name."""
    merged = dict(base)
    for key, value in (changes or {}).items():
        nested = isinstance(merged.get(key), dict) and isinstance(value, Mapping)
        merged[key] = _overlay(merged[key], value) if nested else value
    return merged
