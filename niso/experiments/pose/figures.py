"""Figures of a pose result, in the order in which its report shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from niso import figures
from niso.errors import counted
from niso.experiments import map_figures
from niso.experiments.diagnosis import REVERSED
from niso.experiments.pose.cases import DrawnPath, Strip
from niso.experiments.pose.evaluation import by_skip
from niso.experiments.pose.experiment import PoseResult
from niso.experiments.pose.passing import SKIP
from niso.figures.style import BLUE, GREY, RED, above_and_below, parts, styled, wrapped
from niso.report import Picture

LEGEND = 0.3
"""Inches below the panels for the legend of all."""


def trajectories(result: PoseResult) -> Iterator[Picture]:
    """True and predicted paths of held-out sequences: the best, the worst, and some in between."""
    for skip, paths in result.cases.paths.items():
        yield Picture(
            f"trajectories_skip{skip}",
            f"Paths of the camera through held-out sequences, with {_left_out(skip)}: the true path (dashed, starting "
            "at the circle), the path that the predicted relative poses compose to, and that of the training "
            "sequences' mean motion, each after the similarity that brings it nearest to the truth, reflections "
            "allowed. Each view is along the direction in which the true path is thinnest. The titles give the errors "
            "√(3n)·ATE, the smallest and the largest among them, those of the mean motion, and the mean angle between "
            "predicted and true directions of travel, which the alignment does not show: red above 90°.",
            draw_paths(paths),
        )


def errors(result: PoseResult) -> Iterator[Picture]:
    """Mean errors by the frame skip, and those of trivial predictions."""
    shown = {key: lines for key, lines in ((key, _lines(result.metrics, key)) for key in _ERRORS) if lines}
    if not shown:
        return
    yield Picture(
        "errors",
        "Mean errors on held-out sequences by the frames left out between neighbours, and those of predictions "
        "that look at no frame. A method whose line is not below the others has learned less than they know. Above "
        "90° (red), predicted directions of travel are nearer to the opposite of the true ones.",
        draw_errors(shown),
    )


def covered(result: PoseResult) -> Iterator[Picture]:
    """Errors against the share of frames that passing objects cover, beside those of the mean motion."""
    curves = {"ate_normalised": "ate_by_covered_share", "rotation_error_deg": "rotation_error_by_covered_share"}
    shown = {}
    for key, name in curves.items():
        if (curve := result.curves.get(name)) is not None:
            lines = {"method": curve["y"]}
            if (trivial := result.metrics.get(f"fitted_motion_{key}_skip{SKIP}")) is not None:
                lines["mean motion"] = [trivial] * len(curve["x"])
            shown[key] = {label: dict(zip(curve["x"], line, strict=True)) for label, line in lines.items()}
    if not shown:
        return
    yield Picture(
        "covered",
        "Mean errors on held-out sequences against the share of each frame that an object covers as it passes in "
        f"front of the camera, with {_left_out(SKIP)}, and those of the training sequences' mean motion.",
        draw_errors(shown, "covered share of frames"),
    )


def failures(result: PoseResult) -> Iterator[Picture]:
    """The held-out sequences, and the pairs of frames, with the largest errors."""
    cases = result.cases
    if not cases.worst:
        return
    yield Picture(
        "failures",
        f"Failure cases: the held-out sequences with the largest errors √(3n)·ATE, with {_left_out(cases.skip)}. "
        "Each row shows the paths as above, and frames from the first to the last.",
        draw_failures(cases.worst),
    )
    yield Picture(
        "failures_pairs",
        "Failure cases: the pairs of frames (one above the other) whose predicted rotation is furthest from the "
        f"truth, with {_left_out(cases.skip)}; each is the worst pair of its sequence.",
        draw_pairs(cases.pairs),
    )


def frames(result: PoseResult) -> Iterator[Picture]:
    """Held-out pairs of frames and the method's predictions; nothing where it pre-trains nothing."""
    if result.pairs is None:
        return
    caption = "Two frames of held-out sequences."
    yield map_figures.transported("frames", caption, result.pairs, map_figures.colours)


def maps(result: PoseResult) -> Iterator[Picture]:
    """Maps between frames that are further and further apart; nothing where the method has no maps."""
    if not result.maps:
        return
    largest = map_figures.LARGEST
    rows = [(f"skip {skip}", tau.abs().clamp_max(largest)) for skip, tau in result.maps.items()]
    yield Picture(
        "maps",
        f"{result.map_text}, between the first frame of a held-out sequence (one per column) and a later one, with "
        f"{', '.join(map(str, result.maps))} frames left out between the two. Entries above {largest:g} are cut off.",
        figures.image_rows(rows),
    )


def _left_out(skip: int) -> str:
    return f"{counted(skip, 'frame')} left out between neighbours"


