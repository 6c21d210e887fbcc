"""Figures of a run on the user's pairs, in the order that its report shows them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jaxtyping import Float, Int
from torch import Tensor

from niso import figures
from niso.data.pairs.table import CHANNELS_FIRST
from niso.experiments import map_figures
from niso.experiments.pairs.experiment import PairsResult
from niso.figures.curves import COLOURS
from niso.report import Picture


def transported(result: PairsResult) -> Picture:
    """Held-out observations, transformed, and what the method makes of them."""
    caption = f"Held-out {result.shown.kind}, and what the method makes of them."
    rows = list(result.pairs.views.items())
    shape = rows[0][1].shape
    if result.shown.kind in CHANNELS_FIRST:
        in_colours = shape[1] == 3 and result.shown.alike
        shown = slice(None) if in_colours else slice(1)
        caption += "" if in_colours or shape[1] == 1 else " The first channel is shown."
        volumes = result.shown.kind == "volumes"
        caption += " Three channels are shown as red, green and blue." if volumes and in_colours else ""
        maximum = volumes and map_figures.nearly_empty(rows[0][1][:, shown])
        caption += f" Of each, {map_figures.MAXIMUM if maximum else map_figures.MIDDLE}." if volumes else ""

        def pictured(values: Tensor) -> Tensor:
            return map_figures.colours((map_figures.flattened(values, maximum) if volumes else values)[:, shown])

        return map_figures.transported("observations", caption, result.pairs, pictured)
    words = f"{caption} {map_figures.rows_of(result.pairs)}"
    if result.shown.points is not None and result.shown.points.shape[1] > 1:
        drawn = figures.point_rows([(title, values[..., 0]) for title, values in rows], result.shown.points)
        words += (
            " The first channel is shown: blue above its mean, red below, the observations of a column on one scale."
        )
        return Picture("observations", f"{words}{_sides(result.shown.points)}", drawn)
    order, places = _along(result.shown.points)
    rows = [(title, values[:, order]) for title, values in rows]
    words += f" The first {len(COLOURS)} channels are shown." if shape[-1] > len(COLOURS) else ""
    words += " Each channel, a line of its own colour," if shape[-1] > 1 else " The values"
    words += f" {'is' if shape[-1] > 1 else 'are'} scaled to mean 0 and deviation 1 over the ψ trained on."
    return Picture("observations", words, figures.signal_rows(rows, places))


def _along(
    points: Float[Tensor, "points dimensions"] | None,
) -> tuple[Int[Tensor, " points"] | slice, Float[Tensor, " points"] | None]:
    """The order of points on a line, and their places in it; as they come where they are on none."""
    if points is None or points.shape[1] > 1:
        return slice(None), None
    places, order = points[:, 0].sort()
    return order, places


def _sides(points: Float[Tensor, "points dimensions"]) -> str:
    """How points in space are drawn; empty for those of a plane."""
    words = " Points of the upper half are seen from +z (left), the others from −z."
    return words if figures.have_two_sides(points) else ""


def eigenfunctions(result: PairsResult) -> Iterator[Picture]:
    """Eigenfunctions on the latent domain."""
    operator, shown = result.operator, result.shown
    if operator is None:
        return
    spectrum = operator.spectrum
    caption = "Learned eigenfunctions on the latent domain, in ascending eigenvalue, row by row."
    if shown.points is not None and shown.on_domain and shown.points.shape[1] > 1:
        count = min(24, spectrum.eigenfunctions.shape[1])
        titles = [
            (f"{value:.2f}", function[None])
            for value, function in zip(
                spectrum.eigenvalues[:count].tolist(), spectrum.eigenfunctions.mT[:count], strict=True
            )
        ]
        drawn = figures.point_rows(titles, shown.points, across=6)
        yield Picture("eigenfunctions", f"{caption}{_sides(shown.points)}", drawn)
    elif min(shown.latent_grid) == 1:
        order, places = _along(shown.points if shown.on_domain else None)
        drawn = figures.eigenfunction_lines(spectrum.eigenfunctions[order], spectrum.eigenvalues, places)
        yield Picture("eigenfunctions", caption, drawn)
    else:
        yield from map_figures.eigenfunctions(operator)


def spectrum(result: PairsResult) -> Iterator[Picture]:
    """Eigenvalues and their clusters."""
    if result.operator is None:
        return
    drawn = figures.cluster_plot(result.operator.spectrum.eigenvalues)
    caption = (
        "Learned eigenvalues in ascending order. Those of one colour are a cluster, neighbours at most log 2 apart: "
        "maps mix their eigenfunctions, and hardly any others."
    )
    yield Picture("spectrum", caption, drawn)


FIGURES = (
    transported,
    lambda result: map_figures.same_transformation(result.pairs, "observation", "transformation"),
    lambda result: map_figures.singular_values(
        result.pairs, float(result.metrics.get("held_out_observations", math.inf))
    ),
    eigenfunctions,
    spectrum,
    lambda result: map_figures.mask(result.operator, result.pairs.maps, "a few transformations"),
    lambda result: map_figures.mass(result.operator) if min(result.shown.latent_grid) > 1 else [],
)
