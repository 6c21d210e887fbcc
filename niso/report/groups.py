"""Runs of one configuration together, and their metrics as means over seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from niso.config import flat
from niso.report.numbers import number, with_error
from niso.results import Known, Metric
from niso.training.run import Run

SHOWN = 6
"""Settings that the name of a configuration states at most."""
SHORT = 8
"""Characters of a commit that are shown."""
DATA = "data"
"""What names of configurations and reports call the setting `data_dir`."""


@dataclass(frozen=True)
class Estimate:
    """A metric over seeds."""

    metric: Metric
    seeds: Sequence[Any]
    values: Sequence[float]

    @property
    def mean(self) -> float:
        """NaN where a value is not finite."""
        finite = all(map(math.isfinite, self.values))
        return math.fsum(value / len(self.values) for value in self.values) if finite else math.nan

    @property
    def standard_error(self) -> float | None:
        """Of the mean, from the sample's standard deviation; None for a single value, NaN where one is not finite."""
        if len(self.values) < 2:
            return None
        finite = all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) / math.sqrt(len(self.values)) if finite else math.nan

    @property
    def worst(self) -> tuple[float, Any] | None:
        """The worst value, one that is not finite before any other, and its seed; None where neither way is better."""
        if self.metric.better is None:
            return None
        sign = 1 if self.metric.better == "higher" else -1
        pairs = zip(self.values, self.seeds, strict=True)
        return min(pairs, key=lambda pair: sign * pair[0] if math.isfinite(pair[0]) else -math.inf)

    def __str__(self) -> str:
        """Mean ± standard error."""
        error = self.standard_error
        return number(self.mean) if error is None else with_error(self.mean, error)


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in nothing but their seed.

    Attributes:
        settings: the settings in which it differs from other groups of the same preset and method, its data where run
            folders of any method have other data, and whether its runs repeat those of another; else empty.
        known: what the experiment says of its results.
    """

    preset: str
    method: str
    settings: str
    runs: Sequence[Run]
    known: Known

    @property
    def name(self) -> str:
        return " · ".join(filter(None, [self.preset, self.method, self.settings]))

    @property
    def seeds(self) -> list[Any]:
        return [run.seed for run in self.runs]

    @property
    def versions(self) -> str:
        """Which seeds were trained by which commit of the code, in words; empty where all were by the same."""
        seeds: dict[str, list[Any]] = {}
        for run in self.runs:
            seeds.setdefault(str(run.facts.get("commit") or "unknown")[:SHORT], []).append(run.seed)
        parts = (f"{commit} (seed {', '.join(map(str, same))})" for commit, same in seeds.items())
        return f"{self.name}: {'; '.join(parts)}" if len(seeds) > 1 else ""

    @property
    def published(self) -> Mapping[str, str]:
        """What others report of the method."""
        return self.known.published_of(self.method)

    def remark(self, metric: str) -> str:
        """How many of several runs have the metric, if not all, and the worst of them."""
        estimate, words = self.estimates[metric], []
        count = len(estimate.values)
        if count < len(self.runs):
            words.append(f"{count} of {len(self.runs)} runs")
        if estimate.worst is not None and count > 1:
            words.append(f"worst {number(estimate.worst[0])} (seed {estimate.worst[1]})")
        return ", ".join(words)

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """All metrics that any of its runs has; those that the experiment declares come first, in its order."""
        values = [run.metrics for run in self.runs]
        metrics = described(self.runs, self.known)
        keys = dict.fromkeys([*metrics, *(key for row in values for key in row)])
        estimates = {}
        for key in keys:
            having = [(run.seed, float(row[key])) for run, row in zip(self.runs, values, strict=True) if key in row]
            if having:
                estimates[key] = Estimate(metrics.get(key, Metric(key, "")), *zip(*having, strict=True))
        return estimates


def difference(first: Group, second: Group, metric: str) -> Estimate | None:
    """A metric of `first` less that of `second`, seed by seed; None where they have no two seeds in common.

    What both draw from a seed in the same way, such as the split of the data, is as easy or hard for either, and left
    out.
    """
    ours, theirs = (
        dict(zip(estimate.seeds, estimate.values, strict=True)) if estimate is not None else {}
        for estimate in (first.estimates.get(metric), second.estimates.get(metric))
    )
    seeds = [seed for seed in ours if seed is not None and seed in theirs]
    if len(seeds) < 2:
        return None
    return Estimate(first.estimates[metric].metric, seeds, [ours[seed] - theirs[seed] for seed in seeds])


def described(runs: Sequence[Run], known: Known) -> dict[str, Metric]:
    """What runs say of their metrics; of records, what the experiment declares.

    Those that the experiment declares come first, in its order.
    """
    declared = {metric.key: metric for metric in known.metrics}
    stated = {key: metric for run in reversed(runs) for key, metric in run.described.items()}
    return declared | stated


def grouped(runs: Iterable[Run], known: Known) -> list[Group]:
    """Finished runs of each configuration of one experiment, in the order of its presets and methods.

    Where a configuration has a seed twice, the second run of it makes a group "repetition 2", together with the other
    runs of its folder. Records from several folders are variants: the folder's name, with those of the folders around
    it where two are alike, takes the place of the preset's, or precedes it where the folder has several presets.
    """
    finished = [run for run in {run.path.resolve(): run for run in runs}.values() if run.finished]
    folders: dict[Path, set[str]] = {}
    for run in finished:
        if run.record is not None:
            folders.setdefault(run.path.resolve().parent, set()).add(run.kind[1])
    kinds: dict[tuple[str, str], list[Run]] = {}
    names = distinct_ends(folders)
    for run in finished:
        _, preset, method = run.kind
        if run.record is not None and len(folders) > 1:
            folder = run.path.resolve().parent
            preset = f"{names[folder]} {preset}" if len(folders[folder]) > 1 else names[folder]
        kinds.setdefault((preset, method), []).append(run)
    presets = list(dict.fromkeys(preset for preset, _ in kinds))
    data = _data([run for run in finished if run.record is None])

    def place(group: Group) -> tuple[int, int, int]:
        preset, method = known.place(group.preset, group.method)
        return preset, presets.index(group.preset), method

    groups = []
    for kind, members in kinds.items():
        configurations = {
            full if any(part.startswith(f"{DATA} = ") for part in full) else (*data.get(same[0], ()), *full): same
            for full, same in _configurations(members, known).items()
        }
        brief = {
            full: ", ".join([*full[:SHOWN], *([f"{len(full) - SHOWN} more"] * (len(full) > SHOWN))])
            for full in configurations
        }
        told = brief if len(set(brief.values())) == len(brief) else {full: ", ".join(full) for full in configurations}
        groups += [Group(*kind, told[full], _in_order(same), known) for full, same in configurations.items()]
    return sorted(groups, key=place)


def distinct_ends(paths: Iterable[Path]) -> dict[Path, str]:
    """The shortest ends of different paths that tell them apart."""
    paths = list(dict.fromkeys(paths))
    for parts in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        ends = {path: Path(*path.parts[-parts:]).as_posix() for path in paths}
        if len(set(ends.values())) == len(paths):
            return ends
    return {path: path.as_posix() for path in paths}


def _in_order(runs: Sequence[Run]) -> list[Run]:
    """By their seeds, where these are numbers."""
    numbered = all(isinstance(run.seed, int) for run in runs)
    return sorted(runs, key=lambda run: run.seed) if numbered else list(runs)


def _settings(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Settings of runs, and lengths that they had before, with their data by the shortest name that tells it apart;
    records know the last alone."""
    folders = _folders(runs)
    records = any(run.record is not None for run in runs)
    names = {path: path.name for path in folders.values()} if records else distinct_ends(folders.values())
    return [
        run.settings_of_results
        | {"data_dir": names[folders[run]] if run in folders else None}
        | {f"earlier {name}": lengths for name, lengths in (run.facts.get("changed") or {}).items()}
        for run in runs
    ]


