import io

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure

from niso import figures
from niso.geometry.domains import equirectangular
from niso.geometry.mesh.surface import icosphere

sizes = st.integers(1, 6)
seeds = st.integers(0, 10)
quick = settings(max_examples=3, deadline=None)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def panels(figure: Figure) -> list:
    """The axes that hold data, not colour bars; checks on the way that everything drawn is finite and can be drawn."""
    for axes in figure.axes:
        for image in axes.images:
            assert np.isfinite(np.ma.compressed(image.get_array())).all()
        for line in axes.lines:
            assert np.isfinite(np.ma.compressed(np.ma.asarray(line.get_ydata()))).all()
        for limits in (axes.get_xlim(), axes.get_ylim()):
            assert np.isfinite(limits).all()
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


@quick
@given(height=sizes, width=sizes, rank=st.integers(1, 12), seed=seeds)
def test_mosaic_has_a_tile_for_every_function(height, width, rank, seed):
    functions = normal(seed, height * width, rank)
    figure = figures.eigenfunction_mosaic(
        torch.tensor(functions, dtype=torch.bfloat16), (height, width), torch.arange(rank) / 2, torch.tensor(functions)
    )
    learned, true = panels(figure)
    assert len(learned.texts) == rank
    assert learned.images[0].get_array().count() == rank * height * width
    assert true.get_title() == "nearest true harmonics"
    assert np.abs(true.images[0].get_array()).max() == 1.0


def test_mosaic_shows_the_first_functions_and_says_so():
    (axes,) = panels(figures.eigenfunction_mosaic(normal(0, 16, 16), (4, 4), np.ones(16), count=9))
    assert axes.get_title().endswith("(the first 9 of 16)")
    assert axes.images[0].get_array().count() == 9 * 16


def test_mosaic_scales_each_function_and_keeps_its_sign():
    functions = np.array([[2.0, -0.5], [1.0, 0.25]])
    (axes,) = panels(figures.eigenfunction_mosaic(functions, (1, 2), np.ones(2)))
    np.testing.assert_allclose(axes.images[0].get_array().compressed(), [1.0, 0.5, -1.0, 0.5])


def test_points_must_fill_the_grid():
    with pytest.raises(ValueError, match="10 points do not fill a grid of 3 × 3"):
        figures.eigenfunction_mosaic(normal(0, 10, 2), (3, 3), np.ones(2))


@quick
@given(size=sizes, seed=seeds)
def test_signed_matrices_are_centred_at_zero(size, seed):
    left, right = panels(figures.matrix_pair(normal(seed, size, size), 9 * normal(seed, size, size), ("Ω", "L")))
    for axes in (left, right):
        low, high = axes.images[0].get_clim()
        assert low == -high == -np.abs(axes.images[0].get_array()).max()
    assert left.images[0].get_clim() != right.images[0].get_clim()


