import math

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from niso import figures
from niso.figures import maps, style, themes
from niso.figures.curves import COLOURS
from niso.geometry.domains import equirectangular
from niso.geometry.mesh.surface import icosphere
from tests.pictures import colliding, words

GRID = themes._on_dark(style.STYLE["grid.color"])
sizes = st.integers(1, 6)
seeds = st.integers(0, 10)
quick = settings(max_examples=2, deadline=None)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def panels(figure: Figure, laid_out: bool = False) -> list:
    """The axes that hold data, not colour bars; checks on the way that everything drawn is finite and can be drawn.

    To lay out a figure takes two thirds of the time: that is for figures of any size, and for `colliding`.
    """
    for axes in figure.axes:
        for image in axes.images:
            assert np.isfinite(np.ma.compressed(image.get_array())).all()
        for line in axes.lines:
            assert np.isfinite(np.ma.compressed(np.ma.asarray(line.get_ydata()))).all()
        for limits in (axes.get_xlim(), axes.get_ylim()):
            assert np.isfinite(limits).all()
    layout = figure.get_layout_engine()
    if not laid_out:
        figure.set_layout_engine("none")
    figure.draw_without_rendering()
    figure.set_layout_engine(layout)
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


@quick
@given(height=sizes, width=sizes, rank=st.integers(1, 12), seed=seeds)
def test_mosaic_has_a_tile_for_every_function(height, width, rank, seed):
    functions = torch.tensor(normal(seed, height * width, rank), dtype=torch.bfloat16)
    figure = figures.eigenfunction_mosaic(functions, (height, width), torch.arange(rank) / 2, functions.double())
    learned, true = panels(figure, laid_out=True)
    assert len(learned.texts) == rank
    assert learned.images[0].get_array().count() == rank * height * width
    assert true.get_title() == "nearest true harmonics"
    assert np.abs(true.images[0].get_array()).max() == 1.0


def test_mosaic_shows_the_first_functions_and_says_so():
    (axes,) = panels(figures.eigenfunction_mosaic(normal(0, 6, 81), (2, 3), np.ones(81)))
    assert axes.get_title().endswith("(the first 64 of 81)")
    assert axes.images[0].get_array().count() == 64 * 6


def test_mosaic_scales_each_function_and_keeps_its_sign():
    functions = np.array([[2.0, -0.5], [1.0, 0.25]])
    (axes,) = panels(figures.eigenfunction_mosaic(functions, (1, 2), np.ones(2)))
    np.testing.assert_allclose(axes.images[0].get_array().compressed(), [1.0, 0.5, -1.0, 0.5])


def test_mosaic_shows_a_projection_on_the_scale_of_its_function_without_an_eigenvalue():
    functions = np.array([[2.0, -0.5], [1.0, 0.25]])
    learned, true = panels(figures.eigenfunction_mosaic(functions, (1, 2), np.ones(2), functions * [1, 0.01]))
    np.testing.assert_allclose(true.images[0].get_array().compressed(), [1.0, 0.5, -0.01, 0.005])
    assert len(learned.texts) == 2 and not true.texts


def test_points_must_fill_the_grid():
    with pytest.raises(ValueError, match="10 points do not fill a grid of 3 × 3"):
        figures.eigenfunction_mosaic(normal(0, 10, 2), (3, 3), np.ones(2))


@pytest.mark.parametrize("grid", [(24, 6), (60, 2)])
def test_a_mosaic_of_tall_functions_fits_a_page(grid):
    figure = figures.eigenfunction_mosaic(normal(0, math.prod(grid), 32), grid, np.arange(32) / 9)
    assert figure.bbox_inches.height < 7
    assert not colliding(figure)


@quick
@given(size=sizes, seed=seeds)
def test_signed_matrices_are_centred_at_zero(size, seed):
    left, right = panels(
        figures.matrix_pair(normal(seed, size, size), 9 * normal(seed, size, size), ("Ω", "L")), laid_out=True
    )
    for axes in (left, right):
        shown, (low, high) = axes.images[0].get_array(), axes.images[0].get_clim()
        assert high == np.abs(shown).max() and low == (-high if (shown < 0).any() else 0)
    assert left.images[0].get_clim() != right.images[0].get_clim()


