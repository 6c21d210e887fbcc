"""Pictures of paths and failures: nothing collides, no panel is a void, whatever sequences are called."""

import numpy as np
import pytest
import torch

from niso.experiments.pose import figures
from niso.experiments.pose.cases import DrawnPath
from niso.figures.curves import COLOURS
from niso.figures.path_views import path_views
from tests.pictures import colliding, words

LONG = "a/folder/whose_name_is_as_long_as_those_that_recorders_give/sequence_0001-2026-11-22"


def path(title, thin):
    """A path that is `thin` times as wide as long."""
    time = torch.linspace(0, 6, 40, dtype=torch.float64)
    truth = torch.stack([time, thin * time.sin(), torch.zeros_like(time)], 1)
    return DrawnPath(title, truth, truth + 0.2, 0.12, 4.0)


@pytest.fixture(params=[(3, 4), (4, 3)], ids=["wide", "tall"])
def strip(request):
    return np.zeros((6, *(8 * side for side in request.param), 3))


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_paths_fill_their_panels_whatever_their_shape(count):
    shown = [path(LONG, thin) for thin in np.linspace(0, 1, count)]
    figure = figures.draw_paths(shown)
    assert not colliding(figure)
    drawn = [axes for axes in figure.axes if axes.axison]
    assert len(drawn) == count and [words(legend) for part in figure.subfigs for legend in part.subfigs[1].legends] == [
        ["predicted", "true"]
    ]
    area = sum(axes.get_window_extent().width * axes.get_window_extent().height for axes in drawn)
    assert area > 0.5 * figure.bbox.width * figure.bbox.height * count / (-(-count // 3) * min(count, 3))


def test_failures_have_their_frames_beside_their_paths(strip):
    figure = figures.draw_failures([(path(LONG, thin), strip) for thin in (0.1, 0.5, 1.0)])
    assert not colliding(figure)
    first, frame = figure.axes[0].get_window_extent(), figure.axes[1].get_window_extent()
    assert first.height > 0.4 * frame.height and frame.height > 0.45 * figure.bbox.height / 3.4


def test_titles_of_pairs_do_not_collide(strip):
    figure = figures.draw_pairs([(f"{LONG}\nturned 10°\noff by 36°", strip[:2])] * 6)
    assert not colliding(figure)


def test_the_method_has_the_colour_of_the_first_line_of_all_figures():
    line = {0.0: 1.0, 4.0: 2.0}
    errors = figures.draw_errors({"ate_normalised": {"method": line, "mean motion": line}})
    paths = figures.draw_paths([path("a", 0.5)])
    views = path_views(path("a", 0.5).predicted)
    for drawn in (errors, paths, views):
        assert drawn.axes[0].lines[0].get_color() == COLOURS[0]
    assert errors.axes[0].lines[1].get_color() != COLOURS[0]
