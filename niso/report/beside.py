"""Pictures of several runs side by side: those of the same name, from one run of each preset and method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from niso.report.html import Markup, element, join, picture
from niso.report.measured import Kind, Measured
from niso.results import Known

WIDTH = 485
"""Pixels of a picture, so that two stand in a row."""
MOST = 8
"""Pictures of one name that are shown."""


def side_by_side(groups: Mapping[Kind, Sequence[Measured]], known: Known, numbers: Iterator[int]) -> Markup:
    """A heading for each name, with the pictures of that name; nothing where no two runs share one.

    Of each preset and method there is one run, the first that is finished; of a single one, every seed is shown.
    """
    finished = {kind: [run for run in group if run.finished] for kind, group in groups.items()}
    several = sum(map(bool, finished.values())) > 1
    kinds = sorted((kind for kind in finished if finished[kind]), key=lambda kind: known.place(*kind[1:]))
    shown = [run for kind in kinds for run in (_with_pictures(finished[kind])[: 1 if several else None])]
    captions: dict[str, dict[int, tuple[Path, str]]] = {}
    for index, run in enumerate(shown):
        for file, caption in run.pictures:
            captions.setdefault(file.stem, {})[index] = (file, caption)
    parts = []
    for name, files in captions.items():
        if len(files) < 2:
            continue
        drawn, said = [], set[str]()
        for index, (file, caption) in list(files.items())[:MOST]:
            drawn.append(_picture(shown[index], file, "" if caption in said else caption, next(numbers)))
            said.add(caption)
        parts += [element("h4", name.replace("_", " ")), element("div", *drawn, class_="pictures")]
    if not parts:
        return Markup("")
    each = "one run of each preset and method, the first seed" if several else "every seed"
    words = f"Pictures of the same name, from {each}; at most {MOST}. A caption said once is not repeated."
    return join([element("h3", "Pictures side by side"), element("p", words, class_="note"), *parts])


def _with_pictures(runs: Sequence[Measured]) -> list[Measured]:
    return [run for run in runs if run.pictures]


def _picture(run: Measured, file: Path, caption: str, index: int) -> Markup:
    _, preset, method = run.kind
    title = element("b", f"{preset} · {method} · seed {run.seed}.")
    try:
        return picture(file.read_bytes(), join([title, " ", caption]), index, WIDTH)
    except (OSError, ValueError):
        return element("p", f"Picture {index} of {run.name} is missing or damaged: {file.name}", class_="warning")