@quick
@given(height=sizes, width=sizes, seed=seeds)
def test_kernel_of_a_shift_invariant_operator_is_its_stencil(height, width, seed):
    stencil = normal(seed, height, width)
    columns = [np.roll(stencil, (p // width, p % width), (0, 1)).ravel() for p in range(height * width)]
    operator = np.stack(columns, axis=1)
    left, _ = panels(figures.kernel_pair(operator, operator, (height, width), ("a", "b")), laid_out=True)
    expected = np.roll(stencil, (height // 2, width // 2), (0, 1))
    np.testing.assert_allclose(left.images[0].get_array(), expected)


@pytest.mark.slow
@quick
@given(blocks=st.lists(st.integers(1, 20), min_size=1, max_size=6), seed=seeds)
def test_map_is_ordered_and_its_blocks_outlined(blocks, seed):
    rank = sum(blocks)
    true = np.zeros((rank, rank))
    for end, size in zip(np.cumsum(blocks), blocks, strict=True):
        true[end - size : end, end - size : end] = 1.0
    order = np.random.default_rng(seed).permutation(rank)
    tau = np.empty_like(true)
    tau[np.ix_(order, order)] = -true
    before, after, detail = panels(
        figures.map_before_after(torch.tensor(tau), torch.tensor(order), blocks), laid_out=True
    )
    np.testing.assert_array_equal(before.images[0].get_array(), np.abs(tau))
    np.testing.assert_array_equal(after.images[0].get_array(), true)
    (outlines,) = [c for c in after.collections if isinstance(c, PatchCollection)]
    assert len(outlines.get_paths()) == len(blocks)
    enlarged = detail.images[0].get_array()
    assert enlarged.shape[0] in np.cumsum(blocks)
    assert enlarged.shape[0] <= max(maps.ENLARGED, blocks[0])


def test_blocks_must_fill_the_map():
    with pytest.raises(ValueError, match="blocks of 3 eigenfunctions do not fill a map of 4"):
        figures.map_before_after(np.eye(4), [0, 1, 2, 3], [1, 2])


def test_mass_is_shown_as_its_deviation_from_the_mean():
    (axes,) = panels(figures.mass_map(torch.tensor([1.0, 3.0]), (1, 2)))
    np.testing.assert_allclose(axes.images[0].get_array(), [[-50, 50]])
    (axes,) = panels(figures.mass_map(torch.ones(6), (2, 3)))
    assert axes.images[0].get_clim() == (-1, 1)


@quick
@given(rank=st.integers(1, 9), seed=seeds)
def test_spectrum_joins_the_members_of_a_subspace(rank, seed):
    spaces = np.arange(rank) // 2
    ascending, against = panels(
        figures.spectrum_plot(normal(seed, rank) ** 2, spaces.astype(float), spaces), laid_out=True
    )
    for axes in (ascending, against):
        lines, points = axes.collections
        assert len(points.get_offsets()) == rank
        assert len(lines.get_paths()) == rank // 2


@quick
@given(count=st.integers(1, 4), height=sizes, width=sizes, seed=seeds)
def test_rows_of_images(count, height, width, seed):
    colours = normal(seed, count, height, width, 3)
    difference = normal(seed, count, height, width)
    rows = [("image", torch.tensor(colours)), ("difference", difference), ("error", difference**2)]
    axes = panels(figures.image_rows(rows, limits=(-1.0, 1.0)), laid_out=True)
    assert [len(line.images) for line in axes] == [count] * 3
    ends = [end for image in axes[0].images for end in image.get_extent()[:2]]
    assert ends == sorted(ends) and len(set(ends)) == 2 * count  # one beside the other
    for image, colour in zip(axes[0].images, colours, strict=True):
        np.testing.assert_allclose(image.get_array(), ((colour + 1) / 2).clip(0, 1))
    signed, magnitude = axes[1].images[0].get_clim(), axes[2].images[0].get_clim()
    assert signed[0] in (-signed[1], 0.0)
    assert magnitude[0] == 0.0


def test_rows_of_no_images():
    with pytest.raises(ValueError, match="no images"):
        figures.image_rows([])


@pytest.mark.parametrize(("names", "expected"), [(1, 1), (2, 2), (5, 6)])
def test_training_curves_have_a_panel_for_every_column(names, expected):
    step = torch.arange(10, 110, 10)
    columns = {f"term_{i}": np.linspace(1, 100, 10) for i in range(names)}
    axes = panels(figures.training_curves(columns, step))
    assert len(axes) == expected
    assert axes[0].get_title() == "term 0"


def test_training_curves_choose_their_scale():
    columns = {
        "loss": np.array([1.0, 0.1, 0.01]),
        "flat": np.array([5.0, 4.0, 0.6]),
        "signed": np.array([1.0, 0.0, -1.0]),
        "broken": np.array([np.nan, np.inf, np.nan]),
        "accuracy": np.array([0.01, 0.5, 1.0]),
        "learning_rate": np.array([1.0, 0.1, 0.01]),
    }
    axes = panels(figures.training_curves(columns, np.arange(3)))
    assert [a.get_yscale() for a in axes[:6]] == ["log", *["linear"] * 5]


@pytest.mark.parametrize("spans", [(1, 9, 10), (30, 100, 999), (1000, 1e4, 1e5), (1e8, 1e20)])
def test_scales_of_training_curves_have_three_labels_that_do_not_collide(spans):
    columns = {f"term_{n}": 0.07 * np.geomspace(span, 1, 9) for n, span in enumerate(spans)}
    figure = figures.training_curves(columns, np.arange(9))
    assert not colliding(figure)
    for axes in figure.axes[: len(spans)]:
        low, high = axes.get_ylim()
        labels = [tick.label1.get_text() for tick in axes.yaxis._update_ticks() if low <= tick.get_loc() <= high]
        assert len([label for label in labels if label]) >= 3


@quick
@given(rank=st.integers(1, 30), seed=seeds)
def test_energy_histogram_counts_every_eigenfunction(rank, seed):
    energy = np.random.default_rng(seed).random(rank)
    each, histogram = panels(figures.energy_histogram(energy, "energy"), laid_out=True)
    assert sum(bar.get_height() for bar in histogram.patches) == rank
    assert each.get_ylim()[0] < energy.min()
    assert f"worst {energy.min():.4f}" in histogram.get_title()


@pytest.mark.parametrize(("worst", "text"), [(0.5, "0.5000"), (2.4e-5, "2.4e-05"), (0.0, "0")])
def test_energy_histogram_names_its_line_and_never_rounds_to_zero(worst, text):
    figure = figures.energy_histogram(np.array([1.0, worst]), "energy")
    _, histogram = panels(figure)
    assert histogram.get_title().endswith(f", worst {text}")
    assert [words(legend) for legend in figure.findobj(Legend)] == [["mean"], ["mean"]]


@pytest.mark.slow
def test_what_is_not_finite_does_not_stop_a_picture():
    bad = np.full((4, 4), np.nan)
    panels(figures.eigenfunction_mosaic(bad, (2, 2), bad[0], bad))
    panels(figures.matrix_pair(bad, np.zeros((4, 4)), ("a", "b")))
    panels(figures.map_before_after(bad, range(4), [2, 2]))
    panels(figures.mass_map(bad[0], (2, 2)))
    panels(figures.energy_histogram(bad[0], "energy"))
    panels(figures.image_rows([("a", bad[None]), ("b", np.full((1, 2, 2, 3), np.nan))]))
    panels(figures.training_curves({}, np.arange(0)))


def test_drawing_leaves_matplotlib_as_it_was():
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
        figure = figures.matrix_pair(np.eye(2), np.eye(2), ("a", "b"))
        assert matplotlib.rcParams["font.size"] == 30
    assert figure.axes[0].title.get_fontsize() == 10
    assert dict(matplotlib.rcParams) == before


def test_points_in_space_are_all_seen_once_those_behind_from_behind():
    points = np.array([[0.0, 0, 1], [1, 0, 1], [0, 1, 1], [0, 0, -1], [1, 0, -1]])
    values = np.arange(5.0)
    figure = figures.point_rows([("f", values[None])], points)
    places = np.asarray(figure.axes[0].collections[0].get_offsets())
    np.testing.assert_allclose(places[:3], points[:3, :2])
    assert (places[3:, 0] > 1).all() and places[3, 0] > places[4, 0]  # mirrored
    flat = figures.point_rows([("f", values[None])], points[:, :2])
    np.testing.assert_allclose(flat.axes[0].collections[0].get_offsets(), points[:, :2])
    plane = figures.point_rows([("f", values[None])], points * [1, 1, 0])
    np.testing.assert_allclose(plane.axes[0].collections[0].get_offsets(), points[:, :2])
    assert plane.get_figwidth() < figure.get_figwidth()
    wall = figures.point_rows([("f", values[None])], points * [0, 1, 1])
    assert np.asarray(wall.axes[0].collections[0].get_offsets())[3:, 0].min() > 0
    titles = [(str(number), values[None]) for number in range(5)]
    panels(figures.point_rows(titles, points, across=2))


def test_dots_of_a_column_have_one_scale():
    points, values = np.eye(2), np.array([[1.0, -2], [3, 4]])
    figure = figures.point_rows([("ψ", values), ("Dψ", 10 * values)], points)
    limits = [axes.collections[0].get_clim() for axes in figure.axes]
    assert limits == [(-20, 20), (-40, 40)] * 2


def test_the_last_lines_of_each_column_of_eigenfunctions_have_their_axis():
    axes = panels(figures.eigenfunction_lines(np.eye(8)[:, :6], np.arange(6.0)))
    assert [panel.xaxis.get_tick_params()["labelbottom"] for panel in axes[:6]] == [False] * 2 + [True] * 4


@pytest.mark.parametrize(("values", "title"), [([1.0, 1.1], "1 cluster"), ([1.0, 1.1, 9.0], "2 clusters")])
def test_clusters_are_counted(values, title):
    (axes,) = panels(figures.cluster_plot(np.array(values)))
    assert axes.get_title() == title


def test_accuracy_by_strength_has_a_point_for_every_bin():
    curve = {"x": [0.5, 2.5], "y": [1.0, 0.5], "count": [4, 4], "x_label": "pixels", "y_label": "accuracy"}
    (axes,) = panels(figures.accuracy_by_strength(curve, 4 / 7, "57.14 % of 7 images"))
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.5, 100], [2.5, 50]])
    assert axes.get_xlabel() == "pixels" and axes.get_title() == "57.14 % of 7 images"
    (errors,) = (lines.get_segments() for lines in axes.collections)
    np.testing.assert_allclose([np.ptp(line[:, 1]) for line in errors], [0, 50])


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_legend_of_long_labels_stays_in_its_figure(count):
    x = np.arange(3.0)
    labels = [f"{n}\nof two lines" if n < 2 else f"{n}" for n in range(count)]
    figure = figures.bands([figures.Band(label, x, x) for label in labels], "x", "y")
    figure.draw_without_rendering()
    (legend,) = figure.findobj(Legend)
    assert legend.get_window_extent().y0 >= 0


def test_the_common_scale_of_panels_shows_all_of_their_lines():
    x = np.array([0.0, 1.0])
    high = figures.Band("high", x, np.array([0.5, 0.54]), panel="one")
    low = figures.Band("low", x + 2, np.array([0.2, 0.24]), panel="two")
    for curves in ([high, low], [low, high]):
        for axes in panels(figures.bands(curves, "x", "y")):
            (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
            assert left <= 0 and right >= 3 and bottom <= 0.2 and top >= 0.54


def test_bands_have_a_line_each_and_a_band_where_there_is_an_error():
    x = np.arange(3.0)
    curves = [figures.Band("a", x, x, 0.1 * x, colour=1), figures.Band("b", torch.tensor(x), torch.ones(3))]
    curves.append(figures.Band("c", x, x, panel="other"))
    figure = figures.bands(curves, "strength", "accuracy")
    axes, other = panels(figure)
    assert len(axes.lines) == 2 and len(axes.collections) == 1 and len(other.lines) == 1
    assert other.get_title() == "other" and other.get_ylim() == axes.get_ylim()
    assert [words(legend) for legend in figure.findobj(Legend)] == [["a", "b"], ["c"]]
    with pytest.raises(ValueError, match="no curves"):
        figures.bands([], "x", "y")


def test_bands_may_be_logarithmic_and_whole_numbers_have_whole_ticks():
    x = np.array([1.0, 2, 4])
    (axes,) = panels(figures.bands([figures.Band("a", x, np.array([1.0, 1e-2, 0]))], "x", "y", "xy"))
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_ylim()[0] == pytest.approx(figures.curves.FAINT)
    (nothing,) = panels(figures.bands([figures.Band("a", x, 0 * x)], "x", "y", "xy"))
    assert nothing.get_yscale() == "linear"
    for figure in (
        figures.bands([figures.Band("a", x[:2], x[:2]), figures.Band("b", x[:2], x[:2], panel="other")], "x", "y"),
        figures.cluster_plot(np.ones(1)),
        figures.matrix_pair(np.ones((1, 1)), np.ones((1, 1)), ("one", "two")),
    ):
        assert all(tick % 1 == 0 for axes in panels(figure) for tick in axes.get_xticks())


def test_sizes_that_decay_have_a_marker_each_and_a_logarithmic_scale():
    figure = figures.decay(torch.tensor([1.0, 0.77, 2e-3, 1e-4, 1e-12]), "number", "size")
    (axes,) = panels(figure)
    (line,) = axes.lines
    assert figure.get_figwidth() == 5.5 and not figure.findobj(Legend) and not colliding(figure)
    assert axes.get_yscale() == "log" and 1e-5 < axes.get_ylim()[0] < 1e-4  # rounding does not make the scale
    np.testing.assert_allclose(line.get_xydata(), [[1, 1], [2, 0.77], [3, 2e-3], [4, 1e-4], [5, 1e-12]])
    assert line.get_markevery() == 1
    panels(figures.decay(np.zeros(2), "number", "size"))


@pytest.mark.parametrize(("count", "every"), [(3, 1), (40, 1), (41, 4), (240, 20)])
def test_every_point_of_a_short_line_is_marked(count, every):
    x = np.arange(float(count))
    (axes,) = panels(figures.bands([figures.Band("a", x, x)], "x", "y"))
    assert axes.lines[0].get_markevery() == every


@quick
@given(size=st.sampled_from([4, 6]), seed=seeds)
def test_sphere_rows_have_a_disc_for_every_function(size, seed):
    functions = normal(seed, size * size, 4)
    panel = ("learned", functions)
    left, right = panels(
        figures.sphere_rows([panel, ("true", torch.tensor(functions))], (size, size), [[2], [0, 1, 3]], ["a", "b"]),
        laid_out=True,
    )
    assert [text.get_text() for text in left.texts] == ["a", "b"] and not right.texts
    canvas = left.images[0].get_array()
    assert canvas.count() == pytest.approx(4 * np.pi * 24**2, rel=0.1)
    assert np.abs(canvas).max() == 1.0
    np.testing.assert_array_equal(canvas, right.images[0].get_array())


def test_spheres_that_are_alike_have_the_scale_of_the_first_column():
    functions = normal(0, 16, 2)
    columns = [("learned", functions), ("part", functions * [1, 0.1])]
    for alike, size in ((True, 0.1), (False, 1.0)):
        first, second = panels(figures.sphere_rows(columns, (4, 4), [[0], [1]], ["", ""], alike=alike))
        whole, part = (axes.images[0].get_array() for axes in (first, second))
        np.testing.assert_array_equal(whole[:48], part[:48])
        np.testing.assert_allclose(size * whole[54:102], part[54:102])


def test_spheres_are_seen_from_outside_with_north_up():
    """East is to the right, north is up: the height is a function that grows from bottom to top."""
    points = equirectangular.directions(16, 16, "driscoll-healy").reshape(256, 3)
    longitude = np.radians(-60)
    east = points[:, 1] * np.cos(longitude) - points[:, 0] * np.sin(longitude)
    functions = torch.stack([points[:, 2], east], 1)
    (axes,) = panels(figures.sphere_rows([("", functions)], (16, 16), [[0], [1]], ["", ""]))
    canvas = axes.images[0].get_array()
    up, across = canvas[:48, :48], canvas[54:102, :48]
    assert (np.diff(up[6:42, 24]) < 0).all() and (np.diff(across[24, 6:42]) > 0).all()


def test_spheres_of_points_are_seen_from_outside_with_north_up():
    points = equirectangular.directions(16, 16, "driscoll-healy").reshape(256, 3)
    few, functions = points[::7], points[:, [2, 0]]
    drawn = {"fine": (points, functions), "coarse": (few, 0.1 * functions[::7])}
    first, second = panels(figures.point_spheres(drawn, ["a", "b"]))
    assert [text.get_text() for text in first.texts] == ["a", "b"] and first.get_title() == "fine"
    assert len(first.collections) == len(second.collections) == 2
    up = first.collections[0]
    assert 100 < len(up.get_offsets()) < 156  # half of the points face the reader
    height, value = np.asarray(up.get_offsets())[:, 1], np.asarray(up.get_array())
    assert np.corrcoef(height, value)[0, 1] > 0.8
    assert abs(second.collections[0].get_array()).max() > 0.8  # each is scaled to its own magnitude


def test_mass_beside_has_one_scale():
    weights = np.array([1.0, 1.0, 3.0, 3.0])
    learned, true, rows = panels(figures.mass_beside(torch.tensor(10 * weights), weights, (2, 2), ("mass", "weights")))
    np.testing.assert_allclose(learned.images[0].get_array(), true.images[0].get_array())
    (legend,) = rows.figure.legends
    assert words(legend) == ["weights", "mass"]


def test_by_degree_has_a_panel_for_each_figure():
    figure = figures.by_degree({"one": (np.ones(3), 1.0), "two": (torch.zeros(3), 0.0)}, torch.arange(3))
    assert [axes.get_title() for axes in panels(figure)] == ["one", "two"]


def test_a_table_of_meshes_shows_the_faces_that_look_at_the_reader():
    ball = icosphere(2)
    drawn = figures.DrawnMesh(ball.vertices * [3, 2, 1], ball.faces, ball.vertices[:, 0])
    image, long = normal(0, 4, 8), drawn._replace(edges=True, towards=np.array([2.0, 0, 0]))
    axes = panels(figures.mesh_table([[drawn, image], [long, image]], ["mesh", "grid"], "ab"))
    assert len(axes) == 4
    (faces,) = axes[0].collections
    assert len(faces.get_paths()) == pytest.approx(len(ball.faces) / 2, rel=0.1)  # a convex body shows half of them
    assert np.ptp(axes[0].get_xlim()) == np.ptp(axes[0].get_ylim()) == pytest.approx(6, rel=0.02)
    assert np.ptp(axes[2].get_xlim()) == pytest.approx(4, rel=0.02)  # seen from the end


# What a reader sees


def test_a_scale_diverges_only_where_there_are_negative_numbers():
    shares, signed = np.eye(3), np.eye(3) - 0.5
    left, right = panels(figures.matrix_pair(shares, signed, ("mask", "Ω")))
    assert left.images[0].get_cmap().name == style.SEQUENTIAL and left.images[0].get_clim() == (0, 1)
    assert right.images[0].get_cmap().name == style.DIVERGING and right.images[0].get_clim() == (-0.5, 0.5)


@pytest.mark.parametrize("methods", [1, 4, 12, 30])
def test_no_two_of_many_curves_look_alike(methods):
    x = np.arange(4.0)
    figure = figures.bands([figures.Band(f"{n}", x, x, colour=n % methods) for n in range(30)], "x", "y")
    (axes,) = figure.axes
    assert (
        len(
            {
                (line.get_color(), line.get_linestyle(), line.get_marker(), str(line._dash_pattern))
                for line in axes.lines
            }
        )
        == 30
    )


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_curves_are_told_apart_by_colour_blind_readers(dark):
    """Machado, Oliveira and Fernandes 2009, severity 1: distances in linear RGB after the loss of one cone."""
    deuteranopia = np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    )
    protanopia = np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    )
    drawn = [themes._on_dark(colour) if dark else colour for colour in COLOURS]
    colours = np.array([matplotlib.colors.to_rgb(colour) for colour in drawn])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for loss in (np.eye(3), deuteranopia, protanopia):
        seen = linear @ loss.T
        distances = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(seen), 1)]
        assert distances.min() > 0.05
        if dark:  # pink and wine
            assert np.linalg.norm(seen[3] - seen[7]) > 0.2


