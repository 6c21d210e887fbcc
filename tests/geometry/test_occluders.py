"""Occluders, still and passing: they cover the share that they should, with what they should, and move smoothly."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from niso.geometry.occluders import draw_occluder, draw_passing


@settings(max_examples=25, deadline=None)
@given(height=st.integers(1, 40), width=st.integers(1, 40), share=st.floats(0, 1), batch=st.integers(1, 5))
def test_occluders_cover_their_share(height, width, share, batch):
    torch.manual_seed(0)
    covered, texture = draw_occluder(torch.full((batch,), share), (height, width))
    assert covered.shape == texture.shape == (batch, 1, height, width)
    assert texture.isfinite().all() and texture.abs().max() <= 1
    pixels = covered.flatten(1).sum(1)
    # a rectangle's sides are whole numbers
    assert ((pixels - share * height * width).abs() <= 0.5 * (height + width) + 0.75).all()
    if share == 0:
        assert not covered.any()


def test_a_small_share_is_one_pixel_or_more():
    covered, _ = draw_occluder(torch.full((200,), 0.004), (16, 16), torch.Generator().manual_seed(0))
    pixels = covered.flatten(1).sum(1)
    assert pixels.min() >= 1 and pixels.max() <= 2


def test_occluders_are_rectangles_and_blobs_grey_and_textured():
    covered, texture = draw_occluder(torch.full((64,), 0.2), (40, 40), torch.Generator().manual_seed(0))
    box = [c[0].nonzero() for c in covered]
    rectangles = [len(p) == (p.amax(0) - p.amin(0) + 1).prod() for p in box]
    assert 16 < sum(rectangles) < 48
    assert 16 < sum(t.amax() == t.amin() for t in texture) < 48
    places = torch.stack([p.double().mean(0) for p in box])
    assert (places.std(0) > 4).all()  # anywhere


def test_an_occluder_hides_what_it_covers_and_nothing_else():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8, 8)
    for occluder in (
        draw_occluder(torch.full((4,), 0.3), (8, 8)),
        draw_passing(4).at(torch.zeros(4), torch.full((4,), 0.3), (8, 8)),
    ):
        hidden = occluder.covered.expand_as(x)
        for mark in (True, False):
            y = occluder.over(x, mark)
            assert torch.equal(y[~hidden], x[~hidden])
            assert y[hidden].isnan().all() if mark else torch.equal(y[hidden], occluder.texture.expand_as(x)[hidden])


@settings(max_examples=25, deadline=None)
@given(height=st.integers(1, 40), width=st.integers(1, 40), share=st.floats(0, 1), time=st.floats(-100, 1_000))
def test_passing_objects_cover_their_share_at_any_time(height, width, share, time):
    objects = draw_passing(5, 3, torch.Generator().manual_seed(0))
    covered, texture = objects.at(torch.full((5,), time), torch.full((5,), share), (height, width))
    assert covered.shape == (5, 1, height, width) and texture.shape == (5, 3, height, width)
    assert texture.isfinite().all() and texture.abs().max() <= 1 + 1e-6
    # pixels at the same distance from the centre come together
    assert ((covered.flatten(1).sum(1) - share * height * width).abs() <= 2.5).all()


def test_passing_objects_move_and_turn_back_at_the_edges():
    objects, share = draw_passing(12, 3, torch.Generator().manual_seed(0)), torch.full((12,), 0.1)
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")

    def centres(time):
        covered = objects.at(torch.full((12,), float(time)), share, (64, 64)).covered[:, 0].float()
        return torch.stack([(part * covered).sum((1, 2)) / covered.sum((1, 2)) for part in (rows, columns)], 1)

    path = torch.stack([centres(time) for time in range(121)])
    steps = (path[1:] - path[:-1]).norm(dim=-1)
    assert steps.max() < 12  # no leaps
    assert (path.amax(0) - path.amin(0)).amax(1).min() > 20  # the slowest passes one side in 60 frames, and comes back
    still = objects.at(torch.zeros(12), share, (64, 64))
    again = objects.at(torch.zeros(12), share, (64, 64))
    assert torch.equal(still.covered, again.covered) and torch.equal(still.texture, again.texture)


def test_the_texture_moves_with_the_object():
    objects = draw_passing(1, 3, torch.Generator().manual_seed(2))
    objects = objects._replace(
        start=torch.tensor([[0.3, 0.5]]), velocity=torch.tensor([[0.125, 0.0]]), spin=torch.zeros(1)
    )
    before, after = (objects.at(torch.tensor([time]), torch.full((1,), 0.1), (32, 32)).texture for time in (0.0, 1.0))
    torch.testing.assert_close(after[..., 4:], before[..., :-4], rtol=0, atol=1e-4)
    assert (after[..., 4:] - before[..., 4:]).abs().max() > 0.01


def test_the_aspect_of_an_object_is_that_of_its_sides():
    objects = draw_passing(1, 3, torch.Generator().manual_seed(0))._replace(
        start=torch.tensor([[0.5, 0.5]]), angle=torch.zeros(1), aspect=torch.tensor([4.0]), boxes=torch.tensor([True])
    )
    covered = objects.at(torch.zeros(1), torch.full((1,), 1 / 16), (64, 64)).covered[0, 0]
    assert (covered.any(0).sum(), covered.any(1).sum()) == (32, 8)


def test_objects_are_chosen_by_their_numbers():
    objects, index = draw_passing(4, 1, torch.Generator().manual_seed(0)), torch.tensor([2, 2, 0])
    chosen = objects.of(index).at(torch.zeros(3), torch.full((3,), 0.2), (8, 8))
    all_of_them = objects.at(torch.zeros(4), torch.full((4,), 0.2), (8, 8))
    assert torch.equal(chosen.covered, all_of_them.covered[index])


@pytest.mark.parametrize("count", [1, 64])
def test_half_of_the_objects_are_rectangles_and_no_blob_is_turned_inside_out(count):
    objects = draw_passing(count, 3, torch.Generator().manual_seed(0))
    if count > 1:
        assert 16 < objects.boxes.sum() < 48
    assert (objects.outline.norm(dim=-1).sum(1) < 1).all()
