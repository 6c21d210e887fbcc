"""A path through space, seen from three sides."""

from __future__ import annotations

from jaxtyping import Float
from matplotlib.figure import Figure

from niso.figures.style import BLUE, GREY, Array, as_numpy, panels, styled


@styled
def path_views(path: Float[Array, "frames 3"]) -> Figure:
    """A camera's path from above, from the side and from behind, in one scale; a circle where it begins.

    Args:
        path: x to the right, y downwards, z forward.
    """
    right, down, forward = as_numpy(path).T
    figure, axes_of_views = panels(10, 3.6, 3)
    views = (
        ("from above", right, forward, "right", "forward"),
        ("from the side", forward, -down, "forward", "up"),
        ("from behind", right, -down, "right", "up"),
    )
    reach = max(float(values.max() - values.min()) for values in (right, down, forward)) or 1.0
    for axes, (title, across, upwards, across_label, up_label) in zip(axes_of_views, views, strict=True):
        axes.plot(across, upwards, color=BLUE)
        axes.plot(across[:1], upwards[:1], color="black", marker="o", markersize=4)
        for set_limits, values in ((axes.set_xlim, across), (axes.set_ylim, upwards)):
            centre = (values.max() + values.min()) / 2
            set_limits(centre - 0.55 * reach, centre + 0.55 * reach)
        axes.set(title=title, aspect="equal", xlabel=across_label, ylabel=up_label)
        axes.grid(True, color=GREY, alpha=0.2)
    return figure
