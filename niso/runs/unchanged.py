"""What must not have changed since a run was trained, where it goes on or is evaluated again: settings and data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from niso.config import flat
from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.registered import check_registered, naming_unknown
from niso.experiments.saved import REBUILT
from niso.experiments.settings import Settings
from niso.training.run import SETTINGS, Run

MAY_CHANGE = re.compile(r"data_dir|config\.evaluation_\w+|.*\.(steps|cosine_steps|accumulation)")
"""Settings that a run may be resumed or evaluated with though they have changed, beside those that its experiment
names: where its data lies now, what its metrics are computed on, and how long it is trained."""


def settings_as_trained(old: Run) -> Settings:
    """Settings of a run.

    Raises:
        InputError: config.yaml is no longer that of the run that was trained, or damaged; or as of `check_registered`.
    """
    with naming_unknown(old.path, old.facts):
        settings = Settings.of(old)
    if old.checkpoints or old.finished:
        check_registered(old.path, settings, old.facts)
    trained = _values(old.facts.get("settings", {}))
    asked = _values(settings.dump()) | _values(old.determining)  # what the file lacks has its default
    for name in differing(trained, asked):
        if name in trained and name in asked and not may_change(settings.experiment, name):
            now, before = (json.dumps(values[name], default=str) for values in (asked, trained))
            raise InputError(
                f"{old.path / SETTINGS}: {name.removeprefix('config.')} is {now}, but the run was trained with "
                f"{before}: undo that, or start a new run"
            )
    return settings


def settings_as_asked(old: Run, asked: Settings) -> Settings:
    """Settings of a run that is not finished, on the device that a call asks for. What `--speed auto` chose stays.

    Raises:
        InputError: a call asks for others, or as of `settings_as_trained`.
    """
    settings = settings_as_trained(old)
    before, now = _values(settings.dump()), _values(asked.dump())
    for name in differing(before, now):
        chosen = name.startswith("hardware.") and name != "hardware.speed"
        if not chosen:
            was, given = (json.dumps(values.get(name), default=str) for values in (before, now))
            setting = name.removeprefix("config.").removeprefix("hardware.")
            raise InputError(
                f"{old.path} holds an unfinished run in which {setting} is {was}, not {given}: "
                "give the same, choose another folder, or remove it first"
            )
    return replace(settings, hardware=replace(settings.hardware, accelerator=asked.hardware.accelerator))


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Dotted names of settings, nested or by such names, in which two differ, in alphabetical order."""
    one, other = _values(first), _values(second)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names; those that a part names are one value, so that one is missed that came or went."""
    return dict(flat(settings, named=False))


def may_change(experiment: str, setting: str) -> bool:
    """Whether a run may be resumed or evaluated with another value of a setting, by its dotted name."""
    own = EXPERIMENTS.find(experiment).evaluation_settings
    return setting.removeprefix("config.") in own or bool(MAY_CHANGE.fullmatch(setting))


def check_split(folder: Run, drawn: Mapping[str, Any], may_differ: frozenset[str]) -> None:
    """Check that a run is not tested on what it was trained on.

    Args:
        drawn: facts of the data, as it is now.
        may_differ: those of them that an evaluation may change.

    Raises:
        InputError: its data, or how it is split, has changed.
    """
    facts, now = folder.facts, {key: drawn[key] for key in drawn.keys() - {*REBUILT, *may_differ}}
    changed = {key for key in now if facts.get(key, now[key]) != now[key]}
    if changed and "content" in now.keys() - changed:
        problem = (
            "its data is split, labelled or grouped in another way than when it was trained: bring back its labels, "
            "groups and sources, its settings and version of niso"
        )
    elif changed:
        problem = "its data has changed since it was trained: bring back what it was trained on"
    else:
        return
    raise InputError(f"{folder.path}: {problem}, or start a new run")
