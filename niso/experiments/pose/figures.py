"""Figures of a pose result, in the order in which its report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from niso import figures
from niso.experiments import map_figures
from niso.experiments.pose.cases import Path, Strip
from niso.experiments.pose.evaluation import by_skip
from niso.experiments.pose.experiment import PoseResult
from niso.figures.style import GREY, ORANGE, RED, styled
from niso.report import Picture

LIMIT = 90.0
"""Mean angle of directions of travel above which they are marked as reversed, in degrees."""


def trajectories(result: PoseResult) -> list[Picture]:
    """True and predicted paths of held-out sequences: the best, the worst, and some in between."""
    return [
        Picture(
            f"trajectories_skip{skip}",
            f"Paths of the camera through held-out sequences, with {_left_out(skip)}: the true path (dashed, starting "
            "at the circle), the path that the predicted relative poses compose to, and that of the training "
            "sequences' mean motion, each after the similarity that brings it nearest to the truth, reflections "
            "allowed. Each view is along the direction in which the true path is thinnest. The panels go from the "
            "smallest error √(3n)·ATE to the largest; titles give it, that of the mean motion, and the mean angle "
            "between predicted and true directions of travel, which the alignment does not show: red above 90°.",
            draw_paths(paths),
        )
        for skip, paths in result.cases.paths.items()
    ]


def errors(result: PoseResult) -> list[Picture]:
    """Mean errors by the frame skip, and those of trivial predictions."""
    shown = {key: lines for key, lines in ((key, _lines(result.metrics, key)) for key in _ERRORS) if lines}
    if not shown:
        return []
    return [
        Picture(
            "errors",
            "Mean errors on held-out sequences by the frames left out between neighbours, and those of predictions "
            "that look at no frame. A method whose line is not below the others has learned less than they know. Above "
            "90° (red), predicted directions of travel are nearer to the opposite of the true ones.",
            draw_errors(shown),
        )
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


_ERRORS = {
    "ate_normalised": ("√(3n)·ATE", {"fitted_motion": "mean motion", "constant_motion": "straight line"}),
    "rotation_error_deg": ("rotation error (°)", {"fitted_motion": "mean motion", "identity": "no rotation"}),
    "translation_angle_deg": (
        "translation angle (°)",
        {"fitted_motion": "mean motion", "straight_ahead": "straight ahead"},
    ),
}
"""Label of the axis, and baselines by the prefix of their keys, by the key of the metric."""


def _lines(metrics: Mapping[str, float], key: str) -> dict[str, dict[int, float]]:
    """Values by skip, of the method and of each baseline that there is."""
    named = {"method": key} | {label: f"{prefix}_{key}" for prefix, label in _ERRORS[key][1].items()}
    lines = {label: by_skip(metrics, name) for label, name in named.items()}
    return {label: line for label, line in lines.items() if line} if lines["method"] else {}


@styled
def draw_errors(shown: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """A panel for each metric, and in it a line for the method and each baseline."""
    figure = Figure((10, 3.1), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, (key, lines) in zip(panels, shown.items(), strict=True):
        for (label, line), style in zip(lines.items(), ("-", "--", ":"), strict=False):
            colour = ORANGE if label == "method" else GREY
            axes.plot(list(line), list(line.values()), style, color=colour, marker=".", label=label)
        axes.set(xlabel="frames left out", ylabel=_ERRORS[key][0])
        axes.set_ylim(bottom=0)
        if key == "translation_angle_deg" and axes.get_ylim()[1] > LIMIT:
            axes.axhline(LIMIT, color=RED, linewidth=0.8)
        axes.legend(frameon=False, fontsize=8)
    return figure


@styled
def draw_paths(shown: Sequence[Path]) -> Figure:
    """Panels of a true and a predicted path each, in the plane in which the true path is widest."""
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure((10, 3.2 * down + 0.3), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.axis("off")
    for axes, path in zip(panels, shown, strict=False):
        _draw_path(axes, path)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


@styled
def draw_failures(rows: Sequence[tuple[Path, Strip]]) -> Figure:
    """A row for each sequence: its paths, and some of its frames."""
    figure = Figure((10, 2.3 * len(rows) + 0.2), layout="constrained")
    widths = [2.2, *(1.0 for _ in rows[0][1])]
    cells = figure.subplots(len(rows), len(widths), squeeze=False, width_ratios=widths)
    for (first, *others), (path, strip) in zip(cells, rows, strict=True):
        _draw_path(first, path)
        for axes, image in zip(others, strip, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
    cells[0][0].legend(frameon=False, fontsize=8)
    return figure


@styled
def draw_pairs(columns: Sequence[tuple[str, Strip]]) -> Figure:
    """A column for each pair of frames, the title above it."""
    figure = Figure((1.65 * len(columns), 4.0), layout="constrained")
    cells = figure.subplots(2, len(columns), squeeze=False)
    for column, (title, pair) in zip(cells.T, columns, strict=True):
        for axes, image in zip(column, pair, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.axis("off")
        column[0].set_title(title, fontsize=8)
    return figure


def _draw_path(axes: Axes, shown: Path) -> None:
    truth = shown.truth
    centre = truth.mean(0)
    plane = torch.linalg.svd(truth - centre, full_matrices=False).Vh[:2].mT
    true, guess = ((path - centre) @ plane for path in (truth, shown.predicted))
    if shown.trivial is not None:
        axes.plot(*((shown.trivial - centre) @ plane).mT.tolist(), color=GREY, linewidth=1, label="mean motion")
    axes.plot(*guess.mT.tolist(), color=ORANGE, label="predicted")
    axes.plot(*true.mT.tolist(), color="black", linestyle="--", linewidth=1, label="true")
    axes.plot(*true[:1].mT.tolist(), color="black", marker="o", markersize=4)
    axes.set(aspect="equal")
    axes.set_title(_title(shown), color=RED if shown.angle > LIMIT else "black", fontsize=8.5)
    axes.margins(0.1)
    axes.grid(True, color=GREY, alpha=0.2)


def _title(shown: Path) -> str:
    trivial = "" if shown.trivial_error is None else f" (mean motion {shown.trivial_error:.2f})"
    return f"{shown.title}: {shown.error:.2f}{trivial}\ndirection off by {shown.angle:.0f}°"


FIGURES = (
    errors,
    trajectories,
    failures,
    frames,
    maps,
    lambda result: map_figures.eigenfunctions(result.operator),
    lambda result: map_figures.mask(result.operator, result.pairs.maps if result.pairs else None, "held-out pairs"),
    lambda result: map_figures.mass(result.operator),
)