@quick
@given(height=sizes, width=sizes, seed=seeds)
def test_kernel_of_a_shift_invariant_operator_is_its_stencil(height, width, seed):
    stencil = normal(seed, height, width)
    columns = [np.roll(stencil, (p // width, p % width), (0, 1)).ravel() for p in range(height * width)]
    operator = np.stack(columns, axis=1)
    left, _ = panels(figures.kernel_pair(operator, operator, (height, width), ("a", "b")))
    expected = np.roll(stencil, (height // 2, width // 2), (0, 1))
    np.testing.assert_allclose(left.images[0].get_array(), expected)


@pytest.mark.slow
@quick
@given(blocks=st.lists(st.integers(1, 3), min_size=1, max_size=12), seed=seeds)
def test_map_is_ordered_and_its_blocks_outlined(blocks, seed):
    rank = sum(blocks)
    true = np.zeros((rank, rank))
    for end, size in zip(np.cumsum(blocks), blocks, strict=True):
        true[end - size : end, end - size : end] = 1.0
    order = np.random.default_rng(seed).permutation(rank)
    tau = np.empty_like(true)
    tau[np.ix_(order, order)] = -true
    before, after, detail = panels(figures.map_before_after(torch.tensor(tau), torch.tensor(order), blocks, zoom=4))
    np.testing.assert_array_equal(before.images[0].get_array(), np.abs(tau))
    np.testing.assert_array_equal(after.images[0].get_array(), true)
    (outlines,) = [c for c in after.collections if isinstance(c, PatchCollection)]
    assert len(outlines.get_paths()) == len(blocks)
    enlarged = detail.images[0].get_array()
    assert enlarged.shape[0] in np.cumsum(blocks)
    assert enlarged.shape[0] <= max(4, blocks[0])


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
    ascending, against = panels(figures.spectrum_plot(normal(seed, rank) ** 2, spaces.astype(float), spaces))
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
    axes = panels(figures.image_rows(rows, limits=(-1.0, 1.0)))
    assert len(axes) == 3 * count
    pixels = axes[0].images[0].get_array()
    np.testing.assert_allclose(pixels, ((colours[0] + 1) / 2).clip(0, 1))
    signed, magnitude = axes[count].images[0].get_clim(), axes[2 * count].images[0].get_clim()
    assert signed[0] in (-signed[1], 0.0)
    assert magnitude[0] == 0.0


def test_rows_of_no_images():
    with pytest.raises(ValueError, match="no images"):
        figures.image_rows([])


@pytest.mark.parametrize(("names", "expected"), [(1, 1), (2, 2), (4, 4), (5, 6)])
def test_training_curves_have_a_panel_for_every_column(names, expected):
    step = torch.arange(10, 110, 10)
    columns = {f"term_{i}": np.linspace(1, 100, 10) for i in range(names)}
    axes = panels(figures.training_curves(columns, step))
    assert len(axes) == expected
    assert axes[0].get_title() == "term 0"


def test_training_curves_choose_their_scale():
    columns = {
        "loss": np.array([1.0, 0.1, 0.01]),
        "flat": np.array([5.0, 4.0, 3.0]),
        "signed": np.array([1.0, 0.0, -1.0]),
        "broken": np.array([np.nan, np.inf, np.nan]),
        "learning_rate": np.array([1.0, 0.1, 0.01]),
    }
    axes = panels(figures.training_curves(columns, np.arange(3)))
    assert [a.get_yscale() for a in axes[:5]] == ["log", "linear", "linear", "linear", "linear"]


@quick
@given(rank=st.integers(1, 30), seed=seeds)
def test_energy_histogram_counts_every_eigenfunction(rank, seed):
    energy = np.random.default_rng(seed).random(rank)
    each, histogram = panels(figures.energy_histogram(energy, "energy"))
    assert sum(bar.get_height() for bar in histogram.patches) == rank
    assert each.get_ylim()[0] < energy.min()
    assert f"worst {energy.min():.4f}" in histogram.get_title()


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


def test_accuracy_by_strength_has_a_point_for_every_bin():
    curve = {"x": [0.5, 2.5], "y": [1.0, 0.5], "count": [4, 4], "x_label": "pixels", "y_label": "accuracy"}
    (axes,) = panels(figures.accuracy_by_strength(curve, 4 / 7, 7))
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.5, 100], [2.5, 50]])
    assert axes.get_xlabel() == "pixels" and axes.get_title() == "57.14 % of 7 images"
    (errors,) = (lines.get_segments() for lines in axes.collections)
    np.testing.assert_allclose([np.ptp(line[:, 1]) for line in errors], [0, 50])


def test_bands_have_a_line_each_and_a_band_where_there_is_an_error():
    x = np.arange(3.0)
    curves = [figures.Band("a", x, x, 0.1 * x, colour=1), figures.Band("b", torch.tensor(x), torch.ones(3), stroke=9)]
    figure = figures.bands(curves, "strength", "accuracy")
    (axes,) = panels(figure)
    assert len(axes.lines) == 2 and len(axes.collections) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    with pytest.raises(ValueError, match="no curves"):
        figures.bands([], "x", "y")


@quick
@given(size=st.sampled_from([4, 6]), seed=seeds)
def test_sphere_rows_have_a_disc_for_every_function(size, seed):
    functions = normal(seed, size * size, 4)
    panel = ("learned", functions)
    left, right = panels(
        figures.sphere_rows([panel, ("true", torch.tensor(functions))], (size, size), [[2], [0, 1, 3]], ["a", "b"], 16)
    )
    assert [text.get_text() for text in left.texts] == ["a", "b"] and not right.texts
    canvas = left.images[0].get_array()
    assert canvas.count() == pytest.approx(4 * np.pi * 8**2, rel=0.1)
    assert np.abs(canvas).max() == 1.0
    np.testing.assert_array_equal(canvas, right.images[0].get_array())


def test_spheres_are_seen_from_outside_with_north_up():
    """East is to the right, north is up: the height is a function that grows from bottom to top."""
    points = equirectangular.directions(16, 16, "driscoll-healy").reshape(256, 3)
    longitude = np.radians(-60)
    east = points[:, 1] * np.cos(longitude) - points[:, 0] * np.sin(longitude)
    functions = torch.stack([points[:, 2], east], 1)
    (axes,) = panels(figures.sphere_rows([("", functions)], (16, 16), [[0], [1]], ["", ""], 32))
    canvas = axes.images[0].get_array()
    up, across = canvas[:32, :32], canvas[36:68, :32]
    assert (np.diff(up[4:28, 16]) < 0).all() and (np.diff(across[16, 4:28]) > 0).all()


def test_mass_beside_has_one_scale():
    weights = np.array([1.0, 1.0, 3.0, 3.0])
    learned, true, rows = panels(figures.mass_beside(torch.tensor(10 * weights), weights, (2, 2), ("mass", "weights")))
    np.testing.assert_allclose(learned.images[0].get_array(), true.images[0].get_array())
    assert [text.get_text() for text in rows.get_legend().get_texts()] == ["weights", "mass"]


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
