"""What tests ask of drawn figures."""

from __future__ import annotations

import itertools

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text


def words(legend: Legend) -> list[str]:
    """The labels of a legend."""
    return [text.get_text() for text in legend.get_texts()]


def colliding(figure: Figure) -> list[tuple[str, str]]:
    """Words that lie over each other or that the edge cuts off, and legends that lie over axes."""
    figure.draw_without_rendering()
    legends = figure.findobj(Legend)
    texts = [text for axes in figure.axes for text in _written(axes)]
    texts += [text for legend in legends for text in legend.get_texts()]
    boxes = {text: text.get_window_extent() for text in texts if text.get_visible() and text.get_text().strip()}
    found = [
        (first.get_text(), second.get_text())
        for first, second in itertools.combinations(boxes, 2)
        if boxes[first].padded(-1).overlaps(boxes[second].padded(-1))
    ]
    for text, box in boxes.items():
        if min(box.x0, box.y0, figure.bbox.x1 - box.x1, figure.bbox.y1 - box.y1) < -1:
            found.append((text.get_text(), "the edge"))
    for legend in legends:
        box = legend.get_window_extent()
        found += [(words(legend)[0], "axes") for axes in figure.axes if box.overlaps(axes.get_window_extent())]
    return found


def _written(axes: Axes) -> list[Text]:
    """Everything written in and around axes that are on, of ticks only those within the limits."""
    written = [axes.title, *axes.texts]
    if axes.axison:
        ticks = [tick for axis in (axes.xaxis, axes.yaxis) for tick in axis._update_ticks()]
        written += [
            axes.xaxis.label,
            axes.yaxis.label,
            *(text for tick in ticks for text in (tick.label1, tick.label2)),
        ]
    return written
