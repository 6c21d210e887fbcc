"""Help that fits a screen: what a command does, examples, presets, and the settings that people change."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from niso.cli.options import Command
    from niso.experiments.experiment import Experiment

WIDTH = 100
COMMON = {
    "preset": "named settings; every other option changes one of them",
    "method": "what is trained; --methods A B … or all trains several",
    "seeds": "how many runs, from --seed N on; --parallel N of them at a time",
    "data-dir": "your data instead of what comes with the libraries",
    "out": "run folder; runs/EXPERIMENT-PRESET-METHOD-seedN by default",
    "steps": "optimiser steps",
    "rank": "eigenfunctions k, and size of the maps, but of those of niso-no-basis",
    "multiplicity": "weight β of the loss that splits the spectrum",
    "spectrum": "table: one number a point; field: a function of the place",
    "precision": "32-true, bf16-mixed or 64-true; --compile; with neither, --speed auto or exact",
    "devices": "processes on this machine, each with a GPU of its own; --nodes N machines",
}
"""Options that people change, and what they do."""
OF_SOME = {"steps", "rank", "multiplicity", "spectrum"}
"""Those of them that are settings of some experiments alone."""
UNNAMED = ("training", "reading")
"""Groups of settings whose flags have no prefix."""


def of_run(experiments: Sequence[str]) -> str:
    """Help of `niso run` without an experiment."""
    lines = [
        "usage: niso run EXPERIMENT [--preset PRESET] [--SETTING VALUE …]",
        "",
        "Train and evaluate an experiment in a new run folder, and write a report.",
        "",
        *_table(
            "examples",
            {
                "niso run torus": "the paper's smallest experiment, a minute or so",
                "niso run pairs --data pictures --transform homography": "your own pictures",
            },
        ),
        "",
        f"experiments: {', '.join(experiments)}",
        "",
        *_table("options that people change", {f"--{flag}": text for flag, text in COMMON.items()}),
        "",
        "`niso run EXPERIMENT --help` has its presets with what they cost; `--help-all` lists every option.",
    ]
    return "\n".join(lines)


def of_experiment(kind: type[Experiment], preset: str, config: Any, flags: Mapping[str, str]) -> str:
    """Help of one experiment.

    Args:
        preset: whose values are shown.
        config: its settings.
        flags: of the settings, by their paths: {"training.steps": "--steps"}.
    """
    values = dict(_flags(asdict(config), flags))
    shown = {}
    for name, text in {**COMMON, **kind.main_settings}.items():
        # an experiment of one's own may have its settings of training in a group with a prefix
        flag = next((flag for flag in (f"--{name}", f"--training.{name}") if flag in values), f"--{name}")
        if flag in values or name not in OF_SOME:
            shown[flag if values.get(flag) is None else f"{flag} {values[flag]}"] = text
    name = kind.name
    lines = [
        f"usage: niso run {name} [--preset PRESET] [--SETTING VALUE …]",
        "",
        *_first_sentences(kind.summary),
        "",
        *[*_table("examples", kind.examples), ""] * bool(kind.examples),
        *_table("presets", {preset: kind.preset_notes.get(preset, "") for preset in kind.presets}),
        "",
        *textwrap.wrap(f"methods: {', '.join(kind.methods())}", WIDTH, subsequent_indent="  ", break_on_hyphens=False),
        *_of_methods(kind, preset, flags),
        "",
        *_table(f"settings that people change, with values of {preset}", shown),
        "",
        f"`niso run {name} --help-all` says what each method is, and lists every setting.",
    ]
    return "\n".join(lines)


def about(kind: type[Experiment]) -> str:
    """What an experiment does, and what its presets and methods are: the beginning of its long help."""
    return "\n".join(
        [
            *textwrap.wrap(kind.summary, WIDTH),
            "",
            *_table("presets", {preset: kind.preset_notes.get(preset, "") for preset in kind.presets}),
            "",
            *_table("methods", {method: kind.about(method) for method in kind.methods()}),
        ]
    )


def _first_sentences(text: str) -> list[str]:
    """As many whole sentences as four lines hold, and at least one."""
    shown, *others = re.split(r"(?<=\.) ", text)
    for sentence in others:
        if len(textwrap.wrap(f"{shown} {sentence}", WIDTH)) > 4:
            break
        shown = f"{shown} {sentence}"
    return textwrap.wrap(shown, WIDTH)


def of_command(kind: type[Command], program: str) -> str:
    """Help of a command with many options: its docstring, `examples` and `main_settings`."""
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    lines = [
        f"usage: {program} {kind.takes} [--OPTION VALUE …]",
        "",
        *(line for text in paragraphs for line in [*textwrap.wrap(" ".join(text.split()), WIDTH), ""]),
        *_table("examples", kind.examples),
        "",
        *_table("options that people change", {f"--{flag}": text for flag, text in kind.main_settings.items()}),
        "",
        f"`{program} --help-all` lists every option.",
    ]
    return "\n".join(lines)


def _table(title: str, entries: Mapping[str, str]) -> list[str]:
    width = max(map(len, entries), default=0)
    return [f"{title}:", *(f"  {entry:<{width}}  {text}".rstrip() for entry, text in entries.items())]


def _of_methods(kind: type[Experiment], preset: str, flags: Mapping[str, str]) -> list[str]:
    """Which methods have settings of their own."""
    methods: dict[str, list[str]] = {}
    for method, values in kind.method_settings.get(preset, {}).items():
        methods.setdefault(" ".join(f"{flag} {value}" for flag, value in _flags(values, flags)), []).append(method)
    named = {", ".join(names): flags for flags, names in methods.items()}
    return ["", *_table(f"methods with values of their own in {preset}", named)] * bool(named)


def _flags(settings: Mapping[str, Any], flags: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Flags and values of nested settings that have a flag."""
    from niso.config import flat  # loads YAML, which the help of most commands need not wait for

    for path, value in flat(settings):
        if path in flags:
            yield flags[path], value
