"""Options of `niso run`: a preset, overlaid by a configuration file, overlaid by flags, all from the dataclasses."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from dataclasses import asdict, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from niso.cli.parsing import first_message
from niso.config import Hardware, read_yaml
from niso.errors import InputError, nearest
from niso.experiments import EXPERIMENTS, find_experiment
from niso.experiments.experiment import Experiment
from niso.experiments.settings import Settings

FILE_KEYS = ("experiment", "preset", "method", "seed", "data_dir", "hardware", "config")


class Call(NamedTuple):
    """What `niso run` is asked for: one run, or several seeds and methods."""

    settings: Settings
    """Of the first run."""
    out: Path
    seeds: int
    methods: tuple[str, ...]
    parallel: int
    """How many runs at a time."""


def parse_run(arguments: list[str]) -> Call:
    """What the arguments after `niso run` ask for.

    Raises:
        InputError: anything wrong with them, in one line.
    """
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"`niso run` needs an experiment{nearest('', EXPERIMENTS)}")
    kind = find_experiment(arguments[0])
    rest = arguments[1:]
    source = _value_of("--config", rest)
    file = _read_file(Path(source), kind) if source else {}
    preset = _value_of("--preset", rest) or file.get("preset", next(iter(kind.presets)))
    if preset not in list(kind.presets):
        raise InputError(f"unknown preset {preset!r}{nearest(str(preset), kind.presets)}")
    given = Settings.load(
        {
            "method": kind.methods[0],
            **file,
            "experiment": kind.name,
            "preset": preset,
            "config": _overlay(asdict(kind.presets[preset]), file.get("config")),
            "hardware": _overlay(asdict(Hardware()), file.get("hardware")),
        },
        Path(source or "options"),
    )
    options = _parse_flags(_options_class(kind), rest, given)
    methods = _methods(kind, options, rest)
    values = {"method": methods[0], "seed": options.seed, "data_dir": options.data_dir}
    try:
        settings = replace(given, **values, hardware=options.hardware, config=options.settings)
    except ValueError as error:  # from the class's own checks
        raise InputError(str(error)) from error
    for flag in ("seeds", "parallel"):
        if getattr(options, flag) < 1:
            raise InputError(f"--{flag} must be at least 1, got {getattr(options, flag)}")
    if options.parallel > 1 and settings.hardware.devices * settings.hardware.nodes > 1:
        raise InputError("--parallel trains each run in one process: leave --devices and --nodes at 1")
    last = options.seed + options.seeds - 1
    which = f"seed{options.seed}" if options.seeds == 1 else f"seeds{options.seed}-{last}"
    whose = "all" if len(methods) > 1 and methods == kind.available(options.settings) else "+".join(methods)
    out = options.out or Path("runs") / f"{kind.name}-{preset}-{whose}-{which}"
    return Call(settings, out, options.seeds, methods, options.parallel)


def _methods(kind: type[Experiment], options: Any, arguments: list[str]) -> tuple[str, ...]:
    """The methods to train: those of --methods, or the one of --method."""
    given: tuple[str, ...] = options.methods
    if _value_of("--methods", arguments) is None:
        return (options.method,)
    if _value_of("--method", arguments) is not None:
        raise InputError("--method and --methods exclude each other: leave one out")
    if not given:
        raise InputError(f"--methods needs one or more of {', '.join(kind.methods)}, or all")
    if given == ("all",):
        return kind.available(options.settings)
    if "all" in given or len(set(given)) < len(given):
        raise InputError(f"--methods names a method twice: {' '.join(given)}")
    return given


def _value_of(flag: str, arguments: list[str]) -> str | None:
    """Value of a flag that decides how the others are read; the last one counts."""
    value = None
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            value = argument.partition("=")[2]
        elif argument == flag:
            if index + 1 == len(arguments):
                raise InputError(f"{flag} needs a value")
            value = arguments[index + 1]
    return value


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


_METHODS = "Several methods, or all, instead of --method: each seed of each in a folder inside --out."


def _options_class(kind: type[Experiment]) -> type:
    def option(type_: Any, text: str) -> Any:
        return Annotated[type_, tyro.conf.arg(help=text)]

    several: Any = tuple[Literal[(*kind.methods, "all")], ...]  # type: ignore[valid-type]  # known only now
    return make_dataclass(
        "Options",
        [
            (
                "preset",
                option(Literal[tuple(kind.presets)], "Named settings; every flag below overrides one of them."),
            ),
            ("method", option(Literal[kind.methods], "What is trained.")),
            ("seed", option(int, "Seed of everything random.")),
            ("methods", option(several, _METHODS)),
            ("seeds", option(int, "Seeds to train, from --seed on, each in a folder inside --out.")),
            ("parallel", option(int, "Runs to train side by side, each a process of its own.")),
            ("data_dir", option(Path | None, "Local data instead of what is shipped with the libraries.")),
            ("out", option(Path | None, "Run folder; runs/EXPERIMENT-PRESET-METHOD-seedN by default.")),
            ("config", option(Path | None, "YAML file of settings, e.g. the config.yaml of another run.")),
            ("settings", Annotated[kind.config_class, tyro.conf.arg(name="")]),
            ("hardware", Annotated[Hardware, tyro.conf.arg(name="")]),
        ],
        frozen=True,
    )


def _parse_flags(kind: type, arguments: list[str], given: Settings) -> Any:
    default = kind(
        preset=given.preset,
        method=given.method,
        seed=given.seed,
        methods=(),
        seeds=1,
        parallel=1,
        data_dir=given.data_dir,
        out=None,
        config=None,
        settings=given.config,
        hardware=given.hardware,
    )
    program = f"niso run {given.experiment}"
    problem = io.StringIO()
    try:
        with contextlib.redirect_stderr(problem):
            options, unknown = tyro.cli(kind, args=arguments, default=default, prog=program, return_unknown_args=True)
    except ValueError as error:  # from a dataclass's own checks
        raise InputError(str(error)) from error
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InputError(first_message(problem.getvalue())) from stop
    if unknown and not unknown[0].startswith("-"):
        raise InputError(f"unexpected argument {unknown[0]!r}")
    if unknown:
        hint = nearest(unknown[0], _flags(kind, default))
        hint = hint if "did you mean" in hint else f"; `{program} --help` lists all"
        raise InputError(f"unknown option {unknown[0]!r}{hint}")
    return options


def _flags(kind: type, default: Any) -> list[str]:
    """All flags, from the help text."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        tyro.cli(kind, args=["--help"], default=default)
    return sorted(set(re.findall(r"--[a-z][a-z0-9-]*[a-z0-9]", text.getvalue())))
