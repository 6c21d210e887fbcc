import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from niso.networks.occlusion import PredictedConfidence, RandomOcclusion, SeenPoints, draw_occluder


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
    occluder = draw_occluder(torch.full((4,), 0.3), (8, 8))
    hidden = occluder.covered.expand_as(x)
    for mark in (True, False):
        y = occluder.over(x, mark)
        assert torch.equal(y[~hidden], x[~hidden])
        assert y[hidden].isnan().all() if mark else torch.equal(y[hidden], occluder.texture.expand_as(x)[hidden])


def test_random_occlusion_is_for_training():
    torch.manual_seed(0)
    occlusion, x = RandomOcclusion(0.5), torch.randn(16, 1, 8, 8)
    assert (occlusion(x) != x).any()
    assert torch.equal(occlusion.eval()(x), x)
    assert torch.equal(RandomOcclusion(0.0)(x), x)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        RandomOcclusion(1.5)


class Pixels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).mT


def test_unseen_pixels_lower_the_confidence_of_their_points():
    x = torch.zeros(2, 3, 4, 4)
    x[0, :, :2, 0] = torch.nan
    x[1, 1, 3, 3] = torch.nan  # one channel is enough
    encode = SeenPoints(nn.Sequential(nn.AvgPool2d(2), Pixels()), (2, 2))
    z = encode(x)
    assert z.shape == (2, 4, 4) and z.isfinite().all()
    assert torch.equal(z[0, :, -1], torch.tensor([0.25, 1, 1, 1]))
    assert torch.equal(z[1, :, -1], torch.tensor([1, 1, 1, 0.5625]))


def test_predicted_confidence_is_a_share_and_is_learned():
    x = torch.randn(2, 3, 4, 4, requires_grad=True)
    z = PredictedConfidence(Pixels())(x)
    assert z.shape == (2, 16, 3) and ((z[..., -1] > 0) & (z[..., -1] < 1)).all()
    z[..., -1].sum().backward()
    assert x.grad[:, 2].abs().min() > 0 and not x.grad[:, :2].any()