def test_the_first_eight_curves_differ_in_their_markers():
    x = np.arange(4.0)
    (axes,) = panels(figures.bands([figures.Band(f"{n}", x, x, colour=n) for n in range(8)], "x", "y"))
    assert len({line.get_marker() for line in axes.lines}) == len({line.get_color() for line in axes.lines}) == 8


CURVES = [
    figures.Band(f"a method of a long name · {n} (3 seeds)", np.arange(3.0), np.ones(3), colour=n) for n in range(16)
]
FIGURES = {
    "bands": lambda: figures.bands(CURVES, "strength", "accuracy"),
    "bands in panels": lambda: figures.bands(
        [curve._replace(panel=panel) for curve in CURVES for panel in ("quick", "small", "medium")], "strength", "y"
    ),
    "map": lambda: figures.map_before_after(np.eye(17), range(17), [1, 4, 4, 8]),
    "mass": lambda: figures.mass_beside(np.ones(64), np.ones(64), (8, 8), ("learned mass", "quadrature weights")),
    "matrices": lambda: figures.matrix_pair(np.eye(64), -np.eye(64), ("learned Ω", "spherical Laplacian")),
    "mosaic": lambda: figures.eigenfunction_mosaic(np.ones((64, 64)), (8, 8), 99 + np.ones(64), np.ones((64, 64))),
    "purity": lambda: figures.energy_histogram(np.linspace(0, 1, 9), "energy in the best true space of one degree"),
    "training": lambda: figures.training_curves(
        {f"a_term_of_the_loss_{n}": np.arange(1.0, 9) for n in range(7)}, np.arange(8)
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_no_words_collide_and_no_legend_hides_a_curve(name):
    assert not colliding(FIGURES[name]())


@pytest.mark.parametrize("shape", [(8, 8), (8, 32), (32, 8)])
def test_rows_of_images_leave_no_void(shape):
    figure = figures.image_rows([("ψ", np.ones((6, *shape))), ("Tψ", np.ones((6, *shape, 3)))])
    assert figure.bbox_inches.height < 4.5
    figure.draw_without_rendering()
    drawn = [axes.get_window_extent() for axes in panels(figure)]
    assert sum(box.height for box in drawn) > 0.75 * figure.bbox.height


def shaded(figure):
    """Meshes, whose shades are their own."""
    return [c for axes in panels(figure) for c in axes.collections if c.get_rasterized()]


def test_the_dark_theme_can_be_read_and_keeps_pictures():
    photograph = np.random.default_rng(0).random((1, 4, 4, 3))
    ball = icosphere(1)
    for figure in (
        figures.image_rows([("a photograph", photograph), ("a map", np.eye(3)[None])]),
        figures.mesh_table([[figures.DrawnMesh(ball.vertices, ball.faces, ball.vertices[:, 0])]], ["mesh"], ["a"]),
        figures.spectrum_plot(np.arange(4.0), np.arange(4.0), np.zeros(4, int)),
        FIGURES["bands"](),
    ):
        figure.draw_without_rendering()
        pixels = [np.array(image.get_array()) for axes in figure.axes for image in axes.images]
        faces = [c.get_facecolor() for c in shaded(figure)]
        maps = {image.get_cmap().name for axes in figure.axes for image in axes.images if image.get_array().ndim == 2}
        themes.darken(figure)
        figure.draw_without_rendering()
        assert matplotlib.colors.same_color(figure.get_facecolor(), themes.PAPER)
        for text in figure.findobj(matplotlib.text.Text):
            assert themes.contrast(text.get_color(), themes.PAPER) >= 4.5, text
        for line in figure.findobj(matplotlib.lines.Line2D):
            grid = line.get_linestyle() == "-" and matplotlib.colors.same_color(line.get_color(), GRID)
            assert grid or line.get_color() == "none" or themes.contrast(line.get_color(), themes.PAPER) >= 4.4, line
        for before, image in zip(pixels, (i for axes in figure.axes for i in axes.images), strict=True):
            np.testing.assert_array_equal(before, image.get_array())
        after = [c.get_facecolor() for c in shaded(figure)]
        assert all(map(np.array_equal, faces, after))
        assert not maps & {
            image.get_cmap().name for axes in figure.axes for image in axes.images if image.get_array().ndim == 2
        }


def test_images_beside_meshes_keep_their_colours_on_a_dark_page():
    """A mesh is coloured by the same function as the image beside it."""
    ball = icosphere(1)
    mesh = figures.DrawnMesh(ball.vertices, ball.faces, ball.vertices[:, 0])
    figure = figures.mesh_table([[mesh, normal(0, 4, 8)]], ["mesh", "grid"], ["a"])
    themes.darken(figure)
    (image,) = (image for axes in figure.axes for image in axes.images)
    assert image.get_cmap().name == style.DIVERGING


@pytest.mark.parametrize(("name", "zero"), [(style.DIVERGING, 0.5), (style.SEQUENTIAL, 0.0)])
def test_zero_is_dark_on_a_dark_page(name, zero):
    dark = themes.COLOUR_MAPS[name]
    assert themes.contrast(dark(zero), themes.PAPER) < 1.3 and themes.contrast(dark(1.0), themes.PAPER) > 7
    red, _, blue, _ = dark(1.0)
    assert blue > red  # as on a light page, blue is above zero