def _folders(runs: Sequence[Run]) -> dict[Run, Path]:
    return {run: Path(str(run.settings["data_dir"])) for run in runs if run.settings.get("data_dir")}


def _data(runs: Sequence[Run]) -> dict[Run, tuple[str]]:
    """Which data each run is on, as "data = value"; empty where all are on the same."""
    folders = _folders(runs)
    names = distinct_ends(folders.values())
    texts = {run: json.dumps(names[folders[run]] if run in folders else None) for run in runs}
    return {run: (f"{DATA} = {text}",) for run, text in texts.items()} if len(set(texts.values())) > 1 else {}


def _configurations(runs: Sequence[Run], known: Known) -> dict[tuple[str, ...], list[Run]]:
    """Runs of one preset and method by the settings in which they differ, each seed once."""
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run, difference in zip(runs, _differences(_settings(runs), known), strict=True):
        alike.setdefault(difference, []).append(run)
    return {
        (f"repetition {number}", *difference) if number > 1 else difference: repetition
        for difference, same in alike.items()
        for number, repetition in enumerate(_repetitions(same), start=1)
    }


def _repetitions(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of one configuration, each seed once in a repetition.

    Where a seed is repeated, those of one folder stay together: a seed that one sweep lacks is not taken from another.
    """
    if len({run.seed for run in runs}) == len(runs):
        return [list(runs)]
    folders: dict[Path, list[list[Run]]] = {}
    for run in runs:
        own = folders.setdefault(run.path.resolve().parent, [])
        lacking = next((same for same in own if run.seed not in [other.seed for other in same]), None)
        if lacking is None:
            own.append(lacking := [])
        lacking.append(run)
    return [same for own in folders.values() for same in own]


def _differences(settings: Sequence[Mapping[str, Any]], known: Known) -> list[tuple[str, ...]]:
    """For each of these settings those that the others have not all alike, as "name = value".

    A setting that a record does not know has its default there; where that is not known either, it is off.
    """
    default = dict(_telling(known.defaults))
    flat = [dict(_telling(values)) for values in settings]
    names = dict.fromkeys(name for values in flat for name in values)
    optional = {name for name in names if not all(name in values for values in flat)}

    def text(values: Mapping[str, Any], name: str) -> str:
        value = values.get(name, default.get(name))
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 0 and 0.0 are one setting
        return json.dumps((value or None) if name in optional and name not in default else value, default=str)

    differing = [name for name in names if len({text(values, name) for values in flat}) > 1]
    words = {name: DATA if name == "data_dir" else name.removeprefix("config.") for name in differing}
    return [tuple(f"{word} = {text(values, name)}" for name, word in words.items()) for values in flat]


def _telling(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings by dotted names, without what names a run, and of the hardware only what changes its results."""
    for name, value in flat(settings):
        if name not in ("experiment", "preset", "method", "seed") and (
            not name.startswith("hardware.") or name == "hardware.precision"
        ):
            yield name, value
