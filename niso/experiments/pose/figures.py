"""Figures of a pose result, in the order in which its report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from niso import figures
from niso.experiments import map_figures
from niso.experiments.pose.cases import Path, Strip
from niso.experiments.pose.experiment import PoseResult
from niso.figures.style import ORANGE, above_and_below, parts, styled, wrapped
from niso.report import Picture

LEGEND = 0.3
"""Inches below the panels for the legend of all."""


def trajectories(result: PoseResult) -> list[Picture]:
    """True and predicted paths of held-out sequences: the best, the worst, and some in between."""
    return [
        Picture(
            f"trajectories_skip{skip}",
            f"Paths of the camera through held-out sequences, with {_left_out(skip)}: the true path (dashed, starting "
            "at the circle) and the path that the predicted relative poses compose to, after the similarity that "
            "brings it nearest to the truth, reflections allowed. Each view is along the direction in which the true "
            "path is thinnest. The titles give the errors √(3n)·ATE, the smallest and the largest among them.",
            draw_paths(paths),
        )
        for skip, paths in result.cases.paths.items()
    ]


def failures(result: PoseResult) -> list[Picture]:
    """The held-out sequences, and the pairs of frames, with the largest errors."""
    cases = result.cases
    if not cases.worst:
        return []
    return [
        Picture(
            "failures",
            f"Failure cases: the held-out sequences with the largest errors √(3n)·ATE, with {_left_out(cases.skip)}. "
            "Each row shows the paths as above, and frames from the first to the last.",
            draw_failures(cases.worst),
        ),
        Picture(
            "failures_pairs",
            "Failure cases: the pairs of frames (one above the other) whose predicted rotation is furthest from the "
            f"truth, with {_left_out(cases.skip)}; each is the worst pair of its sequence.",
            draw_pairs(cases.pairs),
        ),
    ]


def frames(result: PoseResult) -> list[Picture]:
    """Held-out pairs of frames and the method's predictions; nothing where it pre-trains nothing."""
    if result.pairs is None:
        return []
    caption = "Two frames of held-out sequences."
    return [map_figures.transported("frames", caption, result.pairs, lambda views: views.float().permute(0, 2, 3, 1))]


def maps(result: PoseResult) -> list[Picture]:
    """Maps between frames that are further and further apart; nothing where the method has no maps."""
    if not result.maps:
        return []
    largest = map_figures.LARGEST
    rows = [(f"skip {skip}", tau.abs().clamp_max(largest)) for skip, tau in result.maps.items()]
    return [
        Picture(
            "maps",
            f"{result.map_text}, between the first frame of a held-out sequence (one per column) and a later one, with "
            f"{', '.join(map(str, result.maps))} frames left out between the two. Entries above {largest:g} are cut "
            "off.",
            figures.image_rows(rows),
        )
    ]


def _left_out(skip: int) -> str:
    return f"{skip} frame{'s' * (skip != 1)} left out between neighbours"


@styled
def draw_paths(shown: Sequence[Path]) -> Figure:
    """Panels of a true and a predicted path each, in the plane in which the true path is widest."""
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure((10, 3 * down + LEGEND))
    for column, part in enumerate(parts(figure, across)):
        above, below = above_and_below(part, 3 * down, LEGEND)
        for axes, path in zip_longest(above.subplots(down, 1, squeeze=False)[:, 0], shown[column::across]):
            if path is None:
                axes.axis("off")
            else:
                _draw_path(axes, path, 36)
        if column == 0:
            below.legend(*above.axes[0].get_legend_handles_labels(), loc="center", ncols=2, frameon=False)
    return figure


@styled
def draw_failures(rows: Sequence[tuple[Path, Strip]]) -> Figure:
    """A row for each sequence: its paths, and some of its frames."""
    widths = [2.2, *(1.0 for _ in rows[0][1])]
    height = max(1.7, 10 / sum(widths) * _tallest(strip for _, strip in rows) + 0.4)
    figure = Figure((10, height * len(rows) + LEGEND))
    cells = figure.subplots(len(rows), len(widths), squeeze=False, width_ratios=widths)
    for (first, *others), (path, strip) in zip(cells, rows, strict=True):
        _draw_path(first, path, 30)
        for axes, image in zip(others, strip, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
    figure.legend(*cells[0][0].get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False)
    return figure


@styled
def draw_pairs(columns: Sequence[tuple[str, Strip]]) -> Figure:
    """A column for each pair of frames, the title above it."""
    titles = [wrapped(title, 24) for title, _ in columns]
    lines = max(title.count("\n") + 1 for title in titles)
    figure = Figure((1.65 * len(columns), 3.3 * _tallest(pair for _, pair in columns) + 0.15 * lines))
    cells = figure.subplots(2, len(columns), squeeze=False)
    for column, title, (_, pair) in zip(cells.T, titles, columns, strict=True):
        for axes, image in zip(column, pair, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
        column[0].set_title(title, fontsize=8)
    return figure


def _tallest(strips: Iterable[Strip]) -> float:
    """Largest height of a frame, as a share of its width."""
    return max(strip.shape[1] / strip.shape[2] for strip in strips)


def _draw_path(axes: Axes, shown: Path, letters: int) -> None:
    """Paths that fill their panel, in one scale, and a title of so many letters a line."""
    title, truth, predicted = shown
    centre = truth.mean(0)
    plane = torch.linalg.svd(truth - centre, full_matrices=False).Vh[:2].mT
    true, guess = ((path - centre) @ plane for path in (truth, predicted))
    axes.plot(*guess.mT.tolist(), color=ORANGE, label="predicted")
    axes.plot(*true.mT.tolist(), color="black", linestyle="--", linewidth=1, label="true")
    axes.plot(*true[:1].mT.tolist(), color="black", marker="o", markersize=4)
    axes.set_title(wrapped(title, letters))
    axes.margins(0.1)
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(True)


FIGURES = (
    trajectories,
    failures,
    frames,
    maps,
    lambda result: map_figures.eigenfunctions(result.operator),
    lambda result: map_figures.mask(result.operator, result.pairs.maps if result.pairs else None, "held-out pairs"),
    lambda result: map_figures.mass(result.operator),
)
