"""Several runs beside each other: mean ± standard error over seeds, curves, pictures, and every seed's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from niso.files import write_atomically
from niso.report import methods
from niso.report.curves import curve_pictures
from niso.report.groups import Group, grouped
from niso.report.html import render
from niso.report.methods import MethodsTable
from niso.report.pictures import Embedded, embed, embed_drawn
from niso.results import Known
from niso.training.run import Run

Ask = Callable[[str], Known]
"""What is known of an experiment, by its name; see `niso.experiments.known`."""
WIDTH = 485
"""Pixels of a picture, so that two stand in a row."""
MOST = 8
"""Pictures of one name that are shown."""


def nothing(experiment: str) -> Known:
    """What is known where nobody was asked."""
    return Known()


@dataclass(frozen=True)
class Section:
    """What a page says of one experiment."""

    name: str
    table: MethodsTable
    groups: Sequence[Group]
    unfinished: Sequence[str]

    @property
    def notes(self) -> list[str]:
        return [note for note in (self.table.sources, methods.fitting_note(self.table.metrics)) if note]

    @cached_property
    def curves(self) -> list[Embedded]:
        return [embed_drawn(picture) for picture in curve_pictures(self.groups, self.table.known)]

    @cached_property
    def sets(self) -> dict[str, list[Embedded]]:
        """Pictures of the same name, by that name: of each configuration those of one run, or of a single one all."""
        groups = sorted(self.groups, key=lambda group: self.table.known.place(group.preset, group.method))
        with_pictures = [(group, [run for run in group.runs if run.pictures]) for group in groups]
        shown = [(group, run) for group, runs in with_pictures for run in (runs[:1] if len(groups) > 1 else runs)]
        sets: dict[str, list[tuple[Path, str, str]]] = {}
        for group, run in shown:
            for file, caption in run.pictures:
                sets.setdefault(file.stem, []).append((file, caption, f"{group.name} · seed {run.seed}"))
        return {name: _embedded(entries[:MOST]) for name, entries in sets.items() if len(entries) > 1}

    @property
    def sets_note(self) -> str:
        each = "one run of each row, the first seed" if len(self.groups) > 1 else "every seed"
        return f"Figures of the same name, from {each}; at most {MOST}. A caption is not repeated."

    @property
    def seeds(self) -> list[Group]:
        """Groups of several seeds, in the order of the table."""
        several = [group for group in self.groups if len(group.runs) > 1]
        return sorted(several, key=lambda group: self.table.known.place(group.preset, group.method))


def comparison_table(runs: Sequence[Run], known: Ask = nothing) -> list[dict[str, Any]]:
    """One row for each experiment, preset, method, difference in settings and metric of the finished runs.

    Returns:
        Rows with the keys "experiment", "preset", "method", "settings" (those that differ, as text), "metric",
        "description", "mean", "standard_error" (of the mean, from the sample's standard deviation; None for one run),
        "seeds" and "values" (one a run), "worst" and "worst_seed" (None where neither direction is better).

    Raises:
        ValueError: there is no run.
        InputError: a JSON file of a run, or a record, is damaged.
    """
    rows = []
    for section in _sections(runs, known):
        for group in section.groups:
            for key, estimate in group.estimates(section.table.known).items():
                worst = estimate.worst
                rows.append(
                    {
                        **{name: getattr(group, name) for name in ("experiment", "preset", "method", "settings")},
                        "metric": key,
                        "description": estimate.metric.text,
                        "mean": estimate.mean,
                        "standard_error": estimate.standard_error,
                        "seeds": list(estimate.seeds),
                        "values": list(estimate.values),
                        "worst": None if worst is None else estimate.values[worst],
                        "worst_seed": None if worst is None else estimate.seeds[worst],
                    }
                )
    return rows


def comparison_text(runs: Sequence[Run], known: Ask = nothing, width: int | None = None) -> str:
    """The tables of `write_comparison` in characters, for a terminal of this width.

    Raises:
        As for `comparison_table`.
    """
    return "\n\n".join(methods.text(section.table, width) for section in _sections(runs, known) if section.table.ours)


def write_comparison(runs: Sequence[Run], out: Path, known: Ask = nothing) -> Path:
    """Write the comparison of several runs as one self-contained web page.

    A row is one configuration. Runs that are not finished are named and left out.

    Args:
        known: what experiments say of their results.

    Returns:
        `out`.

    Raises:
        As for `comparison_table`.
    """
    sections = _sections(runs, known)
    page = render(
        "comparison.html",
        title=f"Comparison of {len(runs)} run{'s' if len(runs) > 1 else ''}",
        summary=["Mean ± standard error of the mean over seeds, then every seed."],
        sections=sections,
    )
    write_atomically(out, page)
    return out


def _sections(runs: Sequence[Run], known: Ask) -> list[Section]:
    """A section for each experiment, in order of appearance."""
    if not runs:
        raise ValueError("there are no runs to compare: name at least one run folder")
    experiments: dict[str, list[Run]] = {}
    for run in runs:
        experiments.setdefault(run.kind[0], []).append(run)
    sections = []
    for name, members in experiments.items():
        about = known(name)
        groups = grouped(members, about.defaults)
        unfinished = [run.name for run in members if not run.finished]
        sections.append(Section(name, MethodsTable.of(groups, about), groups, unfinished))
    return sections


def _embedded(entries: Sequence[tuple[Path, str, str]]) -> list[Embedded]:
    """Pictures by file, caption and origin; a caption is said once."""
    said: set[str] = set()
    embedded = []
    for file, caption, origin in entries:
        embedded.append(embed(file, file.name, "" if caption in said else caption, WIDTH, origin))
        said.add(caption)
    return embedded