_ERRORS = {
    "ate_normalised": ("√(3n)·ATE", {"fitted_motion": "mean motion", "constant_motion": "straight line"}),
    "rotation_error_deg": ("rotation error (°)", {"fitted_motion": "mean motion", "identity": "no rotation"}),
    "translation_angle_deg": (
        "translation angle (°)",
        {"fitted_motion": "mean motion", "straight_ahead": "straight ahead"},
    ),
}
"""Label of the axis, and baselines by the prefix of their keys, by the key of the metric."""


def _lines(metrics: Mapping[str, float], key: str) -> dict[str, dict[float, float]]:
    """Values by skip, of the method and of each baseline that there is."""
    named = {"method": key} | {label: f"{prefix}_{key}" for prefix, label in _ERRORS[key][1].items()}
    lines = {label: {float(s): value for s, value in by_skip(metrics, name).items()} for label, name in named.items()}
    return {label: line for label, line in lines.items() if line} if lines["method"] else {}


@styled
def draw_errors(shown: Mapping[str, Mapping[str, Mapping[float, float]]], x_label: str = "frames left out") -> Figure:
    """A panel for each metric, and in it a line for the method and each baseline."""
    figure = Figure((10, 2.8 + LEGEND))
    for part, (key, lines) in zip(parts(figure, len(shown)), shown.items(), strict=True):
        above, below = above_and_below(part, 2.8, LEGEND)
        axes = above.subplots()
        for (label, line), dashes in zip(lines.items(), ("-", "--", ":"), strict=False):
            colour = BLUE if label == "method" else GREY
            axes.plot(list(line), list(line.values()), dashes, color=colour, marker=".", label=label)
        axes.set(xlabel=x_label, ylabel=_ERRORS[key][0])
        axes.set_ylim(bottom=0)
        if key == "translation_angle_deg" and axes.get_ylim()[1] > REVERSED:
            axes.axhline(REVERSED, color=RED, linewidth=0.8)
        narrow: dict[str, Any] = {"fontsize": 8, "columnspacing": 1, "handlelength": 1.6}
        below.legend(*axes.get_legend_handles_labels(), loc="center", ncols=3, frameon=False, **narrow)
    return figure


@styled
def draw_paths(shown: Sequence[DrawnPath]) -> Figure:
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
            below.legend(*above.axes[0].get_legend_handles_labels(), loc="center", ncols=3, frameon=False)
    return figure


@styled
def draw_failures(rows: Sequence[tuple[DrawnPath, Strip]]) -> Figure:
    """A row for each sequence: its paths, and some of its frames."""
    widths = [2.2, *(1.0 for _ in rows[0][1])]
    height = max(1.9, 10 / sum(widths) * _tallest(strip for _, strip in rows) + 0.5)
    figure = Figure((10, height * len(rows) + LEGEND))
    cells = figure.subplots(len(rows), len(widths), squeeze=False, width_ratios=widths)
    for (first, *others), (path, strip) in zip(cells, rows, strict=True):
        _draw_path(first, path, 30)
        for axes, image in zip(others, strip, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
    figure.legend(*cells[0][0].get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False)
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


def _draw_path(axes: Axes, shown: DrawnPath, letters: int) -> None:
    """Paths that fill their panel, in one scale, and a title of so many letters a line."""
    truth = shown.truth
    centre = truth.mean(0)
    plane = torch.linalg.svd(truth - centre, full_matrices=False).Vh[:2].mT
    true, guess = ((path - centre) @ plane for path in (truth, shown.predicted))
    if shown.trivial is not None:
        axes.plot(*((shown.trivial - centre) @ plane).mT.tolist(), color=GREY, linewidth=1, label="mean motion")
    axes.plot(*guess.mT.tolist(), color=BLUE, label="predicted")
    axes.plot(*true.mT.tolist(), color="black", linestyle="--", linewidth=1, label="true")
    axes.plot(*true[:1].mT.tolist(), color="black", marker="o", markersize=4)
    axes.set_title(wrapped(_title(shown), letters), fontsize=8.5)
    if shown.angle > REVERSED:
        axes.title.set_color(RED)
    axes.margins(0.1)
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(True)


def _title(shown: DrawnPath) -> str:
    trivial = "" if shown.trivial_error is None else f", mean motion {shown.trivial_error:.2f}"
    return f"{shown.title}\nerror {shown.error:.2f}{trivial}\ndirection off by {shown.angle:.0f}°"


FIGURES = (
    errors,
    covered,
    lambda result: map_figures.seen_in_part(result.partial),
    trajectories,
    failures,
    frames,
    maps,
    lambda result: map_figures.singular_values(result.pairs),
    lambda result: map_figures.eigenfunctions(result.operator),
    lambda result: map_figures.mask(result.operator, result.pairs.maps if result.pairs else None, "held-out pairs"),
    lambda result: map_figures.mass(result.operator),
)
