"""Several runs beside each other: mean ± standard error over seeds, curves, pictures, and every seed's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from niso.errors import counted
from niso.files.writing import write_atomically
from niso.report import methods
from niso.report.curves import curve_pictures
from niso.report.groups import Estimate, Group, difference, distinct_ends, grouped
from niso.report.html import render
from niso.report.methods import MethodsTable
from niso.report.pictures import Embedded, embed, embed_drawn
from niso.report.text import text
from niso.results import Known
from niso.training.run import Run

Ask = Callable[[str], Known]
"""What is known of an experiment, by its name; see `niso.experiments.known`."""
WIDTH = 485
"""Pixels of a panel, so that two stand in a row."""
MOST = 8
"""Pictures of one name that are shown."""


@dataclass(frozen=True)
class Section:
    """What a page says of one experiment."""

    name: str
    runs: Sequence[Run]
    table: MethodsTable

    @cached_property
    def names(self) -> dict[Run, str]:
        """Of all runs; where two are alike, the shortest ends of their paths that differ."""
        names = {run: run.name for run in self.runs}
        if len(set(names.values())) == len(names):
            return names
        ends = distinct_ends(run.path.resolve() for run in names)
        return {run: ends[run.path.resolve()] for run in names}

    @property
    def unfinished(self) -> list[str]:
        return [self.names[run] for run in self.runs if not run.finished]

    @property
    def changed(self) -> list[str]:
        return [run.standing for run in self.runs if run.finished and run.standing]

    @property
    def groups(self) -> Sequence[Group]:
        return self.table.groups

    @property
    def notes(self) -> list[str]:
        """What the table leaves unsaid."""
        versions = "; ".join(filter(None, (group.versions for group in self.groups)))
        told = f"Seeds trained by different commits of the code. {versions}." if versions else ""
        table = self.table
        notes = table.same_note, table.sources, methods.fitting_note(table.metrics), self._architectures, told
        return [*filter(None, notes)]

    @property
    def _architectures(self) -> str:
        """Which runs chose which networks from the data, in words; empty where all have the same."""
        named: dict[str, list[str]] = {}
        for group in self.groups:
            chosen = {str((run.facts.get("chosen") or {}).get("architecture", "")) for run in group.runs} - {""}
            for architecture in sorted(chosen):
                named.setdefault(architecture, []).append(group.name)
        parts = (f"{architecture} ({', '.join(names)})" for architecture, names in named.items())
        words = f"The networks differ: {'; '.join(parts)}. Give the same --architecture to compare methods alone."
        return words if len(named) > 1 else ""

    @cached_property
    def differences(self) -> list[tuple[Group, Group, dict[str, Estimate]]]:
        """Each configuration of several seeds less the first such one of its preset, where they share two seeds."""
        firsts: dict[str, Group] = {}
        found = []
        for group in (group for group in self.groups if len(group.seeds) > 1):
            first = firsts.setdefault(group.preset, group)
            estimates = {key: difference(group, first, key) for key in self.table.metrics}
            known = {key: estimate for key, estimate in estimates.items() if estimate is not None}
            if first is not group and known:
                found.append((group, first, known))
        return found

    @cached_property
    def curves(self) -> list[Embedded]:
        return [embed_drawn(picture) for picture in curve_pictures(self.groups)]

    @cached_property
    def sets(self) -> dict[str, list[Embedded]]:
        """Pictures of the same name, by that name: of each configuration those of one run, or of a single one all.

        What `curves` shows is left out. What is one picture in all of them is shown once.
        """
        drawn = {name for group in self.groups for run in group.runs for name in run.curves}
        drawn |= self.table.known.pictures_of_curves
        files: dict[str, list[tuple[Group, Run, Path, str]]] = {}
        for group in self.groups:
            with_pictures = [run for run in group.runs if run.pictures]
            for run in with_pictures[:1] if len(self.groups) > 1 else with_pictures:
                for file, caption in run.pictures:
                    files.setdefault(file.stem, []).append((group, run, file, caption))
        several = {name: places for name, places in files.items() if len(places) > 1 and name not in drawn}
        return {name: _beside_each_other(places) for name, places in several.items()}


def _beside_each_other(places: Sequence[tuple[Group, Run, Path, str]]) -> list[Embedded]:
    """Pictures of one name for a page, of these runs; no caption twice."""
    group, run, file, caption = places[0]
    if len({_content(file) for _, _, file, _ in places}) == 1:
        return [embed(file, file.name, caption, origin=f"The same in these {len(places)} runs")]
    shown, told = list[Embedded](), set[str]()
    for group, run, file, caption in places[:MOST]:
        origin = f"{group.name} · seed {run.seed}"
        shown.append(embed(file, file.name, caption, WIDTH, origin, repeated=caption in told))
        told.add(caption)
    return shown


def _content(file: Path) -> bytes | Path:
    """What tells a picture from others: its content; of one that is not there its place."""
    try:
        return file.read_bytes()
    except OSError:
        return file


def sections(runs: Sequence[Run], known: Ask) -> list[Section]:
    """A section for each experiment, in order of appearance.

    Raises:
        ValueError: there is no run.
        InputError: a JSON file of a run, or a record, is damaged.
    """
    if not runs:
        raise ValueError("there are no runs to compare: name at least one run folder")
    experiments: dict[str, list[Run]] = {}
    for run in runs:
        experiments.setdefault(run.kind[0], []).append(run)
    made = []
    for name, members in experiments.items():
        about = known(name)
        made.append(Section(name, members, MethodsTable(grouped(members, about), about)))
    return made


def comparison_text(sections: Iterable[Section], width: int | None = None) -> str:
    """The tables of `write_comparison` in characters, for a terminal of this width; of several, each by its name."""
    tables = {section.name: text(section.table, width) for section in sections if section.groups}
    return "\n\n".join(f"{name}\n{table}" if len(tables) > 1 else table for name, table in tables.items())


def write_comparison(sections: Sequence[Section], out: Path) -> Path:
    """Write the comparison of several runs as one self-contained web page, and return its path.

    A row is one configuration. Runs that are not finished are named and left out.

    Raises:
        InputError: a JSON file of a run is damaged.
    """
    page = render(
        "comparison.html",
        title=f"Comparison of {counted(sum(len(section.runs) for section in sections), 'run')}",
        summary=["Mean ± standard error of the mean over seeds, then every seed."],
        sections=sections,
        arranged=methods.arranged,
        elsewhere=methods.ELSEWHERE,
        quoted_note=methods.QUOTED,
        most=MOST,
    )
    write_atomically(out, page)
    return out
